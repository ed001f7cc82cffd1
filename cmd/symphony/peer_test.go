package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// codexMain is the main function of the scripted codex. With --fault specified it ends at what the
// specification does not name, and with --fault second at what the second version of the protocol
// does not have, either.
func codexMain() {
	in := io.Reader(os.Stdin)
	out := io.Writer(os.Stdout)
	second := slices.Contains(os.Args, "second")
	if second || slices.Contains(os.Args, "specified") {
		in = checked(in, second)
		out = lowering{out}
	}
	os.Exit(codextest.Main(os.Args[1:], in, out, os.Stderr))
}

// lowering repeats each report of tokens, and then reports less: a client must take totals
// neither for the use since the last report nor for the end of a thread's count.
type lowering struct{ io.Writer }

func (l lowering) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"thread/tokenUsage/updated"`)) {
		lower := regexp.MustCompile(`(Tokens":)\d+`).ReplaceAll(line, []byte("${1}1"))
		line = slices.Concat(line, line, lower)
	}
	_, err := l.Writer.Write(line)
	return len(line), err
}

// checked passes on the lines of a client. The process ends at one that a strict peer does not
// know.
func checked(in io.Reader, second bool) io.Reader {
	out, passed := io.Pipe()
	go func() {
		p := peer{second: second}
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if err := p.line(lines.Bytes()); err != nil {
				fmt.Fprintln(os.Stderr, "peer: "+err.Error())
				os.Exit(1)
			}
			fmt.Fprintf(passed, "%s\n", lines.Bytes())
		}
		_ = passed.Close()
	}()
	return out
}

// peer checks each line of the client as a program does that was written from the text of the
// specification alone, and that ends at anything else: another method, another member, another
// id, or a request out of turn.
type peer struct {
	requests int  // number of requests from the client
	second   bool // it knows the second version of the protocol
	named    bool // it has got the name of the thread
}

// peerRequests are the requests of section 10.2 of the specification and of the second version of
// the protocol, with the members of their parameters.
var peerRequests = map[string]peerMembers{
	"initialize": {
		needed: []string{"clientInfo", "capabilities"},
		inside: map[string][]string{
			"clientInfo":   {"name", "title", "version"},
			"capabilities": {"experimentalApi"},
		},
	},
	"thread/start": {
		needed: []string{"approvalPolicy", "sandbox", "cwd"},
		others: []string{"dynamicTools"},
		inside: map[string][]string{"dynamicTools": {"name", "description", "inputSchema"}},
	},
	"turn/start": {
		needed: []string{"threadId", "input", "cwd", "title", "approvalPolicy", "sandboxPolicy"},
		inside: map[string][]string{"input": {"type", "text"}},
	},
	"thread/name/set": {needed: []string{"threadId", "name"}},
	"turn/interrupt":  {needed: []string{"threadId", "turnId"}},
}

// peerMembers are the members of an object.
type peerMembers struct {
	needed []string
	others []string
	inside map[string][]string // the members of its objects, and of the objects in its lists
}

// peerMessage is a line of the client.
type peerMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// line returns the fault in a line of the client, nil for none.
func (p *peer) line(line []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(line, &all); err != nil {
		return fmt.Errorf("no JSON object: %w", err)
	}
	var m peerMessage
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("no message: %w", err)
	}
	known := []string{"id", "method", "params"}
	if m.Method == "" {
		known = []string{"id", "result", "error"}
	}
	if err := onlyKnown("a message", slices.Collect(maps.Keys(all)), known); err != nil {
		return err
	}
	switch {
	case m.Method == "":
		return nil // an answer
	case m.Method == "initialized" && p.requests == 1 && m.ID == nil:
		return nil
	}
	return p.request(&m)
}

// request checks a request. The first is initialize, the second thread/start, and all others
// are turn/start. In the second version the thread gets its name before the first turn, by a
// request with an id of its own, and a turn may be interrupted.
func (p *peer) request(m *peerMessage) error {
	if p.second && m.Method == "thread/name/set" && p.requests == 2 && !p.named {
		p.named = true
		return p.members(m)
	}
	p.requests++
	if p.second && m.Method == "turn/interrupt" && p.requests > 3 {
		return p.members(m)
	}
	if p.second && m.Method == "turn/start" && !p.named {
		return errors.New("turn/start before thread/name/set")
	}
	expected := []string{"", "initialize", "thread/start", "turn/start"}[min(p.requests, 3)]
	if m.Method != expected {
		return fmt.Errorf("%s instead of %s", m.Method, expected)
	}
	if id := fmt.Sprint(p.requests); string(m.ID) != id {
		return fmt.Errorf("%s with the id %s instead of %s", m.Method, m.ID, id)
	}
	return p.members(m)
}

// members checks the parameters of a request.
func (p *peer) members(m *peerMessage) error {
	var params map[string]json.RawMessage
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return fmt.Errorf("the parameters of %s: %w", m.Method, err)
	}
	rule := peerRequests[m.Method]
	for _, name := range rule.needed {
		if params[name] == nil {
			return fmt.Errorf("%s without %s", m.Method, name)
		}
	}
	if err := onlyKnown(m.Method, slices.Collect(maps.Keys(params)), append(rule.needed, rule.others...)); err != nil {
		return err
	}
	for name, known := range rule.inside {
		for _, object := range objectsIn(params[name]) {
			if err := onlyKnown(m.Method+"'s "+name, slices.Collect(maps.Keys(object)), known); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectsIn returns the object, or the objects in the list.
func objectsIn(raw json.RawMessage) []map[string]any {
	var one map[string]any
	if json.Unmarshal(raw, &one) == nil && one != nil {
		return []map[string]any{one}
	}
	var list []map[string]any
	_ = json.Unmarshal(raw, &list) // other values have no members
	return list
}

// onlyKnown returns an error if an object contains members that are not known.
func onlyKnown(what string, names, known []string) error {
	isKnown := func(name string) bool { return slices.Contains(known, name) }
	more := slices.DeleteFunc(slices.Sorted(slices.Values(names)), isKnown)
	if len(more) == 0 {
		return nil
	}
	return errors.New(what + " with " + strings.Join(more, ", "))
}
