package environ

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/runner/host"
)

// FromFileVar is the variable that names the variables of a worker that come from the
// environment file, separated by commas. The pass that the worker starts reads these from the
// file again.
const FromFileVar = "SYMPHONY_ENV_FILE_VARS"

// caller is a program that may start symphony and leaves variables that are about its own
// repository, build or service. If they reached a hook or an agent, git there would work in
// another repository: the before_run `git reset --hard` of a pass that a post-commit hook
// started would reset the operator's branch, because git sets GIT_DIR for its hooks.
type caller struct {
	name string
	// sign is a variable that only this caller sets. Without it, the others are the operator's
	// own: MAKEFLAGS=-j8 is a setting, but beside MAKELEVEL it belongs to a single run of
	// make. Empty if the variables are never a setting.
	sign string
	// variables are the variables that the caller leaves. A * at the end stands for any rest.
	variables []string
	// programs reports whether the caller put a directory on the PATH. nil if it puts none
	// there.
	programs func(dir, sign string) bool
}

// callers are the programs that start symphony in practice: hooks of git, timers and services,
// build tools, and shells in a project.
var callers = []caller{
	{
		name: "git",
		variables: slices.Concat(host.GitRepositoryVars, []string{
			"GIT_CONFIG_COUNT",
			"GIT_CONFIG_KEY_*",
			"GIT_CONFIG_PARAMETERS",
			"GIT_CONFIG_VALUE_*",
			"GIT_PUSH_OPTION_*",
			"GIT_REFLOG_ACTION",
		}),
	},
	{
		// An agent's commit would be by the author of the commit that the hook is about, and
		// at its time.
		name:      "git's hooks",
		sign:      "GIT_INDEX_FILE",
		variables: []string{"GIT_AUTHOR_*", "GIT_EDITOR"},
	},
	{
		name: "systemd",
		variables: []string{
			"FDSTORE",
			"INVOCATION_ID",
			"JOURNAL_STREAM",
			"LISTEN_FDNAMES",
			"LISTEN_FDS",
			"LISTEN_PID",
			"LISTEN_PIDFDID",
			"NOTIFY_SOCKET",
			"SYSTEMD_EXEC_PID",
			"WATCHDOG_PID",
			"WATCHDOG_USEC",
		},
	},
	{
		name: "make",
		sign: "MAKELEVEL",
		variables: []string{
			"GNUMAKEFLAGS",
			"MAKEFLAGS",
			"MAKELEVEL",
			"MAKEOVERRIDES",
			"MAKE_TERMERR",
			"MAKE_TERMOUT",
			"MFLAGS",
		},
	},
	{
		name:      "npm",
		sign:      "npm_execpath",
		variables: []string{"INIT_CWD", "npm_*"},
		programs: func(dir, _ string) bool {
			return strings.HasSuffix(dir, "/node_modules/.bin") || strings.HasSuffix(dir, "/node-gyp-bin")
		},
	},
	{
		name:      "direnv",
		variables: []string{"DIRENV_*"},
	},
	{
		name:      "a virtual environment of Python",
		sign:      "VIRTUAL_ENV",
		variables: []string{"PYTHONHOME", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "_OLD_VIRTUAL_*"},
		programs:  inBin,
	},
	{
		name: "conda",
		sign: "CONDA_PREFIX",
		variables: []string{
			"CONDA_DEFAULT_ENV",
			"CONDA_PREFIX",
			"CONDA_PREFIX_*",
			"CONDA_PROMPT_MODIFIER",
			"CONDA_SHLVL",
		},
		programs: inBin,
	},
	{
		// It shows a dialog when git asks for a password, and waits for an answer.
		name:      "the terminal of an editor",
		sign:      "VSCODE_GIT_ASKPASS_MAIN",
		variables: []string{"GIT_ASKPASS", "SSH_ASKPASS", "VSCODE_GIT_*"},
	},
}

// inBin reports whether dir is the directory with the programs of an environment that begins
// at prefix.
func inBin(dir, prefix string) bool {
	return filepath.Clean(dir) == filepath.Join(prefix, "bin")
}

// Split separates the environment of a process ("NAME=value" entries) into the operator's own
// variables and the variables left by the program that started the process. The variables in
// keep are the operator's own, whatever their names: a worker gets some from the environment
// file.
func Split(env []string, keep ...string) (own, left []string) {
	values := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if !slices.Contains(keep, name) && leftByCaller(name, values) {
			left = append(left, entry)
			continue
		}
		if name == "PATH" {
			entry = "PATH=" + withoutCallers(value, values)
		}
		own = append(own, entry)
	}
	return own, left
}

func leftByCaller(name string, values map[string]string) bool {
	for _, c := range callers {
		if !c.present(values) {
			continue
		}
		for _, pattern := range c.variables {
			prefix, open := strings.CutSuffix(pattern, "*")
			if name == pattern || open && strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	return false
}

// withoutCallers removes the directories that callers have put on the PATH.
func withoutCallers(path string, values map[string]string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		return slices.ContainsFunc(callers, func(c caller) bool {
			return c.programs != nil && c.present(values) && c.programs(dir, values[c.sign])
		})
	})
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// present reports whether the process was started by the caller.
func (c caller) present(values map[string]string) bool {
	return c.sign == "" || values[c.sign] != ""
}
