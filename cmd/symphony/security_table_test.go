package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// These tests check every cell of the table in docs/security.md of what an agent can do. With
// options set, a hostile agent, the real codex with a scripted model, tries every row, and a
// script checks the result outside the sandbox.

// byDefault is the column without options.
const byDefault = "by default"

// trustScripts maps the options that one script sets, as the columns of the table are called,
// to the lines that set them. They change different rows, so that what each of them does, and
// that it does nothing else, can be seen although the others are set.
var trustScripts = map[string]map[string]string{
	"default": {byDefault: ""},
	"more": {
		"agent.network":              "set agent.network true",
		"agent.writable_roots":       "set agent.writable_roots '[\"'$WORK'/shared\"]'",
		"agent.pass_env":             "set agent.pass_env '[DEPLOY_TOKEN]'",
		"agent.on_approval: approve": "set codex.approval_policy on-request\nset agent.on_approval approve",
		"codex.thread_sandbox":       "set codex.thread_sandbox workspace-write",
		"tracker.tool_scope: read":   "set tracker.tool_scope read",
	},
	"asks": {
		"agent.on_approval: ask": "set codex.approval_policy on-request\nset agent.on_approval ask",
		"agent.trust_repository": "set codex.thread_sandbox workspace-write\nset agent.trust_repository true",
		"codex.inherit":          "set codex.inherit true",
	},
	"readOnly":         {"readOnly": "set codex.turn_sandbox_policy '{type: readOnly}'"},
	"dangerFullAccess": {"dangerFullAccess": "set codex.turn_sandbox_policy '{type: dangerFullAccess}'"},
	"externalSandbox":  {"externalSandbox": "set codex.turn_sandbox_policy '{type: externalSandbox}'"},
}

// trustCells returns the table's cells: the value of each row, by row and option.
func trustCells(t *testing.T) map[string]map[string]string {
	t.Helper()
	cells := map[string]map[string]string{}
	options := map[string]string{}
	for _, sets := range trustScripts {
		maps.Copy(options, sets)
	}
	named := map[string]bool{byDefault: true}
	for _, row := range rows(between(t, document(t, "docs/security.md"), "<!-- trust -->", "<!-- /trust -->"))[1:] {
		if len(row) != 3 {
			t.Fatalf("%d cells in %q", len(row), row)
		}
		what := row[0]
		if cells[what] != nil {
			t.Errorf("the row %q is there twice", what)
		}
		cells[what] = map[string]string{}
		for option := range options {
			cells[what][option] = row[1]
		}
		for _, exception := range strings.Split(row[2], "; ") {
			if row[2] == "" {
				break
			}
			m := regexp.MustCompile("^((?:`[^`]+`(?:, )?)+): (.+)$").FindStringSubmatch(exception)
			if m == nil {
				t.Fatalf("%s: wrong syntax of an exception: %q", what, exception)
			}
			for _, option := range codeSpans(m[1]) {
				if _, known := options[option]; !known {
					t.Errorf("%s: unknown option: %s", what, option)
				}
				named[option] = true
				cells[what][option] = m[2]
			}
		}
	}
	for option := range options {
		// which changes nothing, as the text explains
		if !named[option] && option != "codex.thread_sandbox" {
			t.Errorf("the table does not mention %s", option)
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
			t.Errorf("no test tries the row %q", what)
		}
	}
	if t.Failed() {
		return
	}
	requireCodex(t)
	t.Cleanup(func() { removeOutside(t) })
	scripts := map[string]string{}
	for name, options := range trustScripts {
		scripts[name] = trustScript(t, cells, options)
	}
	runScripts(t, withCodex(params(t, "codex")), scripts)
}

// removeOutside removes the files that agents have written outside their scripts' directories.
// Their names contain this process's pid.
func removeOutside(t *testing.T) {
	t.Helper()
	for _, path := range test.Must(filepath.Glob(fmt.Sprintf("/tmp/symphony-trust-%d-*", os.Getpid()))) {
		test.OK(t, os.Remove(path))
	}
}

// trustScript is the script that tries all rows under the options.
func trustScript(t *testing.T, cells map[string]map[string]string, options map[string]string) string {
	t.Helper()
	var looks strings.Builder
	sets := strings.Join(slices.Sorted(maps.Values(options)), "\n") + "\n"
	for _, row := range trustRows() {
		value := cells[row.says][byDefault]
		by := byDefault
		for option := range options {
			if own := cells[row.says][option]; own != cells[row.says][byDefault] {
				if by != byDefault {
					t.Fatalf("%s: %s and %s change the same row in one script", row.says, by, option)
				}
				value = own
				by = option
			}
		}
		look, known := row.means[value]
		if !known {
			t.Fatalf("%s, %s: no check for the value %q", row.says, by, value)
		}
		fmt.Fprintf(&looks, "# %s, %s: %s\n%s\n", row.says, by, value, look)
	}
	asked := ""
	if _, asks := options["agent.on_approval: ask"]; asks {
		asked = "until '^request\\tABC-1\\.1\\t' symphony ps\n! exists asked\nexec symphony approve ABC-1.1\n"
	}
	agents := "-- clone.agent --\n" + trustAgent(inClone) + "-- linked.agent --\n" + trustAgent(inWorktree)
	return strings.NewReplacer("OPTION\n", sets, "ASKED\n", asked, "LOOKS\n", looks.String(), "AGENTS\n", agents).
		Replace(made("security.txtar"))
}

// trustAgent returns the agent's script for a clone or a linked worktree. The commands are
// joined to one, so that there is only one sandbox to start.
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

// The workspaces in which a row is tried.
const (
	inClone = iota
	inWorktree
)

// trustRow is one row of the table.
type trustRow struct {
	says  string
	where int
	tries string // the agent's lines, if it needs any
	// means maps each value of a cell to the script lines that check it.
	means map[string]string
}

// looks returns what a cell means: all lines that look, or none of them.
func looks(lines ...string) map[string]string {
	no := make([]string, len(lines))
	for i, line := range lines {
		no[i] = "! " + line
		if strings.HasPrefix(line, "exec ") { // only shows what the next line looks at
			no[i] = line
		}
	}
	return map[string]string{"yes": strings.Join(lines, "\n"), "no": strings.Join(no, "\n")}
}

// writes returns a row about writing: the agent runs a command that creates the files, and the
// script tests for them.
func writes(says, command, files string) trustRow {
	return trustRow{says: says, tries: "sh " + command, means: looks("exists " + files)}
}

// reads returns a row about reading: the output of the command contains the word or not.
func reads(says, command, word string) trustRow {
	row := trustRow{says: says, tries: "sh " + command, means: looks("grep " + word + " outputs")}
	row.means["those named"] = row.means["yes"]
	row.means["only as root"] = "[root] " + row.means["yes"] + "\n[!root] " + row.means["no"]
	return row
}

const hostilePath = "$(dirname $PROGRAM)/hostile"

func trustRows() []trustRow {
	return []trustRow{
		writes("write its workspace", "echo x > new", "ws/ABC-1/new"),
		writes(
			"write its own temporary and cache directory",
			"echo x > $TMPDIR/new; echo x > $XDG_CACHE_HOME/new",
			"ws/.symphony/work/ABC-1/tmp/new ws/.symphony/work/ABC-1/cache/new",
		),
		writes(
			"write the temporary and cache folders of hooks and codex",
			"for d in hooks agent; do cd ../.symphony/work/ABC-1/$d; echo x > tmp/new; echo x > cache/new; cd -; done",
			"ws/.symphony/work/ABC-1/hooks/tmp/new ws/.symphony/work/ABC-1/hooks/cache/new "+
				"ws/.symphony/work/ABC-1/agent/tmp/new ws/.symphony/work/ABC-1/agent/cache/new",
		),
		{
			says: "commit", tries: "sh git commit -q --allow-empty -m committed-in-clone",
			means: looks("exec git -C ws/ABC-1 log --format=%s", "stdout committed-in-clone"),
		},
		{
			says:  "commit in a linked worktree",
			where: inWorktree,
			tries: "sh git commit -q --allow-empty -m committed-in-worktree",
			means: looks("exec git -C repo log --format=%s work", "stdout committed-in-worktree"),
		},
		{
			says: "leave git hooks, or git configuration that runs programs, for later",
			tries: "sh echo true > .git/hooks/post-commit && chmod +x .git/hooks/post-commit; git " +
				"config core.fsmonitor /bin/true",
			means: looks("exists ws/ABC-1/.git/hooks/post-commit", "grep fsmonitor ws/ABC-1/.git/config"),
		},
		{
			says: "leave the same in the main repository of a linked worktree", where: inWorktree,
			tries: "sh echo true > ../../repo/.git/hooks/post-merge && chmod +x " +
				"../../repo/.git/hooks/post-merge; git --git-dir ../../repo/.git config core.fsmonitor /bin/true",
			means: looks("exists repo/.git/hooks/post-merge", "grep fsmonitor repo/.git/config"),
		},
		writes(
			"write `.codex` and `.agents` of its workspace",
			"mkdir -p .agents; echo x > .codex/new; echo x > .agents/new",
			"ws/ABC-1/.codex/new ws/ABC-1/.agents/new",
		),
		writes("write another issue's workspace", "echo x > ../OTHER-1/new", "ws/OTHER-1/new"),
		writes("write the directories of `agent.writable_roots`", "echo x > ../../shared/new", "shared/new"),
		writes(
			"write `/tmp`",
			"echo x > /tmp/symphony-trust-$SYMPHONY_TEST_MARK",
			"/tmp/symphony-trust-$SYMPHONY_TEST_MARK",
		),
		writes(
			"write the home directory: ssh keys, profiles",
			"echo x > ~/.ssh/new; echo x > ~/.bash_profile",
			"home/.ssh/new home/.bash_profile",
		),
		writes(
			"write the state directory, leases and records",
			"echo x > ../../state/new; echo x > ../.symphony/new",
			"state/new ws/.symphony/new",
		),
		writes(
			"write the codex home",
			"echo x > $CODEX_HOME/new; echo x > ../../codex-home/new",
			"codex-home/new",
		),
		{
			says:  "write WORKFLOW.md and the environment file",
			tries: "sh echo WRITTEN= >> ~/.config/symphony/state.env; echo WRITTEN >> ../../WORKFLOW.md",
			means: looks("grep WRITTEN WORKFLOW.md", "grep WRITTEN home/.config/symphony/state.env"),
		},

		reads("read another issue's workspace", "cat ../OTHER-1/file", "sentinel-neighbour"),
		reads("read the home directory: ssh keys", "cat ~/.ssh/id_ed25519", "sentinel-ssh"),
		reads(
			"read the environment file, and those of other projects",
			"cd ~/.config/symphony; cat state.env symphony.env other.env ../../../dotfile",
			"'sentinel-[a-z]*file'",
		),
		reads(
			"read the codex home: its login",
			"cat ../../codex-home/auth.json $CODEX_HOME/auth.json",
			"sentinel-login",
		),
		reads("read the state directory", "head -c 15 ../../state/state.db", "SQLite.format"),
		reads(
			"read the environment of its worker, which may contain the tracker's key",
			"cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep LINEAR_API_KEY | sed "+
				"'s/LINEAR_API_KEY=.*/found-the-key/'",
			"found-the-key",
		),
		reads(
			"have the tracker's key in its own environment",
			"env | grep -c lin_api_secret | sed 's/^[1-9].*/own-environment-has-the-key/'",
			"own-environment-has-the-key",
		),
		reads(
			"have variables called `*KEY*`, `*SECRET*` or `*TOKEN*`",
			// Also in the files of codex and symphony. The brackets keep the pattern from
			// matching itself.
			"echo token is $DEPLOY_TOKEN; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep "+
				"DEPLOY_TOKEN; grep -rhoa 'sentinel-tok[e]n' ../../codex-home ../../state ../.symphony | sort -u",
			"sentinel-token",
		),
		reads(
			"have the other variables of the environment, `*PASSWORD*` among them",
			"echo plain is $PLAIN_VARIABLE-$DB_PASSWORD",
			"sentinel-plain-sentinel-password",
		),

		reads(
			"signal other processes of the account",
			"kill -0 $(cat ../../socket.pid) && echo could-signal",
			"^could-signal",
		),
		{
			says:  "leave processes behind",
			tries: "sh " + hostilePath + " fork 3",
			means: looks("alive '^hostile stay'"),
		},
		{
			says:  "run commands outside the sandbox",
			tries: "sh echo x > ../../outside\nask-command echo x > ../../asked",
			means: map[string]string{
				"yes": "exec sh -c 'cat outside asked 2>/dev/null || true'\nstdout x",
				"no":  "! exists outside asked", "asks a person": "! exists outside\nexists asked",
			},
		},
		{
			says:  "run `symphony` to change anything",
			tries: "sh env -u SYMPHONY_RUN_ID $PROGRAM pause -w ../../WORKFLOW.md",
			means: map[string]string{
				"yes": "exec symphony ps --json\njson stdout paused true",
				"no":  "exec symphony ps --json\njson stdout paused false",
			},
		},
		{
			says:  "have codex start what its repository's `.codex/config.toml` names",
			means: looks("exists started-by-repository"),
		},
		{
			says:  "use the MCP servers of the operator's codex home, outside the sandbox",
			means: looks("exists started-by-home"),
		},

		reads(
			"reach the network, this machine's ports included",
			"(exec 3<>/dev/tcp/127.0.0.1/${LINEAR_URL##*:}) && echo could-connect",
			"^could-connect",
		),
		writes(
			"connect to sockets: docker, systemd, an ssh agent",
			hostilePath+" connect $WORK/socket",
			"socket.reached",
		),
		writes(
			"send datagrams to sockets: the system's log",
			hostilePath+" send $WORK/socket.d",
			"socket.sent",
		),
		{
			says:  "read Linear by `linear_graphql`",
			tries: `tool linear_graphql {"query": "{ viewer { id } }"}`,
			means: looks(`grep '"viewer":' outputs`),
		},
		{
			says:  "change Linear by `linear_graphql`",
			tries: "{comment Changed}",
			means: map[string]string{
				"yes": "linear comments ABC-1 1", "no": "linear comments ABC-1 0",
			},
		},
	}
}
