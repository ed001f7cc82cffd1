package runner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/agenttool"
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
	codeNotVerified    = "not_verified"    // verify has not passed for the commit
)

const (
	verifyEnds  = 30 * time.Second // for the script below to end the command and print its output
	mostCommand = 100              // bytes of the command in a message

	namedChanges = 20 // files that a refusal names
)

// verifyScript runs the command $1 for at most $2 seconds, and prints the end of its output. The exit code is that of the command, or 124
// after the time limit. A file that is replaced again and again keeps the output small on disk. A process of the command that
// outlives it and holds its streams delays the end by a second.
const verifyScript = `d=$(mktemp -d) && mkfifo "$d/pipe" || exit 125
exec 2>/dev/null
set -m
{ while dd bs=65536 count=1024 of="$d/new" && [ -s "$d/new" ]; do mv "$d/new" "$d/old"; done; } <"$d/pipe" & reader=$!
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

// verify runs the workflow's verify command in the agent's sandbox, in a workspace without uncommitted changes. The command must not make
// commits, because these would not be verified.
func (g *agentProcess) verify(ctx context.Context) (reconcile.Verification, error) {
	v, err := g.committed(ctx)
	if err != nil || v.Exit != 0 {
		return v, err
	}
	ran, err := g.runVerify(ctx)
	if err != nil {
		return ran, err
	}
	after, err := g.committed(ctx)
	if ran.Commit = v.Commit; after.Commit != v.Commit {
		ran.Exit, ran.Output = cmp.Or(ran.Exit, 1), ran.Output+"\n"+"The command has changed HEAD, from "+v.Commit+" to "+after.Commit+"."
	}
	crash.At("runner.verified")
	g.note("verified", ran.String(), ran)
	g.Log.Info(ran.String())
	return ran, err
}

// committed returns a verification that has only the commit of the workspace; a failed one if something there is not committed.
func (j *job) committed(ctx context.Context) (v reconcile.Verification, err error) {
	found, err := j.Machine.Inspect(ctx, host.WorkspaceRequest{Path: j.space.Path})
	if err != nil || found.Git == nil {
		return v, err
	}
	v.At, v.Commit = j.Now(), text.OrEmpty(found.Git.Commit)
	if refusal := uncommitted(found.Git); refusal != nil {
		v.Command, v.Exit, v.Output = "git status", 1, refusal.Error()
	}
	return v, nil
}

// runVerify runs the command.
func (g *agentProcess) runVerify(ctx context.Context) (v reconcile.Verification, err error) {
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
	v.Command = text.Within(strings.TrimSpace(text.FirstLine(setting.Command)), mostCommand)
	g.rec.change(func(r *reconcile.Run) { r.Activity = "verifying: " + v.Command })
	g.rec.flush(ctx)
	began := g.Mono()
	result, err := g.session.Exec(ctx, agent.ExecParams{
		Command: []string{"bash", "-c", verifyScript, "verify", setting.Command, fmt.Sprintf("%.3f", setting.Timeout.Seconds())},
		Cwd:     g.space.Path, Env: env, SandboxPolicy: policy, Permissions: g.permissions, Timeout: setting.Timeout + verifyEnds,
	})
	if err != nil {
		return v, g.explain(ctx, err)
	}
	took := g.Mono() - began
	v.At, v.Exit, v.TookMS, v.Late = g.Now(), result.ExitCode, took.Milliseconds(), result.ExitCode != 0 && took >= setting.Timeout
	v.Output = g.Redactor.Text(cmp.Or(result.Stdout, result.Stderr))
	return v, nil
}

// asAgents are variables that codex sets for the commands of agents.
var asAgents = map[string]any{
	"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "LC_CTYPE": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat",
}

// addPermissionFlags adds the permission profile of turns to the flags with which codex is started: verify, which is no turn, needs it.
func (j *job) addPermissionFlags(ctx context.Context) error {
	if j.Config.Verify.Command == "" {
		return nil
	}
	policy, err := j.Config.TurnPolicy(ctx, j.Machine, *j.space)
	if err != nil {
		return err
	}
	profile, err := j.Config.Profile(ctx, j.Machine, policy)
	if profile != nil {
		j.flags, j.permissions = confine.ProfileFlags(map[string]any{confine.ProfileName: profile}), confine.ProfileName
	}
	return err
}

// needsVerify reports whether verify must still pass for a commit that is to be handed over; with an empty commit, for any.
func (w *workspaceStep) needsVerify(h *reconcile.Handover, commit string) bool {
	return h != nil && w.Config.Verify.Command != "" && h.NeedsVerify(commit)
}

// verifyAgain runs verify without a turn, if it must still pass for what the agent has handed over.
func (w *workspaceStep) verifyAgain(ctx context.Context, h *reconcile.Handover) error {
	now, err := w.committed(ctx)
	if err != nil {
		return err
	}
	if !w.needsVerify(h, now.Commit) {
		return nil
	}
	if err := w.guardGit(ctx); err != nil {
		return err
	}
	v, err := w.verifyAlone(ctx)
	if err == nil {
		err = w.restoreGit(ctx)
	}
	if err != nil {
		return err
	}
	next := *h
	next.Verification = &v
	w.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &next })
	w.rec.flush(ctx)
	return nil
}

// verifyAlone starts codex for verify only, and ends it and all that it has started.
func (w *workspaceStep) verifyAlone(ctx context.Context) (v reconcile.Verification, err error) {
	if err := w.addPermissionFlags(ctx); err != nil {
		return v, err
	}
	options := func(g *agentProcess) agent.Options {
		return agent.Options{Now: w.Now, OnEvent: (&listener{job: w.job}).follow(g)}
	}
	g, err := openAgent(ctx, w.job, options, func(g *agentProcess) error {
		_, err := g.initialize(ctx)
		return err
	})
	if err == nil {
		v, err = g.verify(ctx)
	}
	g.end(context.WithoutCancel(ctx))
	if killErr := w.killAll(ctx); err == nil {
		err = killErr
	}
	return v, err
}

// notVerified is the error of a handover whose verification is missing.
func notVerified(h reconcile.Handover, commit string) error {
	if v := h.Verification; v.Unusable() {
		return reconcile.NewError(codeVerifyUnusable, fmt.Sprintf("verify.command can't be run (exit code %d): %s", v.Exit,
			text.Visible(text.OneLine(agent.LastWords(v.Output)))), "correct verify.command in WORKFLOW.md, or install what it needs")
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
	return agenttool.Refusal("not_committed", fmt.Sprintf("%s not committed: %s; commit or remove them, then hand over again",
		text.Plural(g.Count, "change"), strings.Join(names, ", ")))
}
