package codextest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// record is one line of a transcript.
type record struct {
	Dir string          `json:"dir"`
	Msg json.RawMessage `json:"msg"`
}

type wire struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
}

// recordings reads what the scripts with the real codex have recorded.
func recordings(t *testing.T) (all [][]record) {
	t.Helper()
	files, err := filepath.Glob("../testdata/recorded/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings (%v)", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var records []record
		for line := range strings.Lines(string(text)) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			records = append(records, r)
		}
		all = append(all, records)
	}
	return all
}

// shapes are the member names of objects, by kind of message and place in it.
type shapes map[string]map[string]bool

// kindOf tells messages apart as far as their shape may differ.
func kindOf(msg map[string]any, answers map[string]string) string {
	method, _ := msg["method"].(string)
	if method == "" {
		return "answer to " + answers[fmt.Sprint(msg["id"])]
	}
	params, _ := msg["params"].(map[string]any)
	if item, ok := params["item"].(map[string]any); ok {
		return method + " " + fmt.Sprint(item["type"])
	}
	return method
}

// isData reports a place whose members are data and not shape.
func isData(path string) bool {
	for _, f := range []string{
		".permissions.", ".arguments", ".agentsStates", ".codexErrorInfo", ".rateLimits.", ".sandbox", ".codexHome", ".gitInfo", ".commandActions", ".availableDecisions", ".activePermissionProfile",
	} {
		if strings.Contains(path, f) {
			return true
		}
	}
	return false
}

// walk calls visit for every object in v.
func walk(path string, v any, visit func(path, members string)) {
	switch v := v.(type) {
	case map[string]any:
		if isData(path) {
			return
		}
		names := make([]string, 0, len(v))
		for k, member := range v {
			names = append(names, k)
			walk(path+"."+k, member, visit)
		}
		slices.Sort(names)
		visit(path, strings.Join(names, " "))
	case []any:
		for _, member := range v {
			walk(path+"[]", member, visit)
		}
	}
}

func (s shapes) learn(kind string, msg map[string]any) {
	walk(kind, msg, func(path, members string) {
		if s[path] == nil {
			s[path] = make(map[string]bool)
		}
		s[path][members] = true
	})
}

// TestShapes compares the members of what the scripted server sends with those of the recordings.
func TestShapes(t *testing.T) {
	recorded := make(shapes)
	for _, records := range recordings(t) {
		asked := make(map[string]string)
		for _, rec := range records {
			var msg map[string]any
			if json.Unmarshal(rec.Msg, &msg) != nil {
				continue
			}
			switch method, _ := msg["method"].(string); {
			case rec.Dir == "send" && method != "":
				asked[fmt.Sprint(msg["id"])] = method
			case rec.Dir == "recv":
				recorded.learn(kindOf(msg, asked), msg)
			}
		}
	}
	home := t.TempDir()
	var sent [][]byte
	first := newTap(&sent)
	first.run(t, home, `{"cwd":"CWD","approvalPolicy":"never"}`, "", script(
		"sh echo out; exit 3", "background sleep 1000", "say b c", "patch f t", `tool linear_graphql {"query":"q"}`, "tokens 1 2", "subagent s", "ask-command true", "ask-file g", "ask-permissions", "ask-user q?", "long 10", "say end",
		"turn 2:", "fail httpConnectionFailed=503 no"), "continuation turn #2 of 3")
	second := newTap(&sent)
	second.run(t, home, `{"cwd":"CWD","threadId":"`+first.thread+`","excludeTurns":true}`, first.thread, "go on", "```agent\ncancel\n```")
	kinds := make(map[string]bool)
	for _, line := range sent {
		var msg map[string]any
		if err := json.Unmarshal(line, &msg); err != nil {
			t.Errorf("not a message: %s", line)
			continue
		}
		kind := kindOf(msg, map[string]string{"1": "initialize", "2": "thread/start", "22": "thread/resume", "3": "turn/start"})
		kinds[kind] = true
		walk(kind, msg, func(path, members string) {
			if !recorded[path][members] {
				t.Errorf("%s has %s,\nrecorded: %v", path, members, recorded[path])
			}
		})
	}
	if len(kinds) < 25 {
		t.Errorf("only %d kinds of messages were compared: %v", len(kinds), kinds)
	}
}

// tap is a client that approves every request and keeps every line that the server sends.
type tap struct {
	sent   *[][]byte
	thread string
}

func newTap(sent *[][]byte) *tap { return &tap{sent: sent} }

func (p *tap) run(t *testing.T, home, params, resume string, prompts ...string) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		exited <- codextest.Main([]string{"app-server", "--home", home}, inR, outW, io.Discard)
		_ = outW.Close()
	}()
	lines := bufio.NewScanner(outR)
	lines.Buffer(nil, 1<<24)
	say := func(format string, args ...any) { fmt.Fprintf(inW, format+"\n", args...) }
	next := func(want func(wire, map[string]any) bool) map[string]any {
		for lines.Scan() {
			var w wire
			var msg map[string]any
			if json.Unmarshal(lines.Bytes(), &w) != nil || json.Unmarshal(lines.Bytes(), &msg) != nil {
				t.Fatalf("not a message: %s", lines.Bytes())
			}
			*p.sent = append(*p.sent, slices.Clone(lines.Bytes()))
			if w.Method != "" && w.ID != nil {
				go say(`{"id":%s,"result":{"decision":"accept","answers":{},"permissions":{},"scope":"turn","contentItems":[],"success":true}}`, w.ID)
			}
			if want(w, msg) {
				return msg
			}
		}
		t.Fatal("the server ended")
		return nil
	}
	answer := func(id string) func(wire, map[string]any) bool {
		return func(w wire, _ map[string]any) bool { return w.Method == "" && string(w.ID) == id }
	}
	go say(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"tap","version":"1"}}}`)
	next(answer("1"))
	method, id := "thread/start", "2"
	if resume != "" {
		method, id = "thread/resume", "22"
	}
	go say(`{"id":%s,"method":%q,"params":%s}`, id, method, strings.ReplaceAll(params, "CWD", t.TempDir()))
	p.thread = next(answer(id))["result"].(map[string]any)["thread"].(map[string]any)["id"].(string)
	for _, prompt := range prompts {
		text, err := json.Marshal(prompt)
		if err != nil {
			t.Fatal(err)
		}
		go say(`{"id":3,"method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":%s}]}}`, p.thread, text)
		next(func(w wire, _ map[string]any) bool {
			return w.Method == "turn/completed" && string(w.Params["threadId"]) == `"`+p.thread+`"`
		})
	}
	_ = inW.Close()
	for lines.Scan() {
	}
	if code := <-exited; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func script(lines ...string) string { return "```agent\n" + strings.Join(lines, "\n") + "\n```" }
