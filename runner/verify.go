package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

// The errors of a handover that verify does not allow.
const (
	codeVerifyUnusable = "verify_unusable" // the command can't be run
	codeNotVerified    = "not_verified"    // verify did not pass for the commit
)

const (
	verifyEnds   = 30 * time.Second // for the script below to end the command and print its output
	mostCommand  = 100              // bytes of the command in a message
	namedChanges = 20               // files that a refusal names
	mostProof    = 1000             // files of a proof that are stored
)

// verifyScript runs the command $1 for at most $2 seconds, and prints the end of its output. It
// exits with the code of the command, or with 124 after the time limit. A file that is replaced
// again and again keeps the output small on disk. A process of the command that outlives it and
// holds its streams delays the end by a second.
const verifyScript = `d=$(mktemp -d) && mkfifo "$d/pipe" || exit 125
exec 2>/dev/null
set -m
{
  while dd bs=65536 count=1024 of="$d/new" && [ -s "$d/new" ]; do mv "$d/new" "$d/old"; done
} <"$d/pipe" & reader=$!
bash -c "$1" >"$d/pipe" 2>&1 </dev/null & command=$!
{ sleep "$2"; : >"$d/late"; kill -9 -$command; } & watch=$!
wait $command
code=$?
kill -9 -$watch
for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 $reader || break; sleep 0.1; done
[ ! -e "$d/late" ] || code=124
kill -9 -$command -$reader
cat "$d/old" "$d/new" | tail -n 200 | tail -c 16384
rm -rf "$d"
exit $code`

// verifier runs the workflow's verify command for the work of the agent.
type verifier struct{ *parts }

// verify runs the workflow's verify command for the HEAD of the workspace, in the agent's
// sandbox. No process of the run is alive when it begins and when it ends, so that nothing
// changes the verified files meanwhile. The caller's agent must have ended.
func (v *verifier) verify(ctx context.Context) (reconcile.Verification, error) {
	if err := v.processes.killAll(ctx); err != nil {
		return reconcile.Verification{}, err
	}
	before, branch, err := v.committed(ctx)
	if err != nil || before.Exit != 0 {
		return before, err
	}
	result, err := v.verifyCommit(ctx, before.Commit, branch)
	killErr := v.processes.killAll(ctx)
	if err != nil {
		return result, err
	}
	if killErr != nil {
		return result, killErr
	}
	result.Commit = before.Commit
	after, _, err := v.committed(ctx)
	if err != nil {
		return result, fmt.Errorf("look at the commit after verify: %w", err)
	}
	if after.Commit != result.Commit {
		result.Exit = cmp.Or(result.Exit, 1)
		result.Output += "\nThe command has changed HEAD, from " + result.Commit + " to " + after.Commit + "."
	}
	crash.At("runner.verified")
	v.events.note("verified", result.String(), result)
	v.Log.Info(result.String())
	return result, nil
}

// committed returns a verification with only the commit of the workspace, and the branch that
// HEAD is on; a failed verification if something there is not committed.
func (v *verifier) committed(
	ctx context.Context,
) (result reconcile.Verification, branch string, err error) {
	found, err := v.site.Machine.Inspect(ctx, host.WorkspaceRequest{Path: v.site.space.Path})
	if err != nil || found.Git == nil {
		return result, "", err
	}
	result.At = v.Now()
	result.Commit = text.OrEmpty(found.Git.Commit)
	if refusal := uncommitted(found.Git); refusal != nil {
		result.Command = "git status"
		result.Exit = 1
		result.Output = refusal.Error()
	}
	return result, text.OrEmpty(found.Git.Branch), nil
}

// verifyCommit runs the command in a checkout of a commit, or in the workspace if there is no commit.
func (v *verifier) verifyCommit(
	ctx context.Context,
	commit, branch string,
) (result reconcile.Verification, err error) {
	config := v.site.Config
	result.Command = config.Verify.title()
	v.rec.change(func(r *reconcile.Run) { r.Activity = "verifying: " + result.Command })
	v.rec.flush(ctx)
	if commit == "" {
		return v.verifyWorkspace(ctx, result)
	}
	env, err := v.shell.checkoutEnv(ctx)
	if err != nil {
		return result, err
	}
	answer, err := v.site.host.CheckOut(ctx, host.CheckOutRequest{
		Commit:     commit,
		Branch:     branch,
		Verify:     config.Verify.Command,
		Repository: config.Repository.Repository,
		Timeout:    max(repositoryTimeout, config.Hooks.Timeout),
		Env:        env,
	})
	known, _ := errors.AsType[*reconcile.Error](err)
	if known != nil && !reconcile.MachineFault(known.Code) && ctx.Err() == nil {
		result.At = v.Now()
		result.Exit = reconcile.ExitNotPrepared
		result.Output = v.Redactor.Text(known.Message)
		return result, nil
	}
	if err != nil {
		return result, err
	}
	result.Runs = answer.Proof[:min(len(answer.Proof), mostProof)]
	return v.runVerify(ctx, answer.Space, result)
}

// verifyWorkspace runs the command in the workspace.
func (v *verifier) verifyWorkspace(
	ctx context.Context,
	result reconcile.Verification,
) (reconcile.Verification, error) {
	result, err := v.runVerify(ctx, *v.site.space, result)
	if err != nil {
		return result, err
	}
	result.InWorkspace = true
	return result, nil
}

// runVerify starts an agent in a directory for the command alone, lets it run the command in
// its sandbox, and ends it. Without a sandbox the command needs no agent. result contains what
// is already known of the result.
func (v *verifier) runVerify(
	ctx context.Context,
	in host.Workspace,
	result reconcile.Verification,
) (reconcile.Verification, error) {
	there := v.siteOf(in)
	if there.Config.Sandbox != nil {
		home, err := v.shell.boxes.newHome()
		if err != nil {
			return result, err
		}
		defer func() { warn(v.Log, "remove the home of verify", os.RemoveAll(home)) }()
		there.Config.Sandbox = there.Config.Sandbox.in(home)
	}
	agents := v.agents.in(there)
	if !there.Config.confinesItself() {
		return v.execAlone(ctx, agents, result)
	}
	permissions, err := agents.addPermissions(ctx)
	if err != nil {
		return result, err
	}
	options := func(g *agentProcess) agent.Options {
		return agent.Options{Now: v.Now, OnEvent: v.newListener().follow(g)}
	}
	g, err := agents.open(ctx, options, func(g *agentProcess) error {
		_, err := g.initialize(ctx)
		return err
	})
	defer func() { g.end(context.WithoutCancel(ctx)) }()
	if err != nil {
		return result, err
	}
	return v.exec(ctx, g, permissions, result)
}

// siteOf returns the site with another directory in place of the workspace. Nothing of the
// workspace takes part, even if something in the directory names it.
func (v *verifier) siteOf(in host.Workspace) *site {
	there := *v.site
	there.space = &in
	space := v.site.space
	if in.Path != space.Path {
		there.Config.Unreadable = append(
			slices.Clone(v.site.Config.Unreadable),
			space.Path,
			space.TmpDir,
			space.CacheDir,
		)
	}
	return &there
}

// exec runs the command with an agent that has the permission profile.
func (v *verifier) exec(
	ctx context.Context,
	g *agentProcess,
	permissions string,
	result reconcile.Verification,
) (reconcile.Verification, error) {
	config := g.site.Config
	policy, err := g.site.turnPolicy(ctx)
	if err != nil {
		return result, err
	}
	env, err := config.ExecEnv(ctx, g.site.Machine, g.run.ID, *g.site.space, g.environ)
	if err != nil {
		return result, err
	}
	maps.Copy(env, asAgents)
	limit := config.Verify.Timeout
	began := v.Mono()
	answer, err := g.session.Exec(ctx, agent.ExecParams{
		Command:       config.Verify.words(),
		Cwd:           g.site.space.Path,
		Env:           env,
		SandboxPolicy: policy,
		Permissions:   permissions,
		Timeout:       limit + verifyEnds,
	})
	if err != nil {
		return result, g.explain(ctx, err)
	}
	return v.ended(result, began, config, answer.ExitCode, cmp.Or(answer.Stdout, answer.Stderr)), nil
}

// title returns the first line of the command.
func (v Verify) title() string { return text.Short(text.FirstLine(v.Command), mostCommand) }

// words returns the command that runs the script. A pipeline fails with each of its programs, and
// several lines end at the first one that fails, as in most CI.
func (v Verify) words() []string {
	// before the command and not as bash -e, which would also end the script in BASH_ENV; on its
	// first line, so that bash numbers the lines as the workflow does
	command := "set -o pipefail; " + v.Command
	if strings.Contains(strings.TrimSpace(v.Command), "\n") {
		command = "set -e -o pipefail; " + v.Command
	}
	return []string{"bash", "-c", verifyScript, "verify", command, fmt.Sprintf("%.3f", v.Timeout.Seconds())}
}

// networkMissed matches what programs print in a sandbox without a network: git, curl, go, npm,
// pip, cargo, Maven and the libraries behind them.
var networkMissed = text.Pattern(`(?i)could not resolve|name resolution|name or service not known|unknown ?host|` +
	`no such host|ENOTFOUND|EAI_AGAIN|getaddrinfo|network is unreachable|ENETUNREACH|dial (?:tcp|udp)|` +
	`socket: operation not permitted|(?:failed|unable|could not|couldn't) to? ?connect|` +
	`connection (?:refused|timed out)|ECONNREFUSED|ETIMEDOUT|max retries exceeded|tunnel (?:connection )?failed`)

// ended returns the result of a command that began at a time and ended with an exit code and an
// output.
func (v *verifier) ended(
	result reconcile.Verification,
	began time.Duration,
	config Config,
	code int,
	output string,
) reconcile.Verification {
	took := v.Mono() - began
	result.At = v.Now()
	result.Exit = code
	result.TookMS = took.Milliseconds()
	result.Late = code != 0 && took >= config.Verify.Timeout
	result.Output = v.Redactor.Text(output)
	if !result.Passed() && networkMissed().MatchString(result.Output) {
		result.Offline = config.ClosesNetwork()
	}
	return result
}

// exitKilled is the exit code of a command that a signal ended, as a shell or a sandbox reports
// SIGKILL.
const exitKilled = 137

// execAlone runs the command as the agent would run it, for an agent that makes no sandbox.
func (v *verifier) execAlone(
	ctx context.Context,
	agents *launcher,
	result reconcile.Verification,
) (reconcile.Verification, error) {
	config := agents.site.Config
	command := text.Map(config.Verify.words(), text.ShellWord)
	request, err := agents.shell.agent(ctx, strings.Join(command, " "))
	if err != nil {
		return result, err
	}
	var own []string
	for name, value := range asAgents {
		own = append(own, fmt.Sprintf("%s=%s", name, value))
	}
	request.Env = confine.WithVariables(request.Env, own)
	refused := agents.shell.boxes.count()
	began := v.Mono()
	bounded, cancel := context.WithTimeout(ctx, config.Verify.Timeout+verifyEnds)
	defer cancel()
	printed, words, exit, err := agents.outputOf(bounded, request)
	if ctx.Err() != nil {
		return result, fmt.Errorf("verify: %w", ctx.Err())
	}
	if err != nil {
		return result, err
	}
	if exit.NoSandbox {
		return result, sandboxError(words)
	}
	if exit.Code < 0 {
		exit.Code = exitKilled
	}
	result = v.ended(result, began, config, exit.Code, printed)
	if !result.Passed() {
		result.Output = agents.shell.boxes.explain(result.Output, refused)
	}
	return result, nil
}

// asAgents are variables that an agent sets for the commands of agents.
var asAgents = map[string]any{
	"LANG":      "C.UTF-8",
	"LC_ALL":    "C.UTF-8",
	"LC_CTYPE":  "C.UTF-8",
	"TERM":      "dumb",
	"NO_COLOR":  "1",
	"PAGER":     "cat",
	"GIT_PAGER": "cat",
}

// verifyAgain runs verify without a turn, if it must still pass for the commit that the agent
// handed over.
func (d *deliveryStep) verifyAgain(ctx context.Context, h *reconcile.Handover) error {
	now, _, err := d.verifier.committed(ctx)
	if err != nil {
		return err
	}
	if !d.site.Config.Verify.isDue(h, now.Commit) {
		return nil
	}
	if err := d.workspace.guardGit(ctx); err != nil {
		return err
	}
	v, err := d.verifier.verify(ctx)
	if err != nil {
		return err
	}
	if err := d.workspace.restoreGit(ctx); err != nil {
		return err
	}
	next := *h
	next.Verification = &v
	d.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &next })
	d.rec.flush(ctx)
	return nil
}

// notVerified is the error of a handover whose verification is missing.
func notVerified(h reconcile.Handover, commit string) error {
	v := h.Verification
	if v.Unusable() {
		said := text.Visible(text.OneLine(agent.LastWords(v.Output)))
		return reconcile.NewError(
			codeVerifyUnusable,
			fmt.Sprintf("verify.command can't be run (exit code %d): %s", v.Exit, said),
			"correct verify.command in WORKFLOW.md, or install what it needs",
		)
	}
	message := "verify has not passed"
	if commit != "" {
		message += fmt.Sprintf(" for commit %.12s", commit)
	}
	return reconcile.NewError(codeNotVerified, message, "the next delivery runs it")
}

// uncommitted returns an error for the agent if something is not committed.
func uncommitted(g *host.GitStatus) error {
	if g.Count == 0 {
		return nil
	}
	changes := g.Changed[:min(len(g.Changed), namedChanges)]
	names := text.Map(changes, func(c host.GitChange) string { return c.Status + " " + c.Path })
	return agenttool.Refusal(
		"not_committed",
		fmt.Sprintf("%s not committed: %s; commit or remove them, then hand over again",
			text.Plural(g.Count, "change"), strings.Join(names, ", ")),
	)
}
