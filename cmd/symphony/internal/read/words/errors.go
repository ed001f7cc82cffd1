package words

import (
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// RunErrors are the error codes of runs with the next step for each, as docs/errors.md lists them. ISSUE stands for the
// identifier of the issue.
var RunErrors = []struct{ Codes, Next string }{
	{"codex_not_found", "`npm install -g @openai/codex`, then `codex login`; a login shell (`bash -lc`) has to find it, or set `codex.command` to its path"},
	{
		"codex_incompatible", "install codex 0.159 or later with `npm install -g @openai/codex`; or correct what the message quotes, a value " +
			"under `codex` or in codex's `config.toml`; then `symphony unblock`",
	},
	{"agent_auth", "run `codex login` as the account that symphony runs as, with the same `codex.home`"},
	{"agent_quota", "nothing to do: the account's allowance is used up; work continues after the reset"},
	{"network", "check the network, and the provider in codex's config.toml; work continues when the model can be reached"},
	{
		"sandbox_unavailable", "let the machine sandbox commands, which codex tries before the first turn: allow unprivileged user namespaces " +
			"(`sysctl user.max_user_namespaces=15000`; on some systems `kernel.unprivileged_userns_clone=1` or " +
			"`kernel.apparmor_restrict_unprivileged_userns=0`), or let the container create namespaces (`--security-opt seccomp=unconfined " +
			"--security-opt apparmor=unconfined`). Only in a dedicated container or machine: `codex.turn_sandbox_policy: {type: " +
			"externalSandbox}` (codex confines nothing) or `{type: dangerFullAccess}` (no sandbox at all)",
	},
	{
		"sandbox_failed", "look for a `.git`, `.codex` or `.agents` in the workspace that is a symlink or broken, and for a missing path in " +
			"`agent.writable_roots`: commands can't be sandboxed in this workspace, though elsewhere they can",
	},
	{
		"codex_command_unsafe", "write the path of codex itself into `codex.command`, which `symphony doctor` names: a launcher such as npx " +
			"would start what an agent can write; or, if no agent can change what it starts, set `codex.trust_launcher: true`",
	},
	{
		"login_shell_failed", "try the login shell of the account: `time bash -lc true`; `bash -xlc true` prints each command of its profile. " +
			"Work continues once it ends within 30 s",
	},
	{"response_timeout", "raise `codex.read_timeout_ms` if codex is only slow"},
	{"turn_timeout, stalled", "see what the agent did with `symphony logs ISSUE`; raise `codex.turn_timeout_ms` or `codex.stall_timeout_ms` if it was only slow"},
	{"port_exit", "see why the agent ended with `symphony logs ISSUE --stderr`"},
	{"response_error, turn_failed, turn_cancelled", "see what led to codex's message with `symphony logs ISSUE`"},
	{"approval_required, turn_input_required", "say in the prompt what to do without an answer, or set `agent.on_approval` or `agent.on_question` to `ask`"},
	{"max_tokens", "raise `agent.max_tokens`, or make the issue smaller; then `symphony retry ISSUE`"},
	{"hook_failed, hook_timeout", "see the output of the hook with `symphony logs ISSUE --hooks`; hooks are run by `sh`, not bash, in the workspace"},
	{
		"repository_unavailable", "see with `symphony doctor` what is wrong with git, `repository.url` or `repository.base`; then `symphony unblock` " +
			"starts runs again at once",
	},
	{
		"git_identity_missing", "run `git config --global user.name \"Your Name\"` and `git config --global user.email you@example.com`, or set " +
			"`repository.git_name` and `repository.git_email`; then `symphony unblock`",
	},
	{"git_killed", "find out what ends git, for instance the kernel for want of memory; the run is tried again"},
	{
		"delivery_failed", "correct what git, the remote or GitHub says; passes deliver again, without an agent, and " +
			"`symphony deliver ISSUE` delivers now",
	},
	{
		"repository_changed", "`repository.url` names another repository than the one that the workspace was cloned from: set it back to deliver " +
			"there, or push the commits to the new one yourself, with what they build on",
	},
	{
		"delivery_conflict", "delete or rename the branch on the remote; or, if symphony has pushed to it before, run `git fetch` in the " +
			"workspace and merge it (`symphony takeover ISSUE`); then `symphony deliver ISSUE`",
	},
	{
		"workspace_gone", "if it was removed by mistake, put it back (`symphony restore ISSUE`, if it is in the trash), then " +
			"`symphony deliver ISSUE`; `symphony retry ISSUE` gives its commits up",
	},
	{"invalid_branch", "correct `repository.branch`: what it gives for this issue is not the name of a branch, or is the base"},
	{"template_render_error", "correct the prompt; `symphony prompt ISSUE` renders it"},
	{"workspace_busy", "nothing to do: a process still uses the workspace; it is tried again"},
	{"workspace_foreign", "give each project its own `workspace.root`: the directory belongs to another issue or project"},
	{"invalid_workspace_cwd", "move away what is in the place of the workspace"},
	{
		"workspace_untrusted", "remove what the message names, or make it readable: git could run it in hooks, outside of the sandbox; then " +
			"`symphony retry ISSUE`",
	},
	{"workspace_failed", "check the workspace root; the message names the file"},
	{"workspace_root_unusable", "set `workspace.root` to a directory that belongs to you and that no other account can write to"},
	{"leftover_process", "see what the process is with `ps -fp PID`; each pass tries again to end it"},
	{"disk_full", "free disk space; the run is tried again and does not count as a failure"},
	{"resource_limit", "raise the limits of open files (`ulimit -n`) and processes (`ulimit -u`)"},
	{"state_missing, state_corrupt", "end all workers (`symphony stop --all`), then restore state.db from a backup or move the state directory aside"},
	{"state_busy", "find the process that keeps the database locked with `fuser -v state.db`"},
	{"state_readonly, state_io", "check the permissions and the disk of the state directory"},
	{"state_replaced", "nothing to do: state.db was replaced while in use; the run is tried again"},
	{"worker_lost, worker_frozen, spawn_failed", "see the worker's log with `symphony logs ISSUE --worker`, and the kernel's log for the OOM killer"},
	{"terminated", "nothing to do: the worker received SIGTERM from a stop of `symphony.slice`, a shutdown, or the last logout of a user who does not linger"},
	{"rebooted", "nothing to do: the machine was restarted"},
	{"tracker_unavailable", "nothing to do: the tracker did not answer for 15 minutes between two turns; the run is tried again"},
	{"run_failed", "see what happened with `symphony logs ISSUE --worker`"},
}

// Hint returns the next step after a run of the issue ended with an error, empty where there is none to name.
func Hint(code, identifier string) string {
	if code == string(agent.CodeSandboxUnavailable) {
		return confine.SandboxHint() // for this system
	}
	for _, e := range RunErrors {
		if slices.Contains(strings.Split(e.Codes, ", "), code) {
			next := strings.ReplaceAll(e.Next, "`", "")
			if identifier != "" {
				next = strings.ReplaceAll(next, "ISSUE", text.Visible(identifier))
			}
			return next
		}
	}
	return ""
}
