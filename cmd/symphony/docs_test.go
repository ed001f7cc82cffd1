package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/setup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// The facts in the documentation are compared with the program: keys, commands, flags, codes,
// fields and links.

var moduleRoot = filepath.Join("..", "..")

// documentNames are README.md, CONTRIBUTING.md, CHANGELOG.md and all files in docs.
func documentNames() []string {
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, path := range test.Must(filepath.Glob(filepath.Join(moduleRoot, "docs", "*.md"))) {
		names = append(names, filepath.Join("docs", filepath.Base(path)))
	}
	return names
}

func document(t *testing.T, name string) string {
	t.Helper()
	return string(test.Must(os.ReadFile(filepath.Join(moduleRoot, name))))
}

// generated compares a file, or its part between the marks <!-- MARK --> and <!-- /MARK -->,
// with the program's. UPDATE_REFERENCE=1 writes it.
func generated(t *testing.T, name, mark, want string) {
	t.Helper()
	path := filepath.Join(moduleRoot, name)
	old, _ := os.ReadFile(path) // nothing, if it is new
	if got := string(old); mark != "" {
		begin := "<!-- " + mark + " -->"
		end := "<!-- /" + mark + " -->"
		want = strings.Replace(got, begin+between(t, got, begin, end)+end, begin+want+end, 1)
	}
	if os.Getenv("UPDATE_REFERENCE") != "" {
		test.OK(t, os.WriteFile(path, []byte(want), 0o644))
	} else if string(old) != want {
		t.Errorf("%s is not what the program says: UPDATE_REFERENCE=1 go test ./cmd/symphony -run %s", name, t.Name())
	}
}

// replaced makes changes to a text, which has to contain them: old text, new text, ...
func replaced(t *testing.T, text string, changes ...string) string {
	t.Helper()
	for change := range slices.Chunk(changes, 2) {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("there is no %q in\n%s", change[0], text)
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	return text
}

// between returns the part of text between two marks.
func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, from)
	part, _, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatalf("there is no part between %q and %q", from, to)
	}
	return part
}

// codeSpans returns the texts in backquotes.
func codeSpans(text string) []string {
	var spans []string
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		spans = append(spans, m[1])
	}
	return spans
}

// codeBlocks returns the parts between fences and the lines that are indented by four blanks.
func codeBlocks(text string) []string {
	blocks := fencedBlocks(text)
	for _, m := range regexp.MustCompile("(?m)^    (.*)$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// fencedBlocks returns the parts between fences.
func fencedBlocks(text string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// rows returns the cells of the table rows in text.
func rows(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		all = append(all, cells)
	}
	return all
}

// docs/workflow.md has a table of the program's keys for each section of WORKFLOW.md, and lists
// the keys that are not built yet. docs/repository.md has the stacks that init knows.
func TestDocumentedKeys(t *testing.T) {
	tables := map[string]string{}
	for _, k := range workflow.Keys() {
		section := k.Name[:strings.LastIndexByte(k.Name, '.')]
		if tables[section] == "" {
			tables[section] = "\n| key | type | default | meaning |\n|---|---|---|---|\n"
		}
		standard := ""
		if k.Default != "" {
			standard = "`" + k.Default + "`"
		}
		meaning := k.Meaning
		if k.Kinds != nil {
			meaning = strings.Join(k.Kinds, ", ") + ": " + meaning
		}
		tables[section] += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.Name, k.Type, standard, meaning)
	}
	for section, table := range tables {
		generated(t, "docs/workflow.md", "keys of "+section, table)
	}
	stacks := "\n| stack | a file at the top | `verify.command` |\n|---|---|---|\n"
	for _, s := range setup.Stacks {
		command := "none is written: see Gradle below"
		if s.Verify != "" {
			command = "`" + strings.ReplaceAll(s.Verify, "|", `\|`) + "`"
		}
		stacks += fmt.Sprintf("| %s | `%s` | %s |\n", s.Name, strings.Join(s.Files, "`, `"), command)
	}
	generated(t, "docs/repository.md", "stacks", stacks)
	listed := codeSpans(document(t, "docs/workflow.md"))
	for key := range workflow.Unbuilt() {
		test.Equal(t, "docs/workflow.md lists "+key+" as not built yet", slices.Contains(listed, key), true)
	}
}

// The help of ps explains every status that --filter takes, in the order of the list.
func TestDocumentedStatuses(t *testing.T) {
	var listed []view.Status
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z_]+) +\S`).FindAllStringSubmatch(helpPart("ps"), -1) {
		listed = append(listed, view.Status(m[1]))
	}
	test.Equal(t, "the statuses in the help of ps", listed, view.Statuses)
}

// Each row of what the README promises names scripts that show it, which have to exist.
func TestDocumentedPromises(t *testing.T) {
	shown := map[string]string{
		"Your own machine":      "all/file_folder codex/own_repository",
		"No daemon":             "script/tick_json all/schedule all/schedule_cron",
		"Nothing is forgotten":  "all/power all/reboot all/commands_kept",
		"Agents keep running":   "script/run all/schedule_cron all/hosts",
		"Proof first":           "all/verify codex/verify",
		"No network for agents": "all/delivery all/pull_request_open codex/no_network",
		"Back to the agent":     "all/feedback_changed codex/feedback",
		"Merged, if you want":   "all/merge all/merge_later",
		"An end to attempts":    "all/limits codex/max_tokens",
	}
	promises := rows(between(t, document(t, "README.md"), "\n## What you get\n", "\n## "))[1:]
	for _, cells := range promises {
		promise := strings.Trim(cells[0], "*")
		for name := range strings.FieldsSeq(shown[promise]) {
			_ = test.Must(os.Stat(filepath.Join("../../testdata", name+".txtar")))
		}
		test.Equal(t, promise+" is shown by scripts", shown[promise] != "", true)
		delete(shown, promise)
	}
	test.Equal(t, "rows that the README lacks", len(shown), 0)
}

// Every command line in the documentation, and in the examples that the help of every command
// has, is accepted.
func TestDocumentedCommandLines(t *testing.T) {
	typed := regexp.MustCompile(`(?m)(?:^|[ /"(])symphony ([a-z]+(?:-[a-z]+)*(?: +[^\n|;&>()]+)?)`)
	for _, c := range newApp(testWorld()).Commands {
		if !c.Hidden &&
			!typed.MatchString(between(t, help(t, c.Name)+"\nOPTIONS:", "Example", "\nOPTIONS:")) {
			t.Errorf("%s: its help has no example", c.Name)
		}
	}
	for _, name := range documentNames() {
		if name == "docs/questions.md" { // output, whose commands a script runs
			continue
		}
		text := strings.ReplaceAll(document(t, name), "\\\n", "")
		for _, code := range append(codeSpans(text), codeBlocks(text)...) {
			for _, m := range typed.FindAllStringSubmatch(code, -1) {
				line, _, _ := strings.Cut(m[1], " #")
				words := strings.Fields(strings.NewReplacer(`"`, "", "'", "").Replace(line))
				if words[0] != "help" && words[0] != "serve" {
					checkCommandLine(t, name, words)
				}
			}
		}
	}
}

// checkCommandLine parses a command line with the command's action left out.
func checkCommandLine(t *testing.T, document string, words []string) {
	t.Helper()
	app := newApp(testWorld())
	reached := false
	for _, c := range app.Commands {
		c.Before = nil
		c.Action = func(*cli.Context) error { reached = true; return nil }
	}
	args, err := arrange(app, append([]string{"symphony"}, words...))
	if err == nil {
		err = app.RunContext(t.Context(), args)
	}
	if err != nil || !reached {
		t.Errorf("%s: symphony %s is not accepted: %v", document, strings.Join(words, " "), err)
	}
}

// Paths of the source exist. The test of scripts/internal/site checks links.
func TestDocumentedPaths(t *testing.T) {
	source := regexp.MustCompile(
		`(?:^|[\s` + "`" + `(])(?:\./)?((?:cmd|internal|linear|reconcile|runner|scripts|state|testdata|\.ci)/[\w./-]*\w)`,
	)
	for _, name := range documentNames() {
		text := document(t, name)
		// the floor plan is a tree
		text = regexp.MustCompile("(?ms)^```$.*?^```$").ReplaceAllString(text, "")
		for _, m := range source.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(moduleRoot, m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// docs/errors.md explains every code that the source gives an error, with its exit code.
func TestDocumentedCodes(t *testing.T) {
	text := document(t, "docs/errors.md")
	ofPasses := between(t, text, "## Errors of passes", "## Errors of runs")
	documented := map[string]bool{}
	for _, cells := range rows(ofPasses)[1:] {
		for _, code := range codeSpans(cells[0]) {
			test.Equal(
				t,
				"the exit code of "+code,
				cells[1],
				strconv.Itoa(exit.Code(&reconcile.Error{Code: code})),
			)
		}
	}
	for _, cells := range rows(text) {
		for _, code := range codeSpans(cells[0]) {
			documented[code] = true
		}
	}
	literal := regexp.MustCompile(`\bCode(?:[A-Z]\w*)?(?:: *| += )(?:Code = )?"([a-z]+(?:_[a-z0-9]+)*)"`)
	found := map[string]bool{}
	for _, dir := range []string{"cmd", "forge", "internal", "linear", "reconcile", "runner", "state"} {
		err := filepath.WalkDir(
			filepath.Join(moduleRoot, dir),
			func(path string, d fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case d.IsDir() && strings.HasSuffix(path, "test"):
					return fs.SkipDir
				case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
					return nil
				}
				for _, m := range literal.FindAllStringSubmatch(string(test.Must(os.ReadFile(path))), -1) {
					found[m[1]] = true
					test.Equal(t, "docs/errors.md explains "+m[1]+" of "+path, documented[m[1]], true)
				}
				return nil
			},
		)
		test.OK(t, err)
	}
	if len(found) < 60 {
		t.Errorf("only %d codes were found in the source", len(found))
	}
}

// The table of the errors of runs in docs/errors.md is the program's.
func TestDocumentedRunErrors(t *testing.T) {
	want := "\n| code | what to do |\n|---|---|\n"
	for _, e := range words.RunErrors() {
		want += "| `" + strings.ReplaceAll(e.Codes, ", ", "`, `") + "` | " + e.Next + " |\n"
	}
	generated(t, "docs/errors.md", "run errors", want)
}

// The JSON in docs/json.md has exactly the fields that the program prints.
func TestDocumentedJSON(t *testing.T) {
	for _, name := range []string{"ps", "tick"} {
		var shown map[string]any
		text := between(t, document(t, "docs/json.md"), "<!-- "+name+" -->\n```json\n", "```")
		test.OK(t, json.Unmarshal([]byte(text), &shown))
		schema := test.Must(strictSchema(name))
		test.OK(t, schema.Validate(shown))
		for field := range schema.Schema().Properties {
			if _, has := shown[field]; !has && field != "error" { // ps has it instead of all others
				t.Errorf("%s: the documentation lacks %s", name, field)
			}
		}
	}
}

func pathsOf(v any, path string) []string {
	var all []string
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			all = append(all, pathsOf(item, path)...)
		}
	case map[string]any:
		for name, member := range v {
			all = append(append(all, path+name), pathsOf(member, path+name+".")...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// testNames are the module's tests, and the scripts as go test -run names them.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	err := filepath.WalkDir(moduleRoot, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range declared.FindAllSubmatch(test.Must(os.ReadFile(path)), -1) {
			names[string(m[1])] = true
		}
		return nil
	})
	test.OK(t, err)
	// TestTrackers runs its scripts for each kind of tracker, which -run matches with an empty
	// name.
	for folder, runner := range map[string]string{
		"script":  "TestScript",
		"all":     "TestScript",
		"codex":   "TestRealCodex",
		"tracker": "TestTrackers/",
	} {
		for _, script := range test.Must(filepath.Glob(filepath.Join(moduleRoot, "testdata", folder, "*.txtar"))) {
			names[runner+"/"+strings.TrimSuffix(filepath.Base(script), ".txtar")] = true
		}
	}
	return names
}

// The example in docs/workflow.md is valid without a warning, and takes an issue to its
// handover from cron's bare environment, with the key in the environment file.
func TestDocumentedWorkflow(t *testing.T) {
	shown := between(t, document(t, "docs/workflow.md"), "```markdown\n", "```\n")
	used := replaced(
		t,
		shown,
		"  kind: linear\n",
		"  kind: linear\n  endpoint: $LINEAR_ENDPOINT\n",
		"https://linear.app/acme/project/web-shop-1a2b3c4d5e6f",
		"demo",
		"codex app-server",
		"$AGENT",
		"workspace:\n",
		"workspace:\n  min_free_bytes: 0\n",
	)
	text := made("workflow.txtar") + "-- shown/WORKFLOW.md --\n" + shown + "-- WORKFLOW.md --\n" + used
	runScripts(t, params(t, "script"), map[string]string{"workflow": text})
}

// help returns what a command prints with --help.
func help(t *testing.T, command string) string {
	t.Helper()
	var out bytes.Buffer
	w := testWorld()
	w.Stdout = &out
	test.Equal(t, command+" --help", run(t.Context(), w, []string{"symphony", command, "--help"}), exit.OK)
	return out.String()
}

// docs/commands.md has a table of all commands and the help of each; a release makes the man
// page from it.
func TestCommandReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\n| command | what it does |\n|---|---|\n")
	for _, group := range helpGroups(testWorld()) {
		for _, c := range group.VisibleCommands {
			fmt.Fprintf(&b, "| `symphony %s` | %s |\n", c.Name, c.Usage)
		}
	}
	b.WriteString("\nBelow is what `symphony COMMAND --help` prints.\n")
	for _, group := range helpGroups(testWorld()) {
		fmt.Fprintf(&b, "\n# %s\n", group.Name)
		for _, c := range group.VisibleCommands {
			fmt.Fprintf(&b, "\n## symphony %s\n\n```\n%s\n```\n", c.Name, strings.TrimSpace(help(t, c.Name)))
		}
	}
	generated(t, "docs/commands.md", "", b.String())
}

// The steps of docs/operations.md for moving to a second machine, command by command: on one machine with a
// home, then on another with another home in its place, another boot and other processes.
func TestMovingToAnotherMachine(t *testing.T) {
	test.Expensive(t)
	const title = "## Backup, moving, upgrading\n"
	var blocks []string
	for _, block := range codeBlocks(between(t, document(t, "docs/operations.md"), title, "\n## ")) {
		var kept strings.Builder
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "symphony schedule ") { // it needs systemd, or cron
				kept.WriteString(line)
			}
		}
		blocks = append(blocks, kept.String())
	}
	if len(blocks) != 2 {
		t.Fatalf("not one block for each machine: %q", blocks)
	}
	// A person is slower than the last worker's own pass, which is just settling.
	stop, archive, found := strings.Cut(blocks[0], "tar ")
	if !found {
		t.Fatalf("no archive: %q", blocks[0])
	}
	text := made(
		"moving.txtar",
	) + "-- old --\nset -ex\n" + stop + "-- archive --\nset -ex\ntar " + archive + "-- new --\nset -ex\n" + blocks[1]
	runScripts(t, params(t, "script"), map[string]string{"moving": text})
}

// docs/agents.md has a row for each kind of agent other than codex, with its command and the
// command that installs it.
func TestDocumentedAgents(t *testing.T) {
	text := document(t, "docs/agents.md")
	for _, name := range workflow.AgentKinds() {
		command := workflow.AgentCommand(name)
		if name == workflow.DefaultAgent || command == "" {
			continue
		}
		kind, err := wiring.AgentOf(name)
		test.OK(t, err)
		install, _, _ := strings.Cut(kind.Install, ",")
		isRow := func(cells []string) bool {
			return len(cells) == 4 && cells[0] == "`"+name+"`" &&
				strings.HasPrefix(cells[1], "`"+command+"` ") && cells[2] == "`"+install+"`"
		}
		if !slices.ContainsFunc(rows(text), isRow) {
			t.Errorf("docs/agents.md has no row with %s, %s and %s", name, command, install)
		}
	}
}

// docs/agents.md says what each kind other than codex can do. TestRealAgents tries the rest of that
// table.
func TestDocumentedAbilities(t *testing.T) {
	table := rows(document(t, "docs/agents.md"))
	at := slices.IndexFunc(table, func(cells []string) bool { return len(cells) == 5 && cells[1] == "`claude`" })
	heads := table[at]
	cell := func(row string, column int) string {
		found := slices.IndexFunc(table, func(cells []string) bool { return len(cells) == 5 && cells[0] == row })
		if found < 0 {
			t.Fatalf("docs/agents.md has no row %s", row)
		}
		return table[found][column]
	}
	word := func(is bool, yes, no string) string {
		if is {
			return yes
		}
		return no
	}
	for column, head := range heads[1:] {
		name := strings.Trim(head, "`")
		kind, err := wiring.AgentOf(name)
		test.OK(t, err)
		has := func(row, want string) { test.Equal(t, name+": "+row, cell(row, column+1), want) }
		has("`agent.model`", word(workflow.NeedsModel(name), "needed", "optional"))
		has("`symphony takeover`", word(kind.Terminal != nil, "yes", "no"))
		login := "no"
		if len(kind.LoginFiles) > 0 {
			login = "`~/" + strings.Join(kind.LoginFiles, "`, `~/") + "`"
		}
		has("the login of your account is copied", login)
		takesKey := "no"
		if kind.Service != nil && kind.Service("anthropic/model").Through != nil {
			takesKey = word(kind.Service("another/model").Through != nil, "yes", "some providers")
		}
		has("`agent.key`", takesKey)
	}
}
