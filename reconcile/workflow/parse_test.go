package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

const literalKey = "lin_api_0123456789abcdef"

func literalFile(value string) string {
	return "---\ntracker:\n  kind: linear\n  api_key: " + value + "\n  project_slug: b\n---\nGo.\n"
}

// The redacted copy differs from the file only in the key, and means the same if the
// environment supplies the key.
func TestRedacted(t *testing.T) {
	const placeholder = "$SYMPHONY_LITERAL_API_KEY"
	for _, tt := range []struct{ text, want string }{
		{literalFile(literalKey), literalFile(placeholder)},
		{literalFile(literalKey + "   # mine"), literalFile(placeholder + "   # mine")},
		{literalFile("'" + literalKey + "'"), literalFile("'" + placeholder + "'")},
		{literalFile(`"` + literalKey + `"`), literalFile(`"` + placeholder + `"`)},
		{literalFile("'" + literalKey + "'# mine"), literalFile("'" + placeholder + "'# mine")},
		{literalFile(literalKey + " # not " + literalKey), literalFile(placeholder + " # not " + placeholder)},
		{
			strings.ReplaceAll(literalFile(literalKey), "\n", "\r\n"),
			strings.ReplaceAll(literalFile(placeholder), "\n", "\r\n"),
		},
		{"\ufeff" + literalFile(literalKey), "\ufeff" + literalFile(placeholder)},
		{
			"---\ntracker: {kind: linear, assignee: Zoë, api_key: " + literalKey + ", project_slug: b}\n---\nGo.\n",
			"---\ntracker: {kind: linear, assignee: Zoë, api_key: " + placeholder + ", project_slug: b}\n---\nGo.\n",
		},
		{
			"---\ntracker:\n  kind: linear\n  project_slug: b\n  api_key: " + literalKey + "\n" +
				"  provider:\n    api_key: '" + literalKey + "'\n---\nGo.\n",
			"---\ntracker:\n  kind: linear\n  project_slug: b\n  api_key: " + placeholder + "\n" +
				"  provider:\n    api_key: '" + placeholder + "'\n---\nGo.\n",
		},
		{literalFile("&k !!str " + literalKey), literalFile("&k !!str " + placeholder)},
		{literalFile(">-\n    " + literalKey), literalFile(">-\n    " + placeholder)},
	} {
		cfg, err := Parse(source(t, tt.text), Environment{Home: "/home/ann", Temp: "/tmp"})
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		test.Equal(
			t,
			"the copy, and whether the key is literal",
			[]any{string(cfg.Redacted), cfg.KeyIsLiteral},
			[]any{tt.want, true},
		)
		key := cfg.Tracker.APIKey
		again, err := Parse(
			source(t, string(cfg.Redacted)),
			envOf(map[string]string{LiteralKeyVar: key.Reveal()}),
		)
		if err != nil || again.Tracker.APIKey != key || again.Policy.Project != cfg.Policy.Project ||
			again.KeyIsLiteral {
			t.Errorf("%q read back: %v", tt.want, err)
		}
	}
}

// The URL of pings is a secret, like the key. A copy of the file sends none, unless the URL is
// in a variable.
func TestPingURL(t *testing.T) {
	const check = "https://hc.example.com/ping/0123456789abcdefghijkl/web-shop?create=1"
	parse := func(value string) *Config {
		t.Helper()
		env := envOf(map[string]string{"PING": " " + check + "\n"})
		return test.Must(
			Parse(
				source(
					t,
					"---\ntracker: {kind: file, provider: {path: i}}\nmonitor: {ping_url: "+value+"}\n---\nGo.\n",
				),
				env,
			),
		)
	}
	literal := parse("'" + check + "'")
	inVariable := parse("$PING")
	none := parse("$NONE")
	if m := literal.Monitor; m.PingURL.Reveal() != check ||
		strings.Contains(string(literal.Redacted), "ping/0123") {
		t.Errorf("%s %s", m.PingURL.Reveal(), literal.Redacted)
	}
	test.Equal(t, "secrets", literal.Monitor.Secrets(), []string{check, "0123456789abcdefghijkl"})
	test.Equal(t, "read back", parse("'$"+literalPingVar+"'").Monitor, Monitor{})
	again := test.Must(Parse(source(t, string(literal.Redacted)), envOf(literal.Literals())))
	if again.Monitor != literal.Monitor || !bytes.Equal(again.Redacted, literal.Redacted) ||
		len(inVariable.Literals()) > 0 {
		t.Errorf("a worker reads %+v %s", again.Monitor, again.Redacted)
	}
	if m := inVariable.Monitor; m.PingURL.Reveal() != check || m.PingVar != "PING" ||
		!slices.Contains(inVariable.SecretVars, "PING") {
		t.Errorf("in a variable: %s", m.PingURL.Reveal())
	}
	if m := none.Monitor; m.PingURL != "" || m.PingVar != "NONE" || len(none.Warnings) > 0 {
		t.Errorf("without the variable: %+v, %v", m, none.Warnings)
	}
	_, err := Parse(
		source(
			t,
			"---\ntracker: {kind: file, provider: {path: i}}\nmonitor: {ping_url: $P}\nagent: "+
				"{pass_env: [P]}\n---\nGo.\n",
		),
		testEnv(),
	)
	wantCode(t, err, CodeInvalid, "agent.pass_env: P contains a secret of symphony")
}

func TestRedactedRefusesWhatItCannotFind(t *testing.T) {
	for value, part := range map[string]string{
		`"lin_api_0123456789\x61bcdef"`:                 "must be on one line",
		`"lin_api_0123456789\x61bcdef" # ` + literalKey: "must be on one line",
		"\"lin_api_\\\n    0123456789abcdef\"":          "must be on one line",
		"kind":                                          "too short for a key",
	} {
		cfg, err := Parse(source(t, literalFile(value)), Environment{Temp: "/tmp"})
		wantCode(t, err, CodeInvalid, "tracker.api_key: ")
		wantCode(t, err, CodeInvalid, part)
		test.Equal(t, "the error of "+value, cfg.Redacted == nil, true)
		test.Lacks(t, "the error of "+value, err.Error(), literalKey)
	}
}

// The key of another account must not be used for a workflow that contained its own key.
func TestPlaceholderHasNoFallback(t *testing.T) {
	wantCode(
		t,
		test.Err(Parse(source(t, literalFile("$"+LiteralKeyVar)), testEnv())),
		CodeMissingAPIKey,
		"is not stored",
	)
	env := testEnv()
	env.KeyOptional = true
	cfg, err := Parse(source(t, literalFile("$"+LiteralKeyVar)), env)
	if err != nil || cfg.Tracker.APIKey != "" {
		t.Errorf("optional: %v", err)
	}
}

// envOf returns an environment with only these variables.
func envOf(vars map[string]string) Environment {
	return Environment{
		Temp:   "/tmp",
		Lookup: func(n string) (string, bool) { v, ok := vars[n]; return v, ok },
	}
}

// Values that may name a variable, and their fallbacks.
func TestVariables(t *testing.T) {
	set := map[string]string{
		"LINEAR_API_KEY":  "a",
		"LINEAR_ASSIGNEE": "canon",
		"K":               "b",
		"LINES":           "b\n",
		"EMPTY":           "",
		"URL":             "https://linear.app/a/project/b/overview",
	}
	none := map[string]string{"EMPTY": "", "LINEAR_API_KEY": ""}
	for _, tt := range []struct {
		key, value string
		vars       map[string]string
		want, code string
	}{
		{"api_key", "~", set, "a", ""},
		{"api_key", "~", nil, "", CodeMissingAPIKey},
		{"api_key", "~", none, "", CodeMissingAPIKey},
		{"api_key", "$K", set, "b", ""},
		{"api_key", "${K}", set, "b", ""},
		{"api_key", "$LINES", set, "b", ""},
		{"api_key", "$UNSET", set, "a", ""},
		{"api_key", "$EMPTY", set, "", CodeMissingAPIKey},
		{"api_key", "$UNSET", nil, "", CodeMissingAPIKey},
		{"api_key", `""`, set, "", CodeMissingAPIKey},
		{"assignee", "~", set, "canon", ""},
		{"assignee", "ann", set, "ann", ""},
		{"assignee", "$K", set, "b", ""},
		{"assignee", "$UNSET", set, "canon", ""},
		{"assignee", "$EMPTY", set, "", ""},
		{"project_slug", "$K", set, "b", ""},
		{"project_slug", "${LINES}", set, "b", ""},
		{"project_slug", "$URL", set, "b", ""},
		{"project_slug", "$EMPTY", set, "", CodeMissingProject},
		{"project_slug", "$UNSET", set, "", CodeMissingProject},
	} {
		keys := map[string]string{
			"kind":         "linear",
			"project_slug": "p",
			"api_key":      "$LINEAR_API_KEY",
		}
		keys[tt.key] = tt.value
		text := "---\ntracker:\n"
		for key, value := range keys {
			text += "  " + key + ": " + value + "\n"
		}
		cfg, err := Parse(source(t, text+"---\nGo.\n"), envOf(tt.vars))
		if tt.code != "" {
			wantCode(t, err, tt.code, "tracker."+tt.key)
			continue
		}
		got := map[string]string{
			"api_key":      cfg.Tracker.APIKey.Reveal(),
			"assignee":     cfg.Policy.Assignee,
			"project_slug": cfg.Tracker.ProjectSlug,
		}[tt.key]
		if err != nil || got != tt.want || cfg.KeyIsLiteral || len(cfg.Warnings) > 0 != (got == "") {
			t.Errorf("%s %s: got %q, %v, %v", tt.key, tt.value, got, err, cfg.Warnings)
		}
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	cfg := test.Must(Parse(source(t, literalFile(literalKey)), Environment{Temp: "/tmp"}))
	raw := test.Must(json.Marshal(cfg))
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", cfg.Tracker.APIKey, "tracker", cfg.Tracker)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", cfg.Tracker.APIKey, "tracker", cfg.Tracker)
	all := fmt.Sprintf(
		"%v %+v %#v %s %q",
		cfg.Tracker,
		cfg.Tracker,
		cfg.Tracker,
		cfg.Tracker.APIKey,
		cfg.Tracker.APIKey,
	) + string(raw) + log.String()
	test.Lacks(t, "the output", all, literalKey)
	test.Equal(t, "revealed", cfg.Tracker.APIKey.Reveal(), literalKey)
}

// If the tracker's key was also pasted into other values, the messages about these do not
// contain it.
func TestErrorsHideTheKey(t *testing.T) {
	text := strings.Replace(
		literalFile(literalKey),
		"---\nGo",
		"agent:\n  max_turns: "+literalKey+"\n  "+literalKey+": 1\n  network: "+
			strings.Repeat("x", 1000)+literalKey+"\n---\nGo",
		1,
	)
	cfg, err := Parse(source(t, text), Environment{Temp: "/tmp"})
	wantCode(t, err, CodeInvalid, "agent.max_turns")
	if all := err.Error() + fmt.Sprint(cfg.Warnings); strings.Contains(all, literalKey) || len(all) > 1500 {
		t.Errorf("the output contains the key: %v %v", err, cfg.Warnings)
	}
}

// Each key of the table refuses a value that is invalid for all keys, so that no key is
// accepted and ignored.
func TestEveryKeyIsRead(t *testing.T) {
	for _, k := range Keys() {
		parts := strings.Split(k.Name, ".")
		nested := strings.Join(parts, ": {") + ": [[x]]" + strings.Repeat("}", len(parts)-1)
		if k.Kinds != nil {
			nested = strings.Replace(nested, "tracker: {", "tracker: {kind: "+k.Kinds[0]+", ", 1)
		}
		if k.engines != nil {
			nested = strings.Replace(nested, "engine: {", "engine: {kind: "+k.engines[0]+", ", 1)
		}
		_, err := Parse(source(t, "---\n"+nested+"\n---\nGo.\n"), testEnv())
		found := false
		for _, f := range Faults(err) {
			found = found ||
				f.Code == CodeInvalid && strings.HasPrefix(f.Message, "WORKFLOW.md:2: "+k.Name+": ")
		}
		test.Equal(t, k.Name+" is read", found, true)
		if k.Meaning == "" || k.Type == "" || strings.Contains(k.Meaning, "\n") {
			t.Errorf("%s is not described: %+v", k.Name, k)
		}
	}
	for key := range Unbuilt() {
		for _, k := range Keys() {
			if k.Name == key {
				t.Errorf("%s is both supported and not built", key)
			}
		}
	}
}

// Values for codex are passed on unchanged, and YAML that has no form in JSON is refused.
func TestPassThrough(t *testing.T) {
	bomb := "&a0 {x: y}"
	for i := range 11 {
		bomb = fmt.Sprintf(
			"&a%d {a: %s, b: [%s*a%d]}",
			i+1,
			bomb,
			strings.Repeat(fmt.Sprintf("*a%d, ", i), 8),
			i,
		)
	}
	for _, tt := range []struct{ value, want, code string }{
		{
			"{type: workspaceWrite, writableRoots: [], networkAccess: true}",
			`{"networkAccess":true,"type":"workspaceWrite","writableRoots":[]}`,
			"",
		},
		{"{type: workspaceWrite, writableRoots: ~}", `{"type":"workspaceWrite"}`, ""},
		{
			"{type: x, n: 9007199254740993, f: 1.5, s: \"1\", l: [{a: ~, b: 1}]}",
			`{"f":1.5,"l":[{"b":1}],"n":9007199254740993,"s":"1","type":"x"}`,
			"",
		},
		{"{type: x, n: .nan}", "", CodeInvalid},
		{"{type: x, 1: y}", "", CodeInvalid},
		{"{type: x, a: {b: 1, b: 2}}", "", CodeInvalid},
		{"&a {type: x, b: *a}", "", CodeInvalid},
		{bomb, "", CodeInvalid},
	} {
		text := strings.Replace(
			literalFile("$LINEAR_API_KEY"),
			"---\nGo",
			"codex:\n  turn_sandbox_policy: "+tt.value+"\n---\nGo",
			1,
		)
		cfg, err := Parse(source(t, text), testEnv())
		if tt.code != "" {
			wantCode(t, err, tt.code, "WORKFLOW.md:7: codex.turn_sandbox_policy: ")
			continue
		}
		test.Equal(
			t,
			tt.value+": error and policy",
			[]any{err, string(cfg.Session.TurnSandboxPolicy)},
			[]any{nil, tt.want},
		)
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
	f.Add(
		"---\na: &a [*a]\ntracker: {active_states: *a, api_key: *a}\ncodex: {approval_policy: &b {c: *b}}\n---\n",
	)
	f.Add(
		"---\ntracker: {kind: linear, project_slug: b, api_key: abcdefgh}\n\u2028hooks: {before_run: " +
			"abcdefgh}\n---\nabcdefgh",
	)
	f.Fuzz(func(t *testing.T, text string) {
		src, err := NewSource("WORKFLOW.md", "/srv/flow/WORKFLOW.md", []byte(text))
		if err != nil {
			test.Equal(t, err.Error(), len(Faults(err)), 1)
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
		ping := cfg.Monitor.PingURL.Reveal()
		literalPing := ping != "" && cfg.Monitor.PingVar == ""
		if literalPing && bytes.Contains(cfg.Redacted, []byte(ping)) {
			t.Fatalf("the URL of pings is kept: %q", cfg.Redacted)
		}
		if !cfg.KeyIsLiteral && !literalPing && string(cfg.Redacted) != text {
			t.Fatal("the copy differs")
		}
		again, err := Parse(source(t, string(cfg.Redacted)), Environment{
			Home: "/home/ann",
			Temp: "/tmp",
			Lookup: func(name string) (string, bool) {
				if name == LiteralKeyVar {
					return key, true
				}
				return testEnv().Lookup(name)
			},
		})
		if err != nil || again.Tracker.APIKey.Reveal() != key || literalPing && again.Monitor.PingURL != "" {
			t.Fatalf("read back: %v", err)
		}
	})
}

// Jira has no usual site, so that symphony check requires one, as a pass does.
func TestJiraNeedsSite(t *testing.T) {
	env := testEnv()
	env.KeyOptional = true
	_, err := Parse(source(t, "---\ntracker: {kind: jira, provider: {project_key: SHOP}}\n---\n"), env)
	wantCode(t, err, CodeInvalid, "tracker.endpoint: missing")
}

// symphony check has no key of the model, and says all the same that agent.key can't work.
func TestAgentKeyIsCheckedWithoutItsValue(t *testing.T) {
	env := testEnv()
	env.KeyOptional = true
	for agent, want := range map[string]string{
		"kind: claude, network: true":              "agent.key: needs a network that symphony serves",
		"kind: claude, sandbox: none, trust: true": "agent.key: needs agent.sandbox: bwrap",
		"sandbox: bwrap":                           "agent.key: not built yet with agent.kind: codex",
	} {
		_, err := Parse(source(t, "---\ntracker: {kind: file, provider: {path: issues}}\n"+
			"agent: {key: $NOT_SET_HERE, "+agent+"}\n---\n"), env)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", agent, err, want)
		}
	}
}
