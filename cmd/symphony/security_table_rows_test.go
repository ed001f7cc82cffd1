package main

// Where a row is tried.
const (
	inClone = iota
	inWorktree
)

// trustRow is one row of the README's table.
type trustRow struct {
	says  string
	where int
	tries string // the agent's lines, if it needs any
	// means tells for each value of a cell what the test's script then finds.
	means map[string]string
}

// writes is a row about writing: the agent runs a command that makes the files, which are looked for from outside.
func writes(says, command, files string) trustRow {
	return trustRow{says: says, tries: "sh " + command, means: map[string]string{
		"yes": "exists " + files, "no": "! exists " + files,
	}}
}

// reads is a row about reading: what the command shows holds the word or does not.
func reads(says, command, word string) trustRow {
	return trustRow{says: says, tries: "sh " + command, means: map[string]string{
		"yes": "grep " + word + " outputs", "no": "! grep " + word + " outputs",
		"those named":  "grep " + word + " outputs",
		"only as root": "[root] grep " + word + " outputs\n[!root] ! grep " + word + " outputs",
	}}
}

const hostilePath = "$(dirname $PROGRAM)/hostile"

func trustRows() []trustRow {
	return []trustRow{
		writes("write its workspace", "echo x > new", "ws/ABC-1/new"),
		writes("write a temporary and a cache directory of its own", "echo x > $TMPDIR/new; echo x > $XDG_CACHE_HOME/new",
			"ws/.symphony/work/ABC-1/tmp/new ws/.symphony/work/ABC-1/cache/new"),
		{says: "commit", tries: "sh git commit -q --allow-empty -m committed-in-clone", means: map[string]string{
			"yes": "exec git -C ws/ABC-1 log --format=%s\nstdout committed-in-clone",
			"no":  "exec git -C ws/ABC-1 log --format=%s\n! stdout committed-in-clone",
		}},
		{says: "commit in a linked worktree", where: inWorktree, tries: "sh git commit -q --allow-empty -m committed-in-worktree", means: map[string]string{
			"yes": "exec git -C repo log --format=%s work\nstdout committed-in-worktree",
			"no":  "exec git -C repo log --format=%s work\n! stdout committed-in-worktree",
		}},
		{
			says:  "leave git hooks, or git configuration that runs programs, for later",
			tries: "sh echo true > .git/hooks/post-commit && chmod +x .git/hooks/post-commit; git config core.fsmonitor /bin/true",
			means: map[string]string{
				"yes": "exists ws/ABC-1/.git/hooks/post-commit\ngrep fsmonitor ws/ABC-1/.git/config",
				"no":  "! exists ws/ABC-1/.git/hooks/post-commit\n! grep fsmonitor ws/ABC-1/.git/config",
			},
		},
		{
			says: "leave the same in the main repository of a linked worktree", where: inWorktree,
			tries: "sh echo true > ../../repo/.git/hooks/post-merge && chmod +x ../../repo/.git/hooks/post-merge; git --git-dir ../../repo/.git config core.fsmonitor /bin/true",
			means: map[string]string{
				"yes": "exists repo/.git/hooks/post-merge\ngrep fsmonitor repo/.git/config",
				"no":  "! exists repo/.git/hooks/post-merge\n! grep fsmonitor repo/.git/config",
			},
		},
		writes("write `.codex` and `.agents` of its workspace", "mkdir -p .agents; echo x > .codex/new; echo x > .agents/new",
			"ws/ABC-1/.codex/new ws/ABC-1/.agents/new"),
		writes("write another issue's workspace", "echo x > ../OTHER-1/new", "ws/OTHER-1/new"),
		writes("write the directories of `agent.writable_roots`", "echo x > ../../shared/new", "shared/new"),
		writes("write `/tmp`", "echo x > /tmp/symphony-trust-$SYMPHONY_TEST_MARK", "/tmp/symphony-trust-$SYMPHONY_TEST_MARK"),
		writes("write the home directory: ssh keys, profiles", "echo x > ~/.ssh/new; echo x > ~/.profile", "home/.ssh/new home/.profile"),
		writes("write the state directory, leases and records", "echo x > ../../state/new; echo x > ../.symphony/new", "state/new ws/.symphony/new"),
		writes("write the codex home", "echo x > $CODEX_HOME/new; echo x > ../../codex-home/new", "codex-home/new"),
		{says: "write WORKFLOW.md and the environment file", tries: "sh echo WRITTEN= >> ~/.config/symphony/state.env; echo WRITTEN >> ../../WORKFLOW.md", means: map[string]string{
			"yes": "grep WRITTEN WORKFLOW.md\ngrep WRITTEN home/.config/symphony/state.env",
			"no":  "! grep WRITTEN WORKFLOW.md\n! grep WRITTEN home/.config/symphony/state.env",
		}},

		reads("read another issue's workspace", "cat ../OTHER-1/file", "sentinel-neighbour"),
		reads("read the home directory: ssh keys", "cat ~/.ssh/id_ed25519", "sentinel-ssh"),
		reads("read the environment file", "cat ~/.config/symphony/state.env", "sentinel-envfile"),
		reads("read the codex home: its login", "cat ../../codex-home/auth.txt", "sentinel-login"),
		reads("read the state directory", "head -c 15 ../../state/state.db", "SQLite.format"),
		reads("read the environment of its worker, where the tracker's key may stand",
			"cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep LINEAR_API_KEY | sed 's/LINEAR_API_KEY=.*/found-the-key/'", "found-the-key"),
		reads("have the tracker's key in its own environment", "env | grep -c lin_api_secret | sed 's/^[1-9].*/own-environment-has-the-key/'", "own-environment-has-the-key"),
		reads("have variables called `*KEY*`, `*SECRET*` or `*TOKEN*`",
			// Also from what codex and symphony keep; the brackets keep the search from finding itself.
			"echo token is $DEPLOY_TOKEN; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep DEPLOY_TOKEN; grep -rhoa 'sentinel-tok[e]n' ../../codex-home ../../state ../.symphony | sort -u", "sentinel-token"),
		reads("have the other variables of the environment, `*PASSWORD*` among them", "echo plain is $PLAIN_VARIABLE-$DB_PASSWORD", "sentinel-plain-sentinel-password"),

		reads("signal other processes of the account", "kill -0 $(cat ../../socket.pid) && echo could-signal", "^could-signal"),
		{says: "leave processes behind", tries: "sh " + hostilePath + " fork 3", means: map[string]string{
			"yes": "alive '^hostile stay'", "no": "! alive '^hostile stay'",
		}},
		{says: "run commands outside of the sandbox", tries: "sh echo x > ../../outside\nask-command echo x > ../../asked", means: map[string]string{
			"yes": "exec sh -c 'cat outside asked 2>/dev/null || true'\nstdout x",
			"no":  "! exists outside asked", "asks a person": "! exists outside\nexists asked",
		}},
		{says: "run `symphony` to change anything", tries: "sh env -u SYMPHONY_RUN_ID $PROGRAM pause -w ../../WORKFLOW.md", means: map[string]string{
			"yes": "exec symphony ps\nstdout paused", "no": "exec symphony ps\n! stdout paused",
		}},
		{says: "have codex start what its repository's `.codex/config.toml` names", means: map[string]string{
			"yes": "exists started-by-repository", "no": "! exists started-by-repository",
		}},
		{says: "use the MCP servers of the codex home, outside of the sandbox", means: map[string]string{
			"yes": "exists started-by-home\n! exists started-by-second-home", "those of that home": "exists started-by-second-home\n! exists started-by-home",
		}},

		reads("reach the network, this machine's ports included", "(exec 3<>/dev/tcp/127.0.0.1/${LINEAR_URL##*:}) && echo could-connect", "^could-connect"),
		{says: "connect to sockets: docker, systemd, an ssh agent", tries: "sh " + hostilePath + " connect $WORK/socket", means: map[string]string{
			"yes": "exists socket.reached", "no": "! exists socket.reached",
		}},
		{says: "send datagrams to sockets: the system's log", tries: "sh " + hostilePath + " send $WORK/socket.d", means: map[string]string{
			"yes": "exists socket.sent", "no": "! exists socket.sent",
		}},
		{says: "read Linear by `linear_graphql`", tries: `tool linear_graphql {"query": "{ viewer { id } }"}`, means: map[string]string{
			"yes": `grep '"viewer":' outputs`,
		}},
		{says: "change Linear by `linear_graphql`", tries: "{comment Changed}", means: map[string]string{
			"yes": "linear comments ABC-1 1", "no": "linear comments ABC-1 0",
		}},
	}
}
