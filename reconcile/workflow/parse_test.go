package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const literalKey = "lin_api_0123456789abcdef"

func literalFile(value string) string {
	return "---\ntracker:\n  kind: linear\n  api_key: " + value + "\n  project_slug: b\n---\nGo.\n"
}

// TestRedacted: the copy differs from the file in the key alone, and means the same where the key is supplied.
func TestRedacted(t *testing.T) {
	const placeholder = "$SYMPHONY_LITERAL_API_KEY"
	for _, tt := range []struct{ text, want string }{
		{literalFile(literalKey), literalFile(placeholder)},
		{literalFile(literalKey + "   # mine"), literalFile(placeholder + "   # mine")},
		{literalFile("'" + literalKey + "'"), literalFile("'" + placeholder + "'")},
		{literalFile(`"` + literalKey + `"`), literalFile(`"` + placeholder + `"`)},
		{literalFile("'" + literalKey + "'# mine"), literalFile("'" + placeholder + "'# mine")},
		{literalFile(literalKey + " # not " + literalKey), literalFile(placeholder + " # not " + placeholder)},
		{strings.ReplaceAll(literalFile(literalKey), "\n", "\r\n"), strings.ReplaceAll(literalFile(placeholder), "\n", "\r\n")},
		{"\ufeff" + literalFile(literalKey), "\ufeff" + literalFile(placeholder)},
		{
			"---\ntracker: {kind: linear, assignee: Zoë, api_key: " + literalKey + ", project_slug: b}\n---\nGo.\n",
			"---\ntracker: {kind: linear, assignee: Zoë, api_key: " + placeholder + ", project_slug: b}\n---\nGo.\n",
		},
		{
			"---\ntracker:\n  kind: linear\n  project_slug: b\n  api_key: " + literalKey + "\n  provider:\n    api_key: '" + literalKey + "'\n---\nGo.\n",
			"---\ntracker:\n  kind: linear\n  project_slug: b\n  api_key: " + placeholder + "\n  provider:\n    api_key: '" + placeholder + "'\n---\nGo.\n",
		},
		{literalFile("&k !!str " + literalKey), literalFile("&k !!str " + placeholder)},
		{literalFile(">-\n    " + literalKey), literalFile(">-\n    " + placeholder)},
	} {
		cfg, err := Parse(source(t, tt.text), Environment{Home: "/home/ann", Temp: "/tmp"})
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if got := string(cfg.Redacted); got != tt.want || !cfg.KeyIsLiteral {
			t.Errorf("got  %q\nwant %q (literal %v)", got, tt.want, cfg.KeyIsLiteral)
		}
		key := cfg.Tracker.APIKey
		again, err := Parse(source(t, string(cfg.Redacted)), Environment{Temp: "/tmp", Lookup: func(name string) (string, bool) {
			return key.Reveal(), name == LiteralKeyVar
		}})
		if err != nil || again.Tracker.APIKey != key || again.Policy.Project != cfg.Policy.Project || again.KeyIsLiteral {
			t.Errorf("%q read back: %v", tt.want, err)
		}
	}
}

func TestRedactedRefusesWhatItCannotFind(t *testing.T) {
	for value, part := range map[string]string{
		`"lin_api_0123456789\x61bcdef"`:                 "must stand on one line",
		`"lin_api_0123456789\x61bcdef" # ` + literalKey: "must stand on one line",
		"\"lin_api_\\\n    0123456789abcdef\"":          "must stand on one line",
		"kind":                                          "too short for a key",
	} {
		cfg, err := Parse(source(t, literalFile(value)), Environment{Temp: "/tmp"})
		wantCode(t, err, CodeInvalid, "tracker.api_key: ")
		wantCode(t, err, CodeInvalid, part)
		if strings.Contains(err.Error(), literalKey) || cfg.Redacted != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// TestPlaceholderHasNoFallback: the key of another account must not be used for a workflow that had its own.
func TestPlaceholderHasNoFallback(t *testing.T) {
	_, err := Parse(source(t, literalFile("$"+LiteralKeyVar)), testEnv())
	wantCode(t, err, CodeMissingAPIKey, "was not kept")
	env := testEnv()
	env.KeyOptional = true
	cfg, err := Parse(source(t, literalFile("$"+LiteralKeyVar)), env)
	if err != nil || cfg.Tracker.APIKey != "" {
		t.Errorf("optional: %v", err)
	}
}

func TestAPIKey(t *testing.T) {
	without := strings.Replace(literalFile("X"), "  api_key: X\n", "", 1)
	for _, tt := range []struct {
		name, text string
		vars       map[string]string
		want       string // the key; empty: missing
	}{
		{"canonical", without, map[string]string{"LINEAR_API_KEY": "a"}, "a"},
		{"canonical empty", without, map[string]string{"LINEAR_API_KEY": ""}, ""},
		{"none", without, nil, ""},
		{"variable", literalFile("$K"), map[string]string{"K": "b", "LINEAR_API_KEY": "a"}, "b"},
		{"braces", literalFile("${K}"), map[string]string{"K": "b"}, "b"},
		{"variable empty", literalFile("$K"), map[string]string{"K": "", "LINEAR_API_KEY": "a"}, ""},
		{"variable not set", literalFile("$K"), map[string]string{"LINEAR_API_KEY": "a"}, "a"},
		{"nothing set", literalFile("$K"), nil, ""},
		{"empty", literalFile(`""`), map[string]string{"LINEAR_API_KEY": "a"}, ""},
		{"null", literalFile("~"), map[string]string{"LINEAR_API_KEY": "a"}, "a"},
		{"newline at the end", literalFile("$K"), map[string]string{"K": "b\n"}, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := Environment{Temp: "/tmp", Lookup: func(n string) (string, bool) { v, ok := tt.vars[n]; return v, ok }}
			cfg, err := Parse(source(t, tt.text), env)
			if tt.want == "" {
				wantCode(t, err, CodeMissingAPIKey, "tracker.api_key")
				return
			}
			if err != nil || cfg.Tracker.APIKey.Reveal() != tt.want || cfg.KeyIsLiteral {
				t.Errorf("got %q, %v", cfg.Tracker.APIKey.Reveal(), err)
			}
		})
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	cfg, err := Parse(source(t, literalFile(literalKey)), Environment{Temp: "/tmp"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", cfg.Tracker.APIKey, "tracker", cfg.Tracker)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", cfg.Tracker.APIKey, "tracker", cfg.Tracker)
	all := fmt.Sprintf("%v %+v %#v %s %q", cfg.Tracker, cfg.Tracker, cfg.Tracker, cfg.Tracker.APIKey, cfg.Tracker.APIKey) + string(raw) + log.String()
	if strings.Contains(all, literalKey) {
		t.Errorf("the key is told: %s", all)
	}
	if cfg.Tracker.APIKey.Reveal() != literalKey {
		t.Error("and it is not even right")
	}
}

// TestErrorsHideTheKey: where the key was pasted into another key too, the message about that leaves it out.
func TestErrorsHideTheKey(t *testing.T) {
	text := strings.Replace(literalFile(literalKey), "---\nGo", "agent:\n  max_turns: "+literalKey+"\n  "+literalKey+": 1\n  network: "+
		strings.Repeat("x", 1000)+literalKey+"\n---\nGo", 1)
	cfg, err := Parse(source(t, text), Environment{Temp: "/tmp"})
	wantCode(t, err, CodeInvalid, "agent.max_turns")
	if all := err.Error() + fmt.Sprint(cfg.Warnings); strings.Contains(all, literalKey) || len(all) > 1500 {
		t.Errorf("the key is told: %v %v", err, cfg.Warnings)
	}
}

// TestEveryKeyIsRead: a value that no key can take is refused by each key of the table, so that none is accepted
// and ignored; and the parser asks for none that is not in the table.
func TestEveryKeyIsRead(t *testing.T) {
	for _, k := range Keys() {
		parts := strings.Split(k.Name, ".")
		nested := strings.Join(parts, ": {") + ": [[x]]" + strings.Repeat("}", len(parts)-1)
		_, err := Parse(source(t, "---\n"+nested+"\n---\nGo.\n"), testEnv())
		found := false
		for _, f := range Faults(err) {
			found = found || f.Code == CodeInvalid && strings.HasPrefix(f.Message, "WORKFLOW.md:2: "+k.Name+": ")
		}
		if !found {
			t.Errorf("%s is not read: %v", k.Name, err)
		}
		if k.Meaning == "" || k.Type == "" || strings.Contains(k.Meaning, "\n") {
			t.Errorf("%s is not described: %+v", k.Name, k)
		}
	}
	for key := range Unbuilt() {
		for _, k := range Keys() {
			if k.Name == key {
				t.Errorf("%s is both there and not built", key)
			}
		}
	}
}

func TestAssigneeVariable(t *testing.T) {
	file := func(v string) string {
		return strings.Replace(literalFile("$LINEAR_API_KEY"), "  kind", "  assignee: "+v+"\n  kind", 1)
	}
	for _, tt := range []struct {
		value, want string
		warned      bool
	}{{"~", "canon", false}, {"ann", "ann", false}, {"$ME", "me@x", false}, {"$UNSET", "canon", false}, {"$EMPTY", "", true}} {
		vars := map[string]string{"LINEAR_API_KEY": "k", "LINEAR_ASSIGNEE": "canon", "ME": "me@x", "EMPTY": ""}
		cfg, err := Parse(source(t, file(tt.value)), Environment{Lookup: func(n string) (string, bool) { v, ok := vars[n]; return v, ok }})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Policy.Assignee != tt.want || len(cfg.Warnings) > 0 != tt.warned {
			t.Errorf("%s: %q, %v", tt.value, cfg.Policy.Assignee, cfg.Warnings)
		}
	}
}

func TestProjectVariable(t *testing.T) {
	file := func(slug string) string {
		return strings.Replace(literalFile("$LINEAR_API_KEY"), "slug: b", "slug: "+slug, 1)
	}
	env := func(value string) Environment {
		vars := map[string]string{"LINEAR_API_KEY": "k", "BOARD": value}
		return Environment{EnvFile: "/etc/x.env", Lookup: func(n string) (string, bool) { v, ok := vars[n]; return v, ok }}
	}
	for value, want := range map[string]string{"board-1": "board-1", " board-1\n": "board-1", "https://linear.app/a/project/board-1/overview": "board-1"} {
		for _, written := range []string{"$BOARD", "${BOARD}"} {
			cfg, err := Parse(source(t, file(written)), env(value))
			if err != nil || cfg.Tracker.ProjectSlug != want {
				t.Errorf("%s = %q: %q, %v", written, value, cfg.Tracker.ProjectSlug, err)
			}
		}
	}
	_, err := Parse(source(t, file("$BOARD")), env(""))
	wantCode(t, err, CodeMissingProject, "WORKFLOW.md:5: tracker.project_slug: the environment variable BOARD is not set, or empty")
	_, err = Parse(source(t, file("$OTHER")), env("b"))
	wantCode(t, err, CodeMissingProject, "OTHER is not set")
}

// TestPassThrough: what belongs to codex arrives as it is, and what YAML can do beyond JSON is refused in time.
func TestPassThrough(t *testing.T) {
	bomb := "&a0 {x: y}"
	for i := 1; i < 12; i++ {
		bomb = fmt.Sprintf("&a%d {a: %s%s}", i, bomb, strings.Repeat(fmt.Sprintf(", b%d: *a%d", i, i-1), 1))
		for j := range 8 {
			bomb = bomb[:len(bomb)-1] + fmt.Sprintf(", c%d: *a%d}", j, i-1)
		}
	}
	for _, tt := range []struct{ value, want, code string }{
		{"{type: workspaceWrite, writableRoots: [], networkAccess: true}", `{"networkAccess":true,"type":"workspaceWrite","writableRoots":[]}`, ""},
		{"{type: workspaceWrite, writableRoots: ~}", `{"type":"workspaceWrite"}`, ""},
		{"{type: x, n: 9007199254740993, f: 1.5, s: \"1\", l: [{a: ~, b: 1}]}", `{"f":1.5,"l":[{"b":1}],"n":9007199254740993,"s":"1","type":"x"}`, ""},
		{"{type: x, n: .nan}", "", CodeInvalid},
		{"{type: x, 1: y}", "", CodeInvalid},
		{"{type: x, a: {b: 1, b: 2}}", "", CodeParse},
		{"&a {type: x, b: *a}", "", CodeInvalid},
		{bomb, "", CodeInvalid},
	} {
		text := strings.Replace(literalFile("$LINEAR_API_KEY"), "---\nGo", "codex:\n  turn_sandbox_policy: "+tt.value+"\n---\nGo", 1)
		cfg, err := Parse(source(t, text), testEnv())
		if tt.code != "" {
			wantCode(t, err, tt.code, "WORKFLOW.md:7: codex.turn_sandbox_policy: ")
			continue
		}
		if err != nil || string(cfg.Codex.TurnSandboxPolicy) != tt.want {
			t.Errorf("%s: %s, %v", tt.value, cfg.Codex.TurnSandboxPolicy, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(testdata, "*.md"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(literalFile("x" + literalKey))
	f.Add("---\na: &a [*a]\ntracker: {active_states: *a, api_key: *a}\ncodex: {approval_policy: &b {c: *b}}\n---\n")
	f.Add("---\ntracker: {kind: linear, project_slug: b, api_key: abcdefgh}\n\u2028hooks: {before_run: abcdefgh}\n---\nabcdefgh")
	f.Fuzz(func(t *testing.T, text string) {
		src, err := NewSource("WORKFLOW.md", "/srv/flow/WORKFLOW.md", []byte(text))
		if err != nil {
			if len(Faults(err)) != 1 {
				t.Fatal(err)
			}
			return
		}
		cfg, err := Parse(src, testEnv())
		if cfg == nil {
			t.Fatal("no configuration")
		}
		last := 1 + strings.Count(text, "\n")
		for _, w := range cfg.Warnings {
			if w.Line < 1 || w.Line > last && !strings.ContainsAny(text, "\r\u0085\u2028\u2029") {
				t.Fatalf("line %d of %d: %s", w.Line, last, w)
			}
		}
		if err != nil {
			if len(Faults(err)) == 0 {
				t.Fatal("no faults in", err)
			}
			return
		}
		key := cfg.Tracker.APIKey.Reveal()
		if cfg.KeyIsLiteral && len(key) >= shortestKey && bytes.Contains(cfg.Redacted, []byte(key)) {
			t.Fatalf("the key is kept: %q", cfg.Redacted)
		}
		if !cfg.KeyIsLiteral && string(cfg.Redacted) != text {
			t.Fatal("the copy differs")
		}
		again, err := Parse(source(t, string(cfg.Redacted)), Environment{Home: "/home/ann", Temp: "/tmp", Lookup: func(name string) (string, bool) {
			if name == LiteralKeyVar {
				return key, true
			}
			return testEnv().Lookup(name)
		}})
		if err != nil || again.Tracker.APIKey.Reveal() != key {
			t.Fatalf("read back: %v", err)
		}
	})
}
