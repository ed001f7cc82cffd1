package environ_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
)

// What a caller has left is separated from the operator's own variables. Each row is an
// environment, without line breaks, and what is left of it.
func TestSplit(t *testing.T) {
	for name, row := range map[string]struct{ env, own string }{
		"a shell":      {"HOME=/h PATH=/b:/usr/bin LANG=C", "HOME=/h PATH=/b:/usr/bin LANG=C"},
		"post-receive": {"GIT_DIR=. GIT_QUARANTINE_PATH=/q GIT_PUSH_OPTION_COUNT=0 A=b", "A=b"},
		"post-commit in a worktree": {
			"GIT_DIR=/r/.git/worktrees/w GIT_INDEX_FILE=/i GIT_EDITOR=: GIT_PREFIX= A=b",
			"A=b",
		},
		"the author of a commit": {"GIT_INDEX_FILE=/i GIT_AUTHOR_NAME=Ann GIT_AUTHOR_DATE=@1", ""},
		"an author in a shell":   {"GIT_AUTHOR_NAME=Ann GIT_EDITOR=vi", "GIT_AUTHOR_NAME=Ann GIT_EDITOR=vi"},
		"git -c": {
			"GIT_CONFIG_PARAMETERS='a.b=c' GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=a.b GIT_CONFIG_VALUE_0=c",
			"",
		},
		"settings of git in a shell": {
			"GIT_SSH_COMMAND=ssh GIT_CONFIG_GLOBAL=/g GIT_ASKPASS=/a",
			"GIT_SSH_COMMAND=ssh GIT_CONFIG_GLOBAL=/g GIT_ASKPASS=/a",
		},
		"a service": {
			"NOTIFY_SOCKET=/n WATCHDOG_USEC=1 LISTEN_FDS=1 LISTEN_PID=1 INVOCATION_ID=a A=b",
			"A=b",
		},
		"make":              {"MAKELEVEL=1 MAKEFLAGS=-n MFLAGS=-n A=b", "A=b"},
		"a setting of make": {"MAKEFLAGS=-j8", "MAKEFLAGS=-j8"},
		"npm run": {
			"npm_execpath=/n npm_config_cache=/c npm_lifecycle_event=x INIT_CWD=/w PATH=/p/node_modules/.bin:/usr/bin",
			"PATH=/usr/bin",
		},
		"a setting of npm": {"npm_config_cache=/c", "npm_config_cache=/c"},
		"direnv":           {"DIRENV_DIR=-/w DIRENV_DIFF=x A=b", "A=b"},
		"a virtual environment": {
			"VIRTUAL_ENV=/w/.venv PATH=/w/.venv/bin:/usr/bin VIRTUAL_ENV_PROMPT=(w)",
			"PATH=/usr/bin",
		},
		"conda": {"CONDA_PREFIX=/c CONDA_SHLVL=1 PATH=/c/bin:/usr/bin", "PATH=/usr/bin"},
		"the terminal of VS Code": {
			"VSCODE_GIT_ASKPASS_MAIN=/v GIT_ASKPASS=/v/askpass.sh VSCODE_GIT_IPC_HANDLE=/s A=b",
			"A=b",
		},
		"the environment file": {
			"GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=a.b KEPT=c",
			"GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=a.b KEPT=c",
		},
	} {
		keep := []string{}
		if name == "the environment file" {
			keep = []string{"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0"}
		}
		own, left := environ.Split(strings.Fields(row.env), keep...)
		test.Equal(t, name, strings.Join(own, " "), row.own)
		test.Equal(t, name+": together", len(own)+len(left), len(strings.Fields(row.env)))
	}
}

// Every variable that this machine's git counts among those of a repository is dropped.
func TestSplitDropsWhatGitLists(t *testing.T) {
	for name := range strings.FieldsSeq(test.Run(t, exec.CommandContext(t.Context(), "git", "rev-parse", "--local-env-vars"))) {
		own, _ := environ.Split([]string{name + "=1"})
		test.Equal(t, name, len(own), 0)
	}
}
