package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// wireLine is a line of a recording: a message that the client sent ("send") or received
// ("recv"), and the seconds since the start.
type wireLine struct {
	T   float64         `json:"t"`
	Dir string          `json:"dir"`
	Msg json.RawMessage `json:"msg"`
}

// wireMain runs a command and records the lines of its stdin and stdout in a file of FOLDER.
// It exits like the command: codex-wire FOLDER COMMAND ARG...
func wireMain() {
	began := time.Now()
	test.OK(mainT{}, os.MkdirAll(os.Args[1], 0o700))
	name := filepath.Join(os.Args[1], fmt.Sprintf("%d.jsonl", began.UnixNano()))
	w := &wire{
		began: began,
		to:    newEncoder(test.Must(os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600))),
	}
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stderr = os.Stderr
	stdin := test.Must(cmd.StdinPipe())
	stdout := test.Must(cmd.StdoutPipe())
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	test.OK(mainT{}, cmd.Start())
	go func() {
		for s := range terminated {
			_ = cmd.Process.Signal(s) // the agent may have ended
		}
	}()
	go func() {
		_ = w.copy(stdin, os.Stdin, "send") // the agent may have ended
		_ = stdin.Close()
	}()
	test.OK(mainT{}, w.copy(os.Stdout, stdout, "recv"))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		test.OK(mainT{}, err)
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		signal.Reset()
		test.OK(mainT{}, syscall.Kill(os.Getpid(), status.Signal()))
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// newEncoder encodes JSON as codex does.
func newEncoder(to io.Writer) *json.Encoder {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return e
}

// wire records lines before it passes them on.
type wire struct {
	began time.Time
	mu    sync.Mutex
	to    *json.Encoder
}

func (w *wire) copy(to io.Writer, from io.Reader, dir string) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			w.note(dir, line)
			if _, wrote := to.Write(line); wrote != nil {
				return wrote
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *wire) note(dir string, line []byte) {
	msg := json.RawMessage(line)
	if !json.Valid(line) {
		msg = test.Must(json.Marshal(string(line)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	test.OK(mainT{}, w.to.Encode(wireLine{T: time.Since(w.began).Seconds(), Dir: dir, Msg: msg}))
}

// recordings is the folder of recorded conversations, which the tests of package codex replay.
var recordings = filepath.Join("..", "..", "runner", "codex", "testdata", "recorded")

// wireLikeCmd compares the script's conversations with codex, or the first N, with the
// recordings called NAME: the requests, answers and ends of turns must be the same. They are
// recorded after `set codex.command $RECORDED_CODEX`. With UPDATE_RECORDINGS the command
// replaces the recordings: wire-like NAME [N]
func wireLikeCmd(ts *testscript.TestScript, neg bool, args []string) {
	files := test.Must(filepath.Glob(ts.MkAbs("wire/*.jsonl")))
	if len(files) == 0 {
		ts.Fatalf("nothing was recorded; set codex.command $RECORDED_CODEX")
	}
	slices.Sort(files)
	if len(args) == 2 {
		files = files[:test.Must(strconv.Atoi(args[1]))]
	}
	for i, file := range files {
		name := args[0]
		if len(files) > 1 {
			name += "_" + strconv.Itoa(i+1)
		}
		now := newTidier(ts.Getenv("WORK"), ts.Getenv("LINEAR_URL")).all(readWire(ts, file))
		path := filepath.Join(recordings, name+".jsonl")
		if os.Getenv("UPDATE_RECORDINGS") != "" {
			var out bytes.Buffer
			for _, l := range now {
				ts.Check(newEncoder(&out).Encode(l))
			}
			ts.Check(os.WriteFile(path, out.Bytes(), 0o644))
			continue
		}
		got := gist(now)
		want := gist(readWire(ts, path))
		if got != want {
			ts.Fatalf(
				"%s: the conversation was\n%s\nand was recorded as\n%s(UPDATE_RECORDINGS=1 keeps the new one)",
				name,
				got,
				want,
			)
		}
	}
}

func readWire(ts *testscript.TestScript, path string) (lines []wireLine) {
	data, err := os.ReadFile(path)
	ts.Check(err)
	for text := range bytes.Lines(data) {
		var l wireLine
		if err := json.Unmarshal(text, &l); err != nil {
			ts.Fatalf("%s, line %d: %v", path, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// gist returns the common part of two recordings of the same flow: the requests and answers of
// both sides and the ends of the first thread's turns. The turns of sub-agents may end in any
// order.
func gist(lines []wireLine) string {
	var out strings.Builder
	asked := map[string]string{} // the methods of codex's requests, by id
	thread := ""                 // the thread of the first turn
	for _, l := range lines {
		var m struct {
			ID, Result, Error json.RawMessage
			Method            string
			Params            struct {
				ThreadID string
				Turn     struct{ Status string }
			}
		}
		if json.Unmarshal(l.Msg, &m) != nil {
			continue // the line is not a message
		}
		if thread == "" && m.Method == "turn/started" {
			thread = m.Params.ThreadID
		}
		id := string(m.ID)
		switch {
		case m.Method == "thread/name/set": // the client does not wait for its answer
		case l.Dir == "send" && m.Method != "":
			fmt.Fprintf(&out, "> %s\n", m.Method)
		case l.Dir == "send" && asked[id] != "":
			fmt.Fprintf(&out, "> answer to %s: %s%s\n", asked[id], excerpt(m.Result), excerpt(m.Error))
		case l.Dir == "recv" && m.Method != "" && id != "":
			asked[id] = m.Method
			fmt.Fprintf(&out, "< %s\n", m.Method)
		case m.Method == "turn/completed" && m.Params.ThreadID == thread:
			fmt.Fprintf(&out, "< %s: %s\n", m.Method, m.Params.Turn.Status)
		}
	}
	return out.String()
}

// excerpt truncates an answer, so that it does not contain the output of tools.
func excerpt(answer json.RawMessage) string {
	return string(answer[:min(len(answer), 60)])
}

// tidier replaces the parts that differ between recordings: paths, ports, times and ids.
type tidier struct {
	fixed  *strings.Replacer
	host   string
	ids    map[string]string
	deltas map[string]int
}

func newTidier(work, linear string) *tidier {
	host, _ := os.Hostname() // "" matches no server
	fixed := strings.NewReplacer(
		filepath.Join(work, "codex-home"),
		"/CODEX_HOME",
		work,
		"/WORK",
		linear,
		"http://127.0.0.1:PORT",
	)
	return &tidier{fixed: fixed, host: host, ids: map[string]string{}, deltas: map[string]int{}}
}

const (
	// longest is the number of bytes that are kept of a text, deltasKept the number of deltas
	// of an item.
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

// repeated reports whether the message is a delta beyond the first deltasKept of its item.
func (t *tidier) repeated(msg json.RawMessage) bool {
	var m struct {
		Method string
		Params struct{ ItemID string }
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
	test.OK(mainT{}, newEncoder(&out).Encode(t.value("", v)))
	return bytes.TrimSpace(out.Bytes())
}

// moment replaces all times in recordings.
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
	cut := ""
	if len(s) > 10*longest { // the patterns take seconds for a message of megabytes
		cut = s[2*longest:]
		s = s[:2*longest]
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
		s = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:longest], ""), len(s)+len(cut))
	}
	return s
}
