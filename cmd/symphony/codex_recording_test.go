package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// recordings is where the conversations of these scripts are kept, for the tests that replay them without codex.
var recordings = filepath.Join("..", "..", "runner", "codex", "testdata", "recorded")

// wireLikeCmd holds the script's conversations with codex, in the order in which its processes began, to those kept
// under NAME: they must ask, answer and end alike. `set codex.command $RECORDED_CODEX` before it writes them down. With
// UPDATE_RECORDINGS it keeps them instead. N leaves out what comes after the first N of them. wire-like NAME [N]
func wireLikeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 || neg {
		ts.Fatalf("usage: wire-like NAME [N]")
	}
	files, err := filepath.Glob(ts.MkAbs("wire/*.jsonl"))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("nothing was recorded; set codex.command $RECORDED_CODEX")
	}
	slices.Sort(files)
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		files = files[:n]
	}
	for i, file := range files {
		name := args[0]
		if len(files) > 1 {
			name += "_" + strconv.Itoa(i+1)
		}
		lines, err := readWire(file)
		ts.Check(err)
		now := newTidier(ts.Getenv("WORK"), ts.Getenv("LINEAR_URL")).all(lines)
		path := filepath.Join(recordings, name+".jsonl")
		if os.Getenv("UPDATE_RECORDINGS") != "" {
			ts.Check(writeWire(path, now))
			continue
		}
		kept, err := readWire(path)
		ts.Check(err)
		if got, want := gist(now), gist(kept); got != want {
			ts.Fatalf("%s: the conversation was\n%s\nand was recorded as\n%s(UPDATE_RECORDINGS=1 keeps the new one)", name, got, want)
		}
	}
}

func readWire(path string) ([]wireLine, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lines []wireLine
	for text := range bytes.Lines(data) {
		var l wireLine
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func writeWire(path string, lines []wireLine) error {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	for _, l := range lines {
		if err := to.Encode(l); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// gist is what two recordings of one flow have in common: what either side asks of the other and is answered, and how
// turns end. When a sub-agent's ends is chance.
func gist(lines []wireLine) string {
	var out strings.Builder
	asked := map[string]string{} // what codex asked, by its id
	thread := ""                 // that of the first turn
	for _, l := range lines {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
			Params struct {
				ThreadID string `json:"threadId"`
				Turn     struct {
					Status string `json:"status"`
				} `json:"turn"`
			} `json:"params"`
		}
		if json.Unmarshal(l.Msg, &m) != nil {
			continue // a line that is no message
		}
		if thread == "" && m.Method == "turn/started" {
			thread = m.Params.ThreadID
		}
		switch id := string(m.ID); {
		case m.Method == "thread/name/set": // its answer is not waited for
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

// excerpt leaves out of an answer what tools said.
func excerpt(answer json.RawMessage) string {
	return string(answer[:min(len(answer), 60)])
}
