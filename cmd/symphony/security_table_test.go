package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table in docs/security.md of what an agent can do is tried cell by cell: for each option a hostile agent, the real codex with
// a scripted model, tries every row, and what came of it is looked at from outside of its sandbox.

// byDefault is the column without any option.
const byDefault = "by default"

// trustOptions are the columns: what the table calls them, and what sets them.
var trustOptions = map[string]string{
	byDefault:                    "",
	"agent.network":              "set agent.network true",
	"agent.writable_roots":       "set agent.writable_roots '[\"'$WORK'/shared\"]'",
	"agent.pass_env":             "set agent.pass_env '[DEPLOY_TOKEN]'",
	"agent.keep_git_config":      "set agent.keep_git_config true",
	"agent.on_approval: approve": "set codex.approval_policy on-request\nset agent.on_approval approve",
	"agent.on_approval: ask":     "set codex.approval_policy on-request\nset agent.on_approval ask",
	"codex.thread_sandbox":       "set codex.thread_sandbox workspace-write",
	"agent.trust_repository":     "set codex.thread_sandbox workspace-write\nset agent.trust_repository true",
	"codex.home":                 "set codex.home $WORK/second-home",
	"tracker.tool_scope: read":   "set tracker.tool_scope read",
	"readOnly":                   "set codex.turn_sandbox_policy '{type: readOnly}'",
	"dangerFullAccess":           "set codex.turn_sandbox_policy '{type: dangerFullAccess}'",
	"externalSandbox":            "set codex.turn_sandbox_policy '{type: externalSandbox}'",
}

// trustCells gives the table's cells: the value of each row, by option.
func trustCells(t *testing.T) map[string]map[string]string {
	t.Helper()
	cells := map[string]map[string]string{}
	named := map[string]bool{byDefault: true}
	for _, row := range rows(between(t, document(t, "docs/security.md"), "<!-- trust -->", "<!-- /trust -->"))[1:] {
		if len(row) != 3 {
			t.Fatalf("%d cells in %q", len(row), row)
		}
		what := row[0]
		if cells[what] != nil {
			t.Errorf("twice: %s", what)
		}
		cells[what] = map[string]string{}
		for option := range trustOptions {
			cells[what][option] = row[1]
		}
		for _, exception := range strings.Split(row[2], "; ") {
			if row[2] == "" {
				break
			}
			m := regexp.MustCompile("^((?:`[^`]+`(?:, )?)+): (.+)$").FindStringSubmatch(exception)
			if m == nil {
				t.Fatalf("%s: not understood: %q", what, exception)
			}
			for _, option := range codeSpans(m[1]) {
				if _, known := trustOptions[option]; !known {
					t.Errorf("%s: no such option: %s", what, option)
				}
				named[option] = true
				cells[what][option] = m[2]
			}
		}
	}
	for option := range trustOptions {
		if !named[option] && option != "codex.thread_sandbox" { // of which the text says that it changes nothing
			t.Errorf("the table does not speak of %s", option)
		}
	}
	return cells
}

func TestSecurityTable(t *testing.T) {
	cells := trustCells(t)
	tried := map[string]bool{}
	for _, row := range trustRows() {
		tried[row.says] = true
		if cells[row.says] == nil {
			t.Errorf("docs/security.md has no row %q", row.says)
		}
	}
	for what := range cells {
		if !tried[what] {
			t.Errorf("nobody tries the row %q", what)
		}
	}
	if t.Failed() {
		return
	}
	if os.Getenv("SYMPHONY_TEST_CODEX") == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex; what an agent can do is not tried")
	}
	t.Cleanup(func() { removeOutside(t) })
	scripts := map[string]string{}
	for option := range trustOptions {
		name := regexp.MustCompile(`[^a-zA-Z_]+`).ReplaceAllString(option, "_")
		scripts[name] = trustScript(t, cells, option)
	}
	runScripts(t, params(t, "codex"), scripts)
}

// removeOutside takes away what agents have written outside of their scripts' directories, by marks that begin with this
// process's number.
func removeOutside(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/tmp/symphony-trust-%d-*", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// trustScript is the script that tries all rows under one option.
func trustScript(t *testing.T, cells map[string]map[string]string, option string) string {
	t.Helper()
	var looks strings.Builder
	for _, row := range trustRows() {
		value := cells[row.says][option]
		look, known := row.means[value]
		if !known {
			t.Fatalf("%s, %s: nobody knows how %q is seen", row.says, option, value)
		}
		fmt.Fprintf(&looks, "# %s, %s: %s\n%s\n", row.says, option, value, look)
	}
	asked := ""
	if option == "agent.on_approval: ask" {
		asked = "until '^request\\tABC-1\\.1\\t' symphony ps\n! exists asked\nexec symphony approve ABC-1.1\n"
	}
	agents := "-- clone.agent --\n" + trustAgent(inClone) + "-- linked.agent --\n" + trustAgent(inWorktree)
	return strings.NewReplacer("OPTION\n", trustOptions[option]+"\n", "ASKED\n", asked, "LOOKS\n", looks.String(), "AGENTS\n", agents).Replace(made("security.txtar"))
}

// trustAgent is what the agent does in a clone or a linked worktree. All commands are one, which spares a sandbox for each.
func trustAgent(where int) string {
	var commands, others strings.Builder
	for _, row := range trustRows() {
		if row.where != where || row.tries == "" {
			continue
		}
		for _, line := range strings.Split(row.tries, "\n") {
			if command, ok := strings.CutPrefix(line, "sh "); ok {
				fmt.Fprintf(&commands, "(%s); ", command)
			} else {
				fmt.Fprintln(&others, line)
			}
		}
	}
	return "sh " + commands.String() + "true\n" + others.String()
}
