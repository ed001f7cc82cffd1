package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/urfave/cli/v2"
)

// The README is read by people who run this every day: what it says of commands, keys, codes and shapes is
// compared here with the program.

var moduleRoot = filepath.Join("..", "..")

func readme(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(moduleRoot, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// between is the part of text from one mark to the next.
func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, from)
	part, _, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatalf("the README has no part between %q and %q", from, to)
	}
	return part
}

// chapter is a section of the README with all below it.
func chapter(t *testing.T, title string) string {
	t.Helper()
	return between(t, readme(t)+"\n## ", "\n## "+title+"\n", "\n## ")
}

// codeSpans are the words in backquotes.
func codeSpans(text string) []string {
	var spans []string
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		spans = append(spans, m[1])
	}
	return spans
}

// rows are the lines of the tables in text, cell by cell.
func rows(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

func testApp() *cli.App {
	return newApp(&term.Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}})
}

// Every key stands in the one table, with its type, default and meaning, in its order.
func TestReadmeKeys(t *testing.T) {
	var want strings.Builder
	want.WriteString("\n| key | type | default | meaning |\n|---|---|---|---|\n")
	for _, k := range workflow.Keys() {
		standard := ""
		if k.Default != "" {
			standard = "`" + k.Default + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", k.Name, k.Type, standard, k.Meaning)
	}
	if got := between(t, readme(t), "<!-- keys -->", "<!-- /keys -->"); got != want.String() {
		t.Errorf("the table of keys is not that of the program, which is:\n%s", want.String())
	}
}

// Every command and flag stands in the table of commands, and no other.
func TestReadmeCommands(t *testing.T) {
	text := chapter(t, "Commands")
	listed := map[string]string{}
	for _, cells := range rows(text)[1:] {
		words := strings.Fields(strings.Trim(cells[0], "`"))
		listed[words[1]] = strings.Join(cells[1:], " ")
	}
	flag := regexp.MustCompile("`(--?[a-z-]+)")
	shared := names(workflowFlags())
	for _, name := range shared {
		if !strings.Contains(text[:strings.Index(text, "|")], "`"+name) {
			t.Errorf("%s is not explained before the table", name)
		}
	}
	for _, c := range testApp().Commands {
		row, ok := listed[c.Name]
		delete(listed, c.Name)
		if c.Hidden || !ok {
			if ok == c.Hidden {
				t.Errorf("%s: hidden is %v, listed is %v", c.Name, c.Hidden, ok)
			}
			continue
		}
		own := slices.DeleteFunc(names(c.Flags), func(f string) bool { return slices.Contains(shared, f) })
		var said []string
		for _, m := range flag.FindAllStringSubmatch(row, -1) {
			said = append(said, m[1])
		}
		slices.Sort(own)
		slices.Sort(said)
		if said = slices.Compact(said); !slices.Equal(own, said) {
			t.Errorf("%s has the flags %v, the README says %v", c.Name, own, said)
		}
	}
	delete(listed, "help") // the library's
	for name := range listed {
		t.Errorf("there is no command %s", name)
	}
	for _, name := range later {
		if !slices.Contains(codeSpans(chapter(t, "Not built yet")), name) {
			t.Errorf("%s is refused as not built yet, and the README does not say so", name)
		}
	}
}

func names(flags []cli.Flag) []string {
	var all []string
	for _, f := range flags {
		for _, n := range f.Names() {
			dashes := "--"
			if len(n) == 1 {
				dashes = "-"
			}
			all = append(all, dashes+n)
		}
	}
	return all
}

// The keys that are refused or warned about as not built yet are those that the README lists.
func TestReadmeUnbuiltKeys(t *testing.T) {
	text := chapter(t, "Not built yet")
	for start, says := range map[string]string{"- keys that are refused:": "unsupported_key", "- keys that are warned about:": "no effect"} {
		for _, key := range codeSpans(between(t, text, start, "\n- ")) {
			section, name, _ := strings.Cut(key, ".")
			path := filepath.Join(t.TempDir(), "WORKFLOW.md")
			content := "---\ntracker: {kind: linear, project_slug: demo}\n" + section + ": {" + name + ": 1}\n---\n"
			if section == "tracker" {
				content = "---\ntracker: {kind: linear, project_slug: demo, " + name + ": 1}\n---\n"
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			w := &term.Env{Stdout: &out, Stderr: &out, Home: t.TempDir(), Dir: t.TempDir()}
			code := run(t.Context(), w, []string{"symphony", "check", path})
			if !strings.Contains(out.String(), says) || (code == exit.Workflow) != (says == "unsupported_key") {
				t.Errorf("%s: exit %d, %s", key, code, out.String())
			}
		}
	}
	listed := codeSpans(text)
	for key := range workflow.Unbuilt() {
		if !slices.Contains(listed, key) {
			t.Errorf("%s is not built yet, and the README does not say so", key)
		}
	}
}

// Whatever the README tells to type names a command and flags that there are.
func TestReadmeTyped(t *testing.T) {
	app := testApp()
	typed := regexp.MustCompile(`(?:^|[ /"])symphony ([a-z]+)((?: +[^\n|;&>]+)?)`)
	count := 0
	for _, code := range append(codeSpans(readme(t)), codeBlocks(readme(t))...) {
		for line := range strings.Lines(code) {
			for _, m := range typed.FindAllStringSubmatch(line, -1) {
				if m[1] == "help" { // the library's
					continue
				}
				c := app.Command(m[1])
				if c == nil {
					t.Errorf("no such command: %s", strings.TrimSpace(line))
					continue
				}
				count++
				for _, word := range strings.Fields(m[2]) {
					if strings.HasPrefix(word, "#") {
						break
					}
					if strings.HasPrefix(word, "-") && flagOf(c, strings.TrimLeft(word, "-")) == nil {
						t.Errorf("%s has no flag %s: %s", c.Name, word, strings.TrimSpace(line))
					}
				}
			}
		}
	}
	if count < 30 {
		t.Errorf("only %d commands were found in the README", count)
	}
}

// codeBlocks are what stands between fences or is indented by four blanks.
func codeBlocks(text string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^    (.*)$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// Links lead somewhere, and packages named in commands exist.
func TestReadmePaths(t *testing.T) {
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(moduleRoot, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		anchors := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
			anchor := regexp.MustCompile("[^a-z0-9 -]").ReplaceAllString(strings.ToLower(m[1]), "")
			anchors["#"+strings.ReplaceAll(anchor, " ", "-")] = true
		}
		for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "#") {
				if !anchors[m[1]] {
					t.Errorf("%s: no heading for %s", name, m[1])
				}
			} else if _, err := os.Stat(filepath.Join(moduleRoot, m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		path := regexp.MustCompile(`(?:^|[\s` + "`" + `(])(?:\./)?((?:cmd|linear|reconcile|runner|scripts|state|testdata|\.ci)/[\w./-]*\w)`)
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(moduleRoot, m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Every code that an error can have stands in one of the two tables, the program's own with their exit codes.
func TestReadmeCodes(t *testing.T) {
	text := chapter(t, "Exit codes and errors")
	text, ofTool, _ := strings.Cut(text, "Errors that only the agent is told")
	ofPasses, ofRuns, _ := strings.Cut(text, "Errors of runs")
	documented := map[string]bool{}
	for _, cells := range rows(ofPasses) {
		for _, code := range codeSpans(cells[0]) {
			documented[code] = true
			if want := strconv.Itoa(exit.Code(&reconcile.Error{Code: code})); cells[1] != want {
				t.Errorf("%s ends the program with %s, the README says %s", code, want, cells[1])
			}
		}
	}
	own := maps.Clone(documented)
	told := map[string]bool{}
	for _, cells := range rows(ofTool) {
		for _, code := range codeSpans(cells[0]) {
			told[code] = true
		}
	}
	for _, cells := range rows(ofRuns) {
		for _, code := range codeSpans(cells[0]) {
			documented[code] = true
		}
	}
	found := errorCodes(t)
	for code, where := range found {
		prefix, _, _ := strings.Cut(code, "_")
		if slices.Contains([]string{"linear", "state", "tracker"}, prefix) && !reconcile.MachineFault(code) {
			t.Errorf("%s would count as a failure of the issue: reconcile/fault.go does not have it", code)
		}
		switch {
		case told[code]:
		case !documented[code]:
			t.Errorf("%s is not in the README: %s", code, where[0])
		case !own[code] && slices.ContainsFunc(where, func(w string) bool { return !strings.Contains(w, "runner/") && !strings.Contains(w, "reconcile/") }):
			t.Errorf("%s is not among the errors of passes and commands: %s", code, where)
		}
	}
	for code := range documented {
		if found[code] == nil {
			t.Errorf("no error has the code %s", code)
		}
	}
}

// errorCodes finds the codes in the source: in the field Code, in constants, in the words that `fail` and the
// functions that judge a run are given or return.
func errorCodes(t *testing.T) map[string][]string {
	t.Helper()
	code := regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)*$`)
	found := map[string][]string{}
	for _, dir := range []string{"cmd", "linear", "reconcile", "runner", "state"} {
		err := filepath.WalkDir(filepath.Join(moduleRoot, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && strings.HasSuffix(path, "test") {
				return cmpErr(err, fs.SkipDir)
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			note := func(e ast.Expr) {
				lit, ok := e.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return
				}
				if word, err := strconv.Unquote(lit.Value); err == nil && code.MatchString(word) {
					found[word] = append(found[word], set.Position(lit.Pos()).String())
				}
			}
			ast.Inspect(file, func(n ast.Node) bool { codeIn(n, note); return true })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 60 {
		t.Fatalf("only %d codes were found in the source", len(found))
	}
	return found
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func codeIn(n ast.Node, note func(ast.Expr)) {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
			note(n.Value)
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if strings.HasPrefix(strings.ToLower(name.Name), "code") && i < len(n.Values) {
				note(n.Values[i])
			}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "fail" && len(n.Args) > 0 {
			note(n.Args[0])
		}
	case *ast.FuncDecl:
		if n.Name.Name == "judge" || n.Name.Name == "codeOf" {
			ast.Inspect(n, func(inner ast.Node) bool {
				if r, ok := inner.(*ast.ReturnStmt); ok {
					for _, e := range r.Results {
						note(e)
					}
				}
				return true
			})
		}
	}
}

// The words for what a claim, a run and a pass can be and do are explained.
func TestReadmeWords(t *testing.T) {
	set := token.NewFileSet()
	said := map[string]bool{}
	for _, title := range []string{"How an issue goes through", "What happens when", "JSON"} {
		for _, span := range codeSpans(chapter(t, title)) {
			said[span] = true
		}
	}
	count := 0
	names, err := filepath.Glob(filepath.Join(moduleRoot, "reconcile", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			typ, _ := spec.Type.(*ast.Ident)
			for i, id := range spec.Names {
				lit, ok := spec.Values[i].(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					continue
				}
				kind := typ != nil && slices.Contains([]string{"ClaimStatus", "RetryKind", "Phase", "Outcome", "ActionKind"}, typ.Name)
				if !kind && !regexp.MustCompile("^(Skip|Stop|Hold)[A-Z]").MatchString(id.Name) {
					continue
				}
				count++
				if word, err := strconv.Unquote(lit.Value); err != nil || !said[word] {
					t.Errorf("%s (%s) is not explained", word, id.Name)
				}
			}
			return true
		})
	}
	if count < 45 {
		t.Errorf("only %d words were found in the source", count)
	}
}

// The JSON that the README shows has exactly the fields that the program prints.
func TestReadmeJSON(t *testing.T) {
	for mark, v := range map[string]any{"ps": view.Overview{}, "tick": pass.ResultJSON{}} {
		var shown any
		text := between(t, readme(t), "<!-- "+mark+" -->\n```json\n", "```")
		if err := json.Unmarshal([]byte(text), &shown); err != nil {
			t.Fatalf("%s: %v", mark, err)
		}
		want, got := fieldsOf(reflect.TypeOf(v), ""), pathsOf(shown, "")
		for _, path := range want {
			if !slices.Contains(got, path) {
				t.Errorf("%s: the README lacks %s", mark, path)
			}
		}
		for _, path := range got {
			if !slices.Contains(want, path) && !strings.HasPrefix(path, "skipped.") {
				t.Errorf("%s: there is no %s", mark, path)
			}
		}
	}
}

func fieldsOf(typ reflect.Type, path string) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() == "time" {
		return nil
	}
	var all []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			all = append(all, fieldsOf(f.Type, path)...)
		case name != "" && name != "-":
			all = append(append(all, path+name), fieldsOf(f.Type, path+name+".")...)
		}
	}
	// The hint of an error is told by a pass that has just met it, not by the one that is remembered.
	return slices.DeleteFunc(all, func(p string) bool { return p == "last_pass.errors.hint" })
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

// The WORKFLOW.md that the README shows is valid without a warning, and takes an issue to its handoff from a
// schedule's bare environment, the key in the environment file.
func TestReadmeWorkflow(t *testing.T) {
	shown := between(t, chapter(t, "WORKFLOW.md"), "```markdown\n", "```\n")
	used := shown
	for _, change := range [][2]string{
		{"  kind: linear\n", "  kind: linear\n  endpoint: $LINEAR_ENDPOINT\n"},
		{"https://linear.app/acme/project/web-shop-1a2b3c4d5e6f", "demo"},
		{"git@github.com:acme/web-shop.git", `"$HOME/web-shop.git"`},
		{"codex app-server", "$AGENT"},
		{"workspace:\n", "workspace:\n  min_free_bytes: 0\n"},
	} {
		if !strings.Contains(used, change[0]) {
			t.Fatalf("the workflow has no %q", change[0])
		}
		used = strings.ReplaceAll(used, change[0], change[1])
	}
	script := filepath.Join(t.TempDir(), "readme.txtar")
	text := readmeScript + "-- shown/WORKFLOW.md --\n" + shown + "-- WORKFLOW.md --\n" + used
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := params(t, "script")
	p.Dir, p.Files = "", []string{script}
	testscript.Run(t, p)
}

const readmeScript = `
env SYMPHONY_STATE_DIR=
exec symphony check shown/WORKFLOW.md
! stderr .

# A repository, and the key in the file that check names.
exec git init --quiet --bare --initial-branch=main home/web-shop.git
exec git init --quiet --initial-branch=main seed
exec git -C seed commit --quiet --allow-empty -m Begin
exec git -C seed push --quiet ../home/web-shop.git main
exec sh -c 'symphony check | sed "s/.* its environment file is //" > name'
exec sh -c 'mkdir -p home/.config/symphony && umask 077 && echo "LINEAR_API_KEY=$LINEAR_API_KEY" > "$(cat name)"'
env LINEAR_API_KEY=

# What cron gives a command.
linear add ABC-1 labels=agent work.agent
linear add ABC-2
exec sh -c 'env -i HOME="$HOME" LOGNAME=ann SHELL=/bin/sh PATH="$PATH" TESTSCRIPT_COMMAND="$TESTSCRIPT_COMMAND" sh -c "symphony tick --trigger cron --quiet -w $WORK/WORKFLOW.md"'
! stdout .
! stderr .
linear is ABC-1 Human Review
env LINEAR_API_KEY=
gone symphony
exec env -u LINEAR_API_KEY symphony tick
exec symphony ps --all
stdout '^ended\tABC-1\t\S+\tsucceeded\t'
stdout '^skipped\tABC-2\tlabel\t'
exec git --git-dir home/web-shop.git log --format=%s agent/ABC-1
stdout '^Mend the footer$'
linear comments ABC-1 1
-- work.agent --
{move In Progress}
sh echo 2026 > footer.txt && git add -A && git commit --quiet -m 'Mend the footer'
{comment The footer is mended.}
{move Human Review}
say done
`
