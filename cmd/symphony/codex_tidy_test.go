package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tidier takes machine, time and chance out of recordings.
type tidier struct {
	fixed  *strings.Replacer
	host   string
	ids    map[string]string
	deltas map[string]int
}

func newTidier(work, linear string) *tidier {
	host, _ := os.Hostname() // "" is no server's name
	fixed := strings.NewReplacer(filepath.Join(work, "codex-home"), "/CODEX_HOME", work, "/WORK", linear, "http://127.0.0.1:PORT")
	return &tidier{fixed: fixed, host: host, ids: map[string]string{}, deltas: map[string]int{}}
}

const (
	// longest is how much of a text is kept, deltasKept how many pieces of one item's.
	longest    = 240
	deltasKept = 8
)

func (t *tidier) all(lines []wireLine) []wireLine {
	var out []wireLine
	for _, l := range lines {
		if t.repeated(l.Msg) {
			continue
		}
		out = append(out, wireLine{T: math.Round(l.T*10) / 10, Dir: l.Dir, Msg: t.message(l.Msg)})
	}
	return out
}

// repeated says that a line is one more piece of an item of which enough are kept.
func (t *tidier) repeated(msg json.RawMessage) bool {
	var m struct {
		Method string `json:"method"`
		Params struct {
			ItemID string `json:"itemId"`
		} `json:"params"`
	}
	if json.Unmarshal(msg, &m) != nil || !strings.HasSuffix(strings.ToLower(m.Method), "delta") {
		return false
	}
	t.deltas[m.Params.ItemID]++
	return t.deltas[m.Params.ItemID] > deltasKept
}

func (t *tidier) message(msg json.RawMessage) json.RawMessage {
	var v any
	d := json.NewDecoder(bytes.NewReader(msg))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return msg // recorded as a string already
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	if err := to.Encode(t.value("", v)); err != nil {
		panic(err) // it was JSON
	}
	return bytes.TrimSpace(out.Bytes())
}

// moment is a time of the machine that recorded; the recordings all have the same.
const moment = 1795156000

func (t *tidier) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		tidied := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) { // names may be paths
			tidied[t.text("", k)] = t.value(k, v[k])
		}
		return tidied
	case []any:
		for i := range v {
			v[i] = t.value(key, v[i])
		}
	case json.Number:
		return t.number(key, v)
	case string:
		return t.text(key, v)
	}
	return v
}

func (t *tidier) number(key string, n json.Number) any {
	switch {
	case strings.HasSuffix(key, "AtMs"):
		return moment * 1000
	case strings.HasSuffix(key, "At"):
		return moment
	case key == "durationMs":
		return 1
	}
	return n
}

var (
	uuidPattern  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	runPattern   = regexp.MustCompile(`\b[0-9]{8}T[0-9]{6}\.[0-9]{3}-[0-9a-z]{6}\b`)
	stampPattern = regexp.MustCompile(`rollout-[0-9T-]+|[0-9]{4}/[0-9]{2}/[0-9]{2}|127\.0\.0\.1:[0-9]+`)
)

func (t *tidier) text(key, s string) string {
	switch {
	case key == "processId":
		return "1000"
	case key == "serverName" && s == t.host:
		return "HOST"
	}
	s = t.fixed.Replace(s)
	s = uuidPattern.ReplaceAllStringFunc(s, func(id string) string {
		if t.ids[id] == "" {
			t.ids[id] = fmt.Sprintf("00000000-0000-7000-8000-%012d", len(t.ids)+1)
		}
		return t.ids[id]
	})
	s = runPattern.ReplaceAllString(s, "RUN")
	s = stampPattern.ReplaceAllStringFunc(s, func(stamp string) string {
		switch {
		case strings.HasPrefix(stamp, "rollout"):
			return "rollout-"
		case strings.HasPrefix(stamp, "127"):
			return "127.0.0.1:PORT"
		}
		return "DAY"
	})
	if len(s) > longest {
		s = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:longest], ""), len(s))
	}
	return s
}
