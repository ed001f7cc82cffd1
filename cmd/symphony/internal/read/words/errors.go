package words

import (
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// RunError is the next step for some codes with which a run ends. ISSUE stands for the
// identifier of the issue.
type RunError struct{ Codes, Next string }

// RunErrors are the error codes of runs as docs/errors.md lists them. The codes that put an
// issue on hold are in reconcile/hold.go.
func RunErrors() []RunError {
	return append(
		runErrors[:len(runErrors):len(runErrors)],
		text.Map(reconcile.HoldCodes(), func(code string) RunError {
			return RunError{code, reconcile.HoldStep(code)}
		})...)
}

var runErrors = []RunError{
	{
		"codex_not_found",
		"`npm install -g @openai/codex`, then `codex login`; a login shell (`bash -lc`) has to " +
			"find it, or set `codex.command` to its path",
	},
	{
		"codex_incompatible",
		"install codex 0.159 or later with `npm install -g @openai/codex`, or correct the quoted " +
			"value, or answer what `codex.command` asks; then `symphony resume`",
	},
	{
		"agent_not_found",
		"install the agent as docs/agents.md says; a login shell (`bash -lc`) has to find it, or " +
			"set `agent.command` to its path",
	},
	{
		"agent_incompatible",
		"install the release that docs/agents.md names, or correct the quoted value, such as " +
			"`agent.model`; then `symphony resume`",
	},
	{
		"agent_auth",
		"log the agent in, as the account that symphony runs as: `codex login`, with the same " +
			"`codex.home`, or as docs/agents.md says of other agents; then `symphony resume`",
	},
	{"agent_quota", "nothing to do: the account's allowance is used up; work continues after the reset"},
	{
		"network",
		"check the network, and the provider in codex's config.toml. If codex works and the " +
			"error stays, `symphony retry --fresh ISSUE` starts a new conversation",
	},
	{
		"sandbox_unavailable",
		"do what `symphony doctor` says: install bubblewrap 0.8 or newer, and permit " +
			"unprivileged user namespaces (`sysctl user.max_user_namespaces=15000`). Only in a " +
			"dedicated container or machine: `codex.turn_sandbox_policy: {type: externalSandbox}` " +
			"(codex confines nothing)",
	},
	{
		"sandbox_failed",
		"look for a `.git`, `.codex` or `.agents` in the workspace that is a symlink or broken, " +
			"and for a missing path in `agent.writable_roots`",
	},
	{
		"agent_command_unsafe",
		"write the full path of codex itself into `codex.command`, or of another agent into `agent.command`: a " +
			"launcher such as npx would start files that an agent can write. If no agent can change them, set " +
			"`codex.trust_launcher: true`",
	},
	{
		"login_shell_failed",
		"try the login shell of the account: `time bash -lc true` has to end within 30 s; `bash " +
			"-xlc true` prints each command of its profile",
	},
	{
		"response_timeout",
		"start the command yourself in a terminal: it may wait for an answer there; if the agent " +
			"is only slow, raise `codex.read_timeout_ms`",
	},
	{"turn_timeout, stalled", "`symphony logs ISSUE` shows what the agent did; " +
		"raise `codex.turn_timeout_ms` or `codex.stall_timeout_ms` if it was only slow"},
	{
		"port_exit",
		"`symphony logs ISSUE --stderr` and `symphony logs ISSUE` show what the agent wrote " +
			"about its end; `symphony doctor` tries it",
	},
	{
		reconcile.CodeContextFull,
		"nothing to do: the next run starts a new conversation; if it happens again, make the issue smaller",
	},
	{
		"response_error, turn_failed, turn_cancelled",
		"`symphony logs ISSUE` shows what led to it",
	},
	{"approval_required, turn_input_required", "explain in the prompt what to do without an answer, " +
		"or set `agent.on_approval` or `agent.on_question` to `ask`"},
	{"max_tokens", "raise `agent.max_tokens`, or make the issue smaller; then `symphony retry ISSUE`"},
	{
		"hook_timeout",
		"raise `hooks.timeout_ms`, or make the hook faster: `symphony logs ISSUE --hooks` shows " +
			"how far it came",
	},
	{
		"hook_failed",
		"`symphony logs ISSUE --hooks` shows the output of the hook; hooks run by `sh`, not bash",
	},
	{
		"repository_unavailable",
		"find the fault of git, `repository.url` or `repository.base` with `symphony doctor`; " +
			"then `symphony resume`",
	},
	{
		"git_identity_missing",
		"run `git config --global user.name \"Your Name\"` and `git config --global user.email " +
			"you@example.com`, or set `repository.git_name` and `repository.git_email`; then " +
			"`symphony resume`",
	},
	{
		"git_killed",
		"find out what kills git, such as the kernel when memory is short; the run is tried " +
			"again",
	},
	{
		"git_limit",
		"look at the agent's commits with `git log --oneline` in the workspace: they list " +
			"millions of files, or add more than 16 GiB. `symphony retry ISSUE` lets the agent " +
			"correct it",
	},
	{
		"claims_unavailable",
		"find out with `git ls-remote` why the remote cannot be reached; it is tried again",
	},
	{
		"claims_refused",
		"let the account that symphony pushes as push what the message names, or set " +
			"`repository.claims: {branch: symphony-claims}`; then `symphony resume`",
	},
	{
		"claims_not_atomic",
		"set `receive.advertiseAtomic` in the remote, or leave out `repository.claims`; then `symphony resume`",
	},
	{
		"issue_elsewhere",
		"set `repository.claims: true` here, too: then each issue is worked on by one machine, and " +
			"`symphony machines` says by which; docs/team.md",
	},
	{"claim_lost", "nothing to do: another machine has the issue now, and continues what was pushed"},
	{
		"delivery_failed",
		"correct the fault that the message names; passes deliver again without an agent, and " +
			"`symphony retry ISSUE` delivers now",
	},
	{
		"file_read",
		"make the folder of the issues and its files readable for the account that symphony runs " +
			"as; passes try again",
	},
	{
		"file_write",
		"do what the message says; passes try again without an agent, and `symphony retry ISSUE` tries now",
	},
	{
		"delivery_incomplete",
		"correct it in the workspace (`symphony takeover ISSUE`): a clone of the branch would " +
			"lack the files that the message names; then `symphony retry ISSUE`",
	},
	{
		"delivery_refused",
		"its agent gets these words, and corrects the commits; after three refusals the issue is held: then " +
			"`symphony tell ISSUE TEXT` says how to correct them, and `symphony retry ISSUE` lets it try again",
	},
	{
		"base_replaced",
		"its agent is told how to put its commits on the new base; after three refusals the issue is held: then " +
			"`symphony retry --unverified ISSUE` delivers the commits as they are, with what the base has dropped",
	},
	{
		"repository_changed",
		"change `repository.url` back to deliver there, or push the commits to the new " +
			"repository yourself",
	},
	{
		"workspace_broken",
		"restore the `.git` of the workspace, or move the workspace away: the next run begins in a new clone",
	},
	{
		"delivery_conflict",
		"if another symphony works on this project: `symphony stop ISSUE --after-run`, and " +
			"`repository.claims: true` on each machine; if a person moved the branch: rename it, or " +
			"merge it in the workspace (`symphony takeover ISSUE`); then `symphony retry ISSUE`",
	},
	{
		"verify_unusable",
		"correct `verify.command`, or install what it needs where the agent works; `symphony " +
			"retry ISSUE` tries now",
	},
	{"not_verified", "nothing to do: the next delivery runs verify for the commits that were made since"},
	{
		"others_pushed",
		"nothing to do: the agent of the next run merges what others have pushed to the branch",
	},
	{
		"workspace_gone",
		"put it back (`symphony restore ISSUE`, if it is in the trash), then `symphony retry " +
			"ISSUE`; with `--fresh` its commits are given up",
	},
	{
		"invalid_branch",
		"correct `repository.branch`: its result for this issue is no branch name, is the base, " +
			"or is in use",
	},
	{
		"branch_in_the_way",
		"rename the branch that the message names, or begin `repository.branch` with something " +
			"else; then `symphony resume`",
	},
	{
		"branch_checked_out",
		"switch to another branch in the directory that the message names; `symphony retry " +
			"ISSUE` delivers at once",
	},
	{"template_render_error", "correct the prompt; `symphony show --prompt ISSUE` renders it"},
	{"workspace_busy", "nothing to do: a process still uses the workspace; it is tried again"},
	{
		"host_unreachable, engine_missing",
		"find the fault with `symphony machines` and `ssh HOST true`, or with the commands of " +
			"the engine; the host is used again once it answers",
	},
	{"host_system, host_unusable", "correct what the message names on that host; then `symphony resume`"},
	{
		"host_lost",
		"once the host answers, the issue goes on. If it is gone for good: `symphony retry " +
			"--host-is-gone ISSUE`",
	},
	{
		"host_died, host_ended, host_failed, host_mismatch, host_unverified, host_withdrawn",
		"nothing to do: the run is tried again; `symphony logs ISSUE --worker` shows what " +
			"happened",
	},
	{
		"workspace_taken",
		"remove the workspace of the first issue with `symphony prune ISSUE`: the tracker has " +
			"given its identifier to another one",
	},
	{"invalid_workspace_cwd", "move away the file or directory in the place of the workspace"},
	{
		"workspace_untrusted",
		"remove what the message names, or make it readable: git could run it in hooks; then " +
			"`symphony retry ISSUE`",
	},
	{
		"workspace_failed",
		"see whether the account that symphony runs as may write where the message says, and " +
			"whether the disk has room",
	},
	{
		"workspace_root_unusable",
		"set `workspace.root` to a directory that belongs to you and that no other account can write to",
	},
	{"leftover_process", "inspect the process with `ps -fp PID`; each pass tries again to end it"},
	{"disk_full", "free disk space; the run is tried again and does not count as a failure"},
	{"resource_limit", "raise the limits of open files (`ulimit -n`), processes (`ulimit -u`) and sizes of files " +
		"(`ulimit -f`)"},
	{"temporary_directory", "create the directory that TMPDIR names, or unset the variable; then `symphony resume`"},
	{"state_corrupt", "end all workers (`symphony stop --all`), " +
		"then restore state.db from a backup or move the state directory aside"},
	{"state_busy", "find the process that keeps the database locked with `fuser -v state.db`"},
	{"state_readonly, state_io", "check the permissions and the disk of the state directory"},
	{"state_replaced", "nothing to do: state.db was replaced while in use; the run is tried again"},
	{"worker_lost, worker_frozen, spawn_failed", "look for the cause in `symphony logs ISSUE --worker`, " +
		"and for the OOM killer in the kernel's log"},
	{
		"terminated",
		"nothing to do: the worker was ended by SIGTERM, as at a shutdown or a logout without " +
			"lingering",
	},
	{"rebooted", "nothing to do: the machine was restarted"},
	{
		"tracker_unavailable",
		"nothing to do: the tracker did not answer for 15 minutes; the run is tried again",
	},
	{"run_failed", "`symphony logs ISSUE --worker` shows what happened"},
}

// Hint returns the next step after a run of the issue ended with an error, empty where there
// is none to name.
func Hint(code, identifier string) string {
	return strings.ReplaceAll(MarkedHint(code, identifier), "`", "")
}

// BlockHint returns the next step while a fault stops the project, with commands between
// backquotes; empty for a fault that ends by itself. status is that of an HTTP answer, or 0.
func BlockHint(code string, status int) string {
	hint := MarkedHint(code, "")
	if hint == "" && !reconcile.EndsByItself(code, status) {
		return "`symphony doctor` finds the cause, and says what to do"
	}
	return hint
}

// MarkedHint is Hint with commands and keys between backquotes.
func MarkedHint(code, identifier string) string {
	if code == string(agent.CodeSandboxUnavailable) {
		return confine.SandboxHint() // for this system
	}
	for _, e := range RunErrors() {
		if slices.Contains(strings.Split(e.Codes, ", "), code) {
			if identifier == "" {
				return e.Next
			}
			return strings.ReplaceAll(e.Next, "ISSUE", text.ShellQuote(text.Visible(identifier)))
		}
	}
	return ""
}
