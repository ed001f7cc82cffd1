package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// verify runs the workflow's verify command for the HEAD of the workspace, in the agent's
// sandbox. No process of the run is alive when it begins and when it ends, so that nothing
// changes the verified files meanwhile. The caller's agent must have ended.
func (j *job) verify(ctx context.Context) (v reconcile.Verification, err error) {
	if err := j.killAll(ctx); err != nil {
		return v, err
	}
	before, branch, err := j.committed(ctx)
	if err != nil || before.Exit != 0 {
		return before, err
	}
	v, err = j.verifyCommit(ctx, before.Commit, branch)
	killErr := j.killAll(ctx)
	if err != nil {
		return v, err
	}
	if killErr != nil {
		return v, killErr
	}
	v.Commit = before.Commit
	after, _, err := j.committed(ctx)
	if err != nil {
		return v, fmt.Errorf("look at the commit after verify: %w", err)
	}
	if after.Commit != v.Commit {
		v.Exit = cmp.Or(v.Exit, 1)
		v.Output += "\nThe command has changed HEAD, from " + v.Commit + " to " + after.Commit + "."
	}
	crash.At("runner.verified")
	j.note("verified", v.String(), v)
	j.Log.Info(v.String())
	return v, nil
}

// committed returns a verification with only the commit of the workspace, and the branch that
// HEAD is on; a failed verification if something there is not committed.
func (j *job) committed(ctx context.Context) (v reconcile.Verification, branch string, err error) {
	found, err := j.Machine.Inspect(ctx, host.WorkspaceRequest{Path: j.space.Path})
	if err != nil || found.Git == nil {
		return v, "", err
	}
	v.At = j.Now()
	v.Commit = text.OrEmpty(found.Git.Commit)
	if refusal := uncommitted(found.Git); refusal != nil {
		v.Command = "git status"
		v.Exit = 1
		v.Output = refusal.Error()
	}
	return v, text.OrEmpty(found.Git.Branch), nil
}

// verifyCommit runs the command in a checkout of a commit, or in the workspace if the workflow
// wants that or there is no commit.
func (j *job) verifyCommit(ctx context.Context, commit, branch string) (v reconcile.Verification, err error) {
	v.Command = text.Within(strings.TrimSpace(text.FirstLine(j.Config.Verify.Command)), mostCommand)
	j.rec.change(func(r *reconcile.Run) { r.Activity = "verifying: " + v.Command })
	j.rec.flush(ctx)
	files := commandFiles(j.Config.Verify.Command)
	if commit == "" || j.Config.Verify.InWorkspace {
		return j.verifyWorkspace(ctx, v, files)
	}
	env, err := j.checkoutEnv(ctx)
	if err != nil {
		return v, err
	}
	answer, err := j.host.CheckOut(ctx, host.CheckOutRequest{
		Commit:     commit,
		Branch:     branch,
		Files:      files,
		Repository: j.Config.Repository.Repository,
		Timeout:    max(repositoryTimeout, j.Config.Hooks.Timeout),
		Env:        env,
	})
	known, _ := errors.AsType[*reconcile.Error](err)
	if known != nil && !reconcile.MachineFault(known.Code) && ctx.Err() == nil {
		v.At = j.Now()
		v.Exit = reconcile.ExitNotPrepared
		v.Output = j.Redactor.Text(known.Message)
		return v, nil
	}
	if err != nil {
		return v, err
	}
	v.Runs = answer.Changed
	return j.runVerify(ctx, answer.Space, v)
}

// verifyWorkspace runs the command in the workspace.
func (j *job) verifyWorkspace(
	ctx context.Context,
	v reconcile.Verification,
	files []string,
) (reconcile.Verification, error) {
	v, err := j.runVerify(ctx, *j.space, v)
	if err != nil {
		return v, err
	}
	changed, err := j.Machine.ChangedFiles(ctx, host.ChangedRequest{Path: j.space.Path, Files: files})
	if err != nil {
		return v, err
	}
	ignored, err := j.Machine.IgnoredFiles(ctx, host.IgnoredRequest{Path: j.space.Path, Most: namedChanges})
	if err != nil {
		return v, err
	}
	v.Runs = changed
	v.InWorkspace = true
	v.Ignored = ignored.Files
	v.IgnoredCount = ignored.Count
	return v, nil
}

// runVerify starts an agent in a directory for the command alone, lets it run the command in
// its sandbox, and ends it. v contains the part of the result that is already known.
func (j *job) runVerify(
	ctx context.Context,
	in host.Workspace,
	v reconcile.Verification,
) (reconcile.Verification, error) {
	own := *j
	own.space = &in
	// nothing of the workspace takes part, even if something in the checkout names it
	if in.Path != j.space.Path {
		own.Config.Unreadable = append(
			slices.Clone(j.Config.Unreadable),
			j.space.Path,
			j.space.TmpDir,
			j.space.CacheDir,
		)
	}
	if err := own.addPermissionFlags(ctx); err != nil {
		return v, err
	}
	options := func(g *agentProcess) agent.Options {
		return agent.Options{Now: own.Now, OnEvent: own.newListener().follow(g)}
	}
	g, err := openAgent(ctx, &own, options, func(g *agentProcess) error {
		_, err := g.initialize(ctx)
		return err
	})
	defer func() { g.end(context.WithoutCancel(ctx)) }()
	if err != nil {
		return v, err
	}
	return g.execVerify(ctx, v)
}

// execVerify runs the command.
func (g *agentProcess) execVerify(
	ctx context.Context,
	v reconcile.Verification,
) (reconcile.Verification, error) {
	policy, err := g.Config.TurnPolicy(ctx, g.Machine, *g.space)
	if err != nil {
		return v, err
	}
	env, err := g.Config.ExecEnv(ctx, g.Machine, g.run.ID, *g.space, g.environ)
	if err != nil {
		return v, err
	}
	maps.Copy(env, asAgents)
	setting := g.Config.Verify
	began := g.Mono()
	result, err := g.session.Exec(ctx, agent.ExecParams{
		Command: []string{
			"bash",
			"-c",
			verifyScript,
			"verify",
			setting.Command,
			fmt.Sprintf("%.3f", setting.Timeout.Seconds()),
		},
		Cwd:           g.space.Path,
		Env:           env,
		SandboxPolicy: policy,
		Permissions:   g.permissions,
		Timeout:       setting.Timeout + verifyEnds,
	})
	if err != nil {
		return v, g.explain(ctx, err)
	}
	took := g.Mono() - began
	v.At = g.Now()
	v.Exit = result.ExitCode
	v.TookMS = took.Milliseconds()
	v.Late = result.ExitCode != 0 && took >= setting.Timeout
	v.Output = g.Redactor.Text(cmp.Or(result.Stdout, result.Stderr))
	if !v.Passed() {
		v.Offline = g.Config.ClosesNetwork()
	}
	return v, nil
}

// asAgents are variables that codex sets for the commands of agents.
var asAgents = map[string]any{
	"LANG":      "C.UTF-8",
	"LC_ALL":    "C.UTF-8",
	"LC_CTYPE":  "C.UTF-8",
	"TERM":      "dumb",
	"NO_COLOR":  "1",
	"PAGER":     "cat",
	"GIT_PAGER": "cat",
}

// checksOut reports whether verify runs in checkouts.
func (j *job) checksOut() bool { return j.Config.Verify.Command != "" && !j.Config.Verify.InWorkspace }

// addPermissionFlags adds the permission profile of turns to the flags with which codex is
// started: verify, which is no turn, needs it.
func (j *job) addPermissionFlags(ctx context.Context) error {
	policy, err := j.Config.TurnPolicy(ctx, j.Machine, *j.space)
	if err != nil {
		return err
	}
	profile, err := j.Config.Profile(ctx, j.Machine, policy)
	if err != nil || profile == nil {
		return err
	}
	j.flags = confine.ProfileFlags(map[string]any{confine.ProfileName: profile})
	j.permissions = confine.ProfileName
	return nil
}

// needsVerify reports whether verify must still pass for a commit that is to be handed over;
// with an empty commit, for any.
func (j *job) needsVerify(h *reconcile.Handover, commit string) bool {
	return h != nil && j.Config.Verify.Command != "" && h.NeedsVerify(commit)
}

// verifyAgain runs verify without a turn, if it must still pass for the commit that the agent
// handed over.
func (d *deliveryStep) verifyAgain(ctx context.Context, h *reconcile.Handover) error {
	now, _, err := d.committed(ctx)
	if err != nil {
		return err
	}
	if !d.needsVerify(h, now.Commit) {
		return nil
	}
	if err := d.workspace.guardGit(ctx); err != nil {
		return err
	}
	v, err := d.verify(ctx)
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
