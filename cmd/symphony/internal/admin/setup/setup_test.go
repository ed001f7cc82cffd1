package setup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

var stateKinds = map[string]reconcile.StateKind{
	"unstarted": reconcile.StateWaiting,
	"started":   reconcile.StateStarted,
	"completed": reconcile.StateEnded,
}

func team(states ...string) []reconcile.TrackerState {
	list := make([]reconcile.TrackerState, 0, len(states))
	for _, s := range states {
		name, kind, _ := strings.Cut(s, "=")
		list = append(list, reconcile.TrackerState{Name: name, Kind: stateKinds[kind]})
	}
	return list
}

// Proposals for the default teams of Linear, and for teams that were changed.
func TestProposeStates(t *testing.T) {
	const begin = "Backlog=backlog,Todo=unstarted,In Progress=started"
	for _, c := range []struct{ states, example, active, handover string }{
		{begin + ",Done=completed", "branch", "Todo,In Progress", ""},
		{begin + ",In Review=started,Done=completed", "branch", "Todo,In Progress", "In Review"},
		{
			begin + ",In Review=started,Human Review=started,Rework=started,Merging=started",
			"pull-request",
			"Todo,In Progress,Rework",
			"Human Review",
		},
		{begin + ",In Review=started,Human Review=started", "review", "In Review", "Human Review"},
		{begin + ",In Review=started", "review", "In Review", "In Progress"},
		{begin, "review", "", "In Progress"},
		{"Triage=triage,Review=unstarted", "branch", "Review", ""},
		{"", "branch", "", ""},
	} {
		active, handover := proposeStates(c.example, team(strings.Split(c.states, ",")...))
		test.Equal(t, c.example+" of "+c.states, strings.Join(active, ","), c.active)
		test.Equal(t, c.example+" of "+c.states, handover, c.handover)
	}
}

// YAML reads every name as it was.
func TestYAMLScalar(t *testing.T) {
	check := func(t rapid.TB, text string) {
		t.Helper()
		word := test.Must(yamlList([]string{text}))
		var read map[string][]string
		if err := yaml.Unmarshal([]byte("x: "+word+"\n"), &read); err != nil {
			t.Fatalf("%q as %s: %v", text, word, err)
		}
		if got := read["x"]; len(got) != 1 || got[0] != text {
			t.Fatalf("%q as %s is read as %q", text, word, read["x"])
		}
	}
	for _, text := range []string{"Todo", "In Progress", "", "true", "No", "on", "null", "~", "1.5", "a, b", "a]", "a: b", "a #b", "a#b", "- a", " a", "a ", "&a", "*a", "\"", "'", `\`, "y", "{{ x }}", "ümlaut", "🎵"} {
		check(t, text)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.StringMatching(`[ -~\p{L}]{0,12}`).Draw(t, "text")) })
	word, _ := yamlScalar("~/symphony/web-shop")
	test.Equal(t, "a path", word, "~/symphony/web-shop")
}

func testStarter(change func(*answers)) *starter {
	s := &starter{
		dialog: dialog{w: testEnv()},
		p: &wiring.Project{
			Env:      testEnv().Environment(),
			Path:     "/x/WORKFLOW.md",
			StateDir: "/s",
		},
	}
	s.answers = answers{
		Tracker:    "linear",
		Example:    "branch",
		Agent:      "codex",
		Project:    "demo",
		Repository: "git@example.com:a/b.git",
		Forge:      "github",
		Root:       "~/symphony/demo",
		Review:     "In Review",
		Active:     []string{"Todo", "In Progress"},
		Terminal:   []string{"Done"},
		Labels:     []string{"symphony"},
		Waiting:    "Todo",
		Begun:      "In Progress",
	}
	change(&s.answers)
	return s
}

// Every example becomes a workflow without warnings, whatever the names in it; what would
// break the prompt is refused.
func TestRender(t *testing.T) {
	for _, example := range ExampleNames {
		for _, c := range []struct {
			name   string
			change func(*answers)
			code   string
		}{
			{"plain", func(*answers) {}, ""},
			{"no part", func(a *answers) {
				a.Waiting = ""
				a.Begun = ""
			}, ""},
			{"quotes", func(a *answers) {
				a.Active = []string{"yes", "a, b: [c]", `"d"`}
				a.Begun = "a, b: [c]"
				a.Labels = []string{"on # {{ x }}"}
			}, ""},
			{"endpoint", func(a *answers) { a.Endpoint = "http://127.0.0.1:1/graphql" }, ""},
			{"plain http", func(a *answers) { a.Endpoint = "http://example.com/graphql" }, "invalid_config"},
			{"template", func(a *answers) { a.Begun = "{{ issue.titel }}" }, "invalid_config"},
			{"open brace", func(a *answers) { a.Begun = "{% if x" }, "invalid_config"},
			{"active", func(a *answers) { a.Review = "in progress" }, "invalid_config"},
			{"github", func(a *answers) {
				a.Tracker = "github"
				a.Project = "acme/shop"
				a.Active = []string{"open", "wip"}
				a.Terminal = []string{"closed"}
				a.Begun = "wip"
			}, ""},
			{"gitea", func(a *answers) {
				a.Tracker = "gitea"
				a.Endpoint = "https://git.example.com/api/v1"
				a.Project = "acme/shop"
				a.Active = []string{"open", "wip"}
				a.Terminal = []string{"closed"}
				a.Begun = "wip"
			}, ""},
			{"gitlab", func(a *answers) {
				a.Tracker = "gitlab"
				a.Project = "acme/web/shop"
				a.Active = []string{"opened", "wip"}
				a.Terminal = []string{"closed"}
				a.Begun = "wip"
			}, ""},
			{"jira", func(a *answers) {
				a.Tracker = "jira"
				a.Endpoint = "https://acme.atlassian.net"
				a.Email = "symphony@example.com"
				a.CloudID = "11223344-a1b2-3b33-c444-def123456789"
				a.Project = "SHOP"
			}, ""},
			{"file", func(a *answers) {
				a.Tracker = "file"
				a.Path = "issues"
				a.Project = ""
				a.Labels = nil
			}, ""},
			{"both", func(a *answers) { a.Terminal = a.Active }, "invalid_config"},
		} {
			s := testStarter(c.change)
			s.answers.Example = example
			if example == reviewExample &&
				strings.HasPrefix(s.answers.Begun, "{") {
				c.code = "" // its prompt names no state
			}
			text, err := s.render()
			var known *reconcile.Error
			if c.code == "" && err != nil ||
				c.code != "" && (!errors.As(err, &known) || known.Code != c.code) {
				t.Errorf("%s, %s: %v, want %q", example, c.name, err, c.code)
			}
			cautious := strings.Contains(string(text), "max_concurrent_agents: 1\n")
			moves := strings.Contains(string(text), "\n  state: In Review\n")
			if c.code == "" && (!cautious || !moves) {
				t.Errorf("%s: %s", example, text)
			}
			merged := "\n  # merged_state: " + s.answers.Terminal[0] + "\n" // which the tracker has
			if c.code == "" && example == pullRequestExample && !strings.Contains(string(text), merged) {
				t.Errorf("there is no %q in %s", merged, text)
			}
		}
	}
}

// Every stack becomes a workflow without warnings: the syntax of its hook is checked, too.
func TestStacks(t *testing.T) {
	for _, row := range Stacks {
		if row.Verify == "" {
			continue // clone.stacks returns no such row
		}
		s := testStarter(func(a *answers) { a.Stacks = []Stack{row, row} })
		if made, err := s.render(); err != nil || strings.Count(string(made), row.Verify) != 3 {
			t.Errorf("%s: %v in\n%s", row.Files, err, made)
		}
	}
}

// The first stack in the order of the table counts. The files say which program runs the
// tests.
func TestFindStack(t *testing.T) {
	for files, want := range map[string]string{
		"":                           "",
		"web/package.json:{}":        "",
		"build.gradle.kts: gradlew:": "",
		"yarn.lock: package.json:{}": `YARN_CACHE_FOLDER="$XDG_CACHE_HOME/yarn" YARN_GLOBAL_FOLDER="$XDG_CACHE_HOME/yarn"` +
			" yarn install --frozen-lockfile && yarn node --test",
		`bun.lockb: package.json:{"scripts":{"test":"jest"}}`: `BUN_INSTALL_CACHE_DIR="$XDG_CACHE_HOME/bun" bun install --frozen-lockfile && bun run test`,
		"package.json:{} go.mod:module":                       "go vet ./... && go test ./...|node --test",
		`package-lock.json:{} package.json:{"scripts":{"test":"jest"}}`: "npm ci --no-audit --no-fund " +
			"--offline && npm test",
		`package.json:{"scripts":{"test":"exit&&echo-no"}}`:  "npm test",
		"pyproject.toml:[tool.ruff] requirements.txt:pytest": `"$XDG_CACHE_HOME/venv/bin/python" -m pytest || [ $? = 5 ]`,
		"pyproject.toml:[project] tests/test_a.py:":          `"$XDG_CACHE_HOME/venv/bin/python" -m unittest discover -s tests || [ $? = 5 ]`,
		"setup.py: tests/__init__.py: Cargo.toml:":           `CARGO_TARGET_DIR="$XDG_CACHE_HOME/target" cargo test --offline|"$XDG_CACHE_HOME/venv/bin/python" -m unittest || [ $? = 5 ]`,
		"pyproject.toml:[tool.ruff]":                         "",
		"mvnw: pom.xml:":                                     `./mvnw -q -B -o -Dmaven.repo.local="$XDG_CACHE_HOME/m2" test`,
	} {
		s := testStarter(func(*answers) {})
		s.w.Environ = os.Environ()
		s.clone = t.TempDir()
		for file := range strings.FieldsSeq(files) {
			name, content, _ := strings.Cut(file, ":")
			test.OK(t, os.MkdirAll(filepath.Join(s.clone, filepath.Dir(name)), 0o755))
			test.OK(t, os.WriteFile(filepath.Join(s.clone, name), []byte(content), 0o600))
		}
		for _, args := range []string{
			"init -q",
			"add -A",
			"-c user.name=a -c user.email=a@b.c commit -q --allow-empty -m Begin",
		} {
			s.git(t.Context(), s.clone, strings.Fields(args)...)
		}
		stacks := s.stacks(t.Context(), s.clone)
		found := text.Map(stacks, func(row Stack) string { return row.Verify })
		test.Equal(t, files, strings.Join(found, "|"), want)
		for _, row := range stacks {
			test.Equal(
				t,
				files+": the hook installs pytest",
				strings.Contains(row.Fetch, pytest),
				strings.Contains(row.Verify, pytest),
			)
		}
	}
}

// An exact name matches one project, even if others have it as a part of theirs.
func TestMatchingProjects(t *testing.T) {
	all := []reconcile.TrackerProject{
		{
			Name: "Web shop",
			Slug: "1",
			URL:  "https://linear.app/acme/project/web-shop-1",
		}, {
			Name: "Web",
			Slug: "2",
			URL:  "https://linear.app/acme/project/web-2",
		},
	}
	for text, want := range map[string]string{
		"web":   "2",
		"WEB S": "1",
		"e":     "12",
		"https://linear.app/acme/project/web-shop-1": "1",
		"zebra": "",
		"1":     "1",
	} {
		got := ""
		for _, p := range matchingProjects(all, text) {
			got += p.Slug
		}
		test.Equal(t, text, got, want)
	}
}

func testEnv() *term.Env {
	return &term.Env{
		Env:    environ.Env{Dir: "/", Home: "/"},
		Stdin:  strings.NewReader(""),
		Stdout: io.Discard,
		Stderr: io.Discard,
	}
}

// Nothing of another kind of tracker takes the place of what a kind lacks.
func TestEachKindBringsItsOwn(t *testing.T) {
	test.Equal(t, "the last one suits always", kinds[len(kinds)-1].suits == nil, true)
	s := &starter{answers: answers{
		Tracker: "none",
		Example: ExampleNames[0],
		Waiting: "Todo",
		Begun:   "In Progress",
	}}
	if _, err := s.render(); err == nil || !strings.Contains(err.Error(), `no template "none-settings"`) {
		t.Errorf("a kind without its part: %v", err)
	}
	if _, err := wiring.TrackerSetup(fileKind.name, "ann@example.com"); err == nil ||
		!strings.Contains(err.Error(), "init can't connect") {
		t.Errorf("a kind without a setup: %v", err)
	}
}

// gitIn runs commands of git in a directory.
func gitIn(t *testing.T, s *starter, dir string, commands ...string) {
	t.Helper()
	s.w.Environ = os.Environ()
	for _, command := range commands {
		s.git(t.Context(), dir, strings.Fields(command)...)
	}
}

const makeCommit = "-c user.name=a -c user.email=a@b.c commit -q --allow-empty -m Begin"

// An operator whose directory was refused may name an address: its work begins at its own
// default branch, and not at the branch of that directory.
func TestRefusedRepositoryLeavesNothing(t *testing.T) {
	s := testStarter(func(a *answers) { a.Example = pullRequestExample })
	dir := t.TempDir()
	gitIn(t, s, dir, "init -q -b main", makeCommit, "switch -q -c feature/x")
	if s.setRepository(t.Context(), dir) == nil {
		t.Error("a directory has no pull requests")
	}
	test.OK(t, s.setRepository(t.Context(), "https://github.com/acme/shop.git"))
	test.Equal(t, "the base", s.answers.Base, "")
}

// A tag with the name of the branch makes git write the branch as heads/main in short.
func TestBranchWithTheNameOfATag(t *testing.T) {
	s := testStarter(func(*answers) {})
	dir := t.TempDir()
	gitIn(t, s, dir, "init -q -b main", makeCommit, "tag main")
	test.OK(t, s.setRepository(t.Context(), dir))
	test.Equal(t, "the base", s.answers.Base, "main")
}

// The root of a project whose name has no Latin letter is not the folder of all roots.
func TestRootOfANameWithoutLatinLetters(t *testing.T) {
	s := testStarter(func(*answers) {})
	s.w.Home = t.TempDir()
	s.project.Name = "店"
	test.Equal(t, "the root", s.proposeRoot(), "~/symphony/project")
}
