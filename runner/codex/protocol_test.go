package codex

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/codex/schema"
)

// freely are the members whose own members are somebody else's.
var freely = []string{"config", "inputSchema", "content", "_meta", "answers", "permissions", "sandboxPolicy"}

// pathsOf lists the members of a JSON value with their types.
func pathsOf(into map[string]string, at string, v any) {
	name := at[strings.LastIndex(at, ".")+1:]
	switch v := v.(type) {
	case map[string]any:
		into[at] = "object"
		if slices.Contains(freely, name) {
			return
		}
		for member, value := range v {
			pathsOf(into, strings.TrimPrefix(at+"."+member, "."), value)
		}
	case []any:
		into[at] = "array"
		for _, value := range v {
			pathsOf(into, at+"[]", value)
		}
	case nil:
	default:
		into[at] = reflect.TypeOf(v).String()
	}
}

// tabled is what the table says of a message that we send.
func tabled(t *testing.T, list []Message, method string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range list {
		if m.Method != method {
			continue
		}
		for _, example := range slices.Concat(m.Says, slices.Collect(maps.Values(m.Instead))) {
			pathsOf(out, "", decoded(t, example))
		}
	}
	return out
}

// TestSpokenIsAllThatIsSent has the session send all that it can send: each request, and each of its members, stands in
// the table, with its type.
func TestSpokenIsAllThatIsSent(t *testing.T) {
	sent := everything(t)
	for method, params := range sent {
		known := tabled(t, Spoken().Requests, method)
		if len(known) == 0 {
			t.Errorf("the table has no %s", method)
			continue
		}
		paths := map[string]string{}
		pathsOf(paths, "", params)
		for path, kind := range paths {
			if known[path] != kind {
				t.Errorf("%s.%s is a %s: the table has %q", method, path, kind, known[path])
			}
		}
		for path := range known {
			if paths[path] == "" {
				t.Errorf("%s.%s stands in the table, but is never sent", method, path)
			}
		}
	}
	// What the source can send, so that nothing new is overlooked here.
	methods, tags := inSource(t)
	for _, method := range methods {
		if sent[method] == nil {
			t.Errorf("%s is not among what was sent", method)
		}
	}
	seen := map[string]bool{}
	for _, params := range sent {
		paths := map[string]string{}
		pathsOf(paths, "", params)
		for path := range paths {
			seen[strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")] = true
		}
	}
	if len(methods) < 6 || len(tags) < 15 {
		t.Fatalf("the source has only %q and %q", methods, tags)
	}
	for _, tag := range tags {
		if !seen[tag] {
			t.Errorf("the member %s is not among what was sent", tag)
		}
	}
}

// everything is the params of each request, sent with all that it may hold.
func everything(t *testing.T) map[string]any {
	t.Helper()
	s, p := connect(t, Options{Tools: []Tool{{Name: "t", Description: "d"}}})
	sent := map[string]any{}
	done := make(chan struct{})
	features := 0
	go func() {
		defer close(done)
		for p.in.Scan() {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			line := p.in.Text()
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Errorf("%v in %s", err, line)
			}
			v, err := schema.Decode([]byte(line))
			if err != nil {
				t.Errorf("%v in %s", err, line)
				return
			}
			if m.ID == nil {
				continue // initialized
			}
			sent[m.Method] = v.(map[string]any)["params"]
			answer := `{"thread":{"id":"th"},"turn":{"id":"tu"},"exitCode":0}`
			if m.Method == "experimentalFeature/list" && features == 0 {
				features++
				answer = `{"data":[{"name":"f"}],"nextCursor":"c"}`
			}
			p.say(`{"id":` + string(m.ID) + `,"result":` + answer + `}`)
			if m.Method == "turn/interrupt" {
				p.say(strings.Replace(turnCompleted, `"completed","items"`, `"interrupted","items"`, 1))
			}
		}
	}()
	params := ThreadParams{Cwd: "/w", ApprovalPolicy: json.RawMessage(`"never"`), Sandbox: json.RawMessage(`"read-only"`), Config: map[string]any{"a": 1}}
	policy := json.RawMessage(`{"type":"workspaceWrite"}`)
	turn := make(chan error, 1)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	_, err := s.Initialize(t.Context())
	check(err)
	_, err = s.StartThread(t.Context(), params)
	check(err)
	check(s.ResumeThread(t.Context(), "th", params))
	check(s.ProbeSandbox(t.Context(), "/w", policy))
	_, err = s.Account(t.Context())
	check(err)
	_, err = s.HomeConfig(t.Context(), "/w")
	check(err)
	_, err = s.Features(t.Context())
	check(err)
	_, err = s.Hooks(t.Context(), "/w")
	check(err)
	go func() {
		_, err := s.RunTurn(t.Context(), TurnParams{Input: "i", Cwd: "/w", Title: "t", ApprovalPolicy: params.ApprovalPolicy, SandboxPolicy: policy})
		turn <- err
	}()
	for until := time.Now().Add(20 * time.Second); s.turnID() == "" && time.Now().Before(until); {
		runtime.Gosched()
	}
	check(s.Interrupt(t.Context()))
	wantCode(t, <-turn, CodeTurnCancelled)
	check(s.Close())
	<-done
	return sent
}

// turnID is the id of the turn under way, "" before that is known.
func (s *Session) turnID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return ""
	}
	return s.turn.id
}

// inSource lists the methods that the package's source calls, and the members of the structs that it sends.
func inSource(t *testing.T) (methods, tags []string) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if word, err := strconv.Unquote(lit.Value); err == nil && !slices.Contains(methods, word) {
				methods = append(methods, word)
			}
		}
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Names) == 1 && n.Names[0].Name == "method" && len(n.Values) == 1 {
					add(n.Values[0])
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"call", "openThread", "inspect"}, f.Sel.Name) {
					for _, arg := range n.Args {
						add(arg)
					}
				}
			case *ast.TypeSpec:
				if name := n.Name.Name; strings.HasSuffix(name, "Request") && name != "wireRequest" || name == "toolSpec" || name == "inputItem" {
					tags = append(tags, tagsOf(n)...)
				}
			}
			return true
		})
	}
	return methods, tags
}

func tagsOf(n ast.Node) (tags []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			tag, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
			tags = append(tags, tag)
		}
		return true
	})
	return tags
}

// TestSpokenIsAllThatIsAnswered: the same for what codex's requests are answered with.
func TestSpokenIsAllThatIsAnswered(t *testing.T) {
	for method, shapes := range requests {
		known := tabled(t, Spoken().Served, method)
		if !slices.ContainsFunc(Spoken().Served, func(m Message) bool { return m.Method == method }) {
			if !slices.ContainsFunc(shapes, refusedOnly) {
				t.Errorf("the table has no %s", method)
			}
			continue
		}
		for _, shape := range shapes {
			for name, want := range shape.want {
				if want.answer == "" || strings.Contains(want.events, EventRequestRefused) {
					continue
				}
				paths := map[string]string{}
				pathsOf(paths, "", decoded(t, strings.ReplaceAll(want.answer, "SECONDS", "1")))
				for path, kind := range paths {
					if known[path] != kind && (path != "decision" || known[path] == "") {
						t.Errorf("%s, %s: %s is a %s, the table has %q", method, name, path, kind, known[path])
					}
				}
			}
		}
	}
}

// refusedOnly reports a request that gets an error, whatever the settings.
func refusedOnly(c requestCase) bool {
	for _, want := range c.want {
		if !strings.Contains(want.events, EventRequestRefused) {
			return false
		}
	}
	return true
}
