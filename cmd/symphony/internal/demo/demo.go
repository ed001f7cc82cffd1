// Package demo runs real passes with real workers on a small Linear server, a repository and a WORKFLOW.md in a temporary folder,
// and prints what happens.
package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

var (
	//go:embed WORKFLOW.md
	workflowText string
	//go:embed issues.yaml
	issuesText []byte
)

// How long a demo may take, and how often it runs a pass.
const (
	scriptedBound = 20 * time.Second
	codexBound    = 20 * time.Minute
	demoStep      = 150 * time.Millisecond
)

// playground is the folder of a demo and what runs for it.
type playground struct {
	w         *term.Env
	dir       string
	realAgent bool // codex, not the scripted agent
	linear    *lineartest.Server
	began     time.Time
	seen      map[string]int  // changes of state of each issue that were shown
	ended     map[string]bool // runs whose end was shown
}

// Run takes the issues to their handoff, and shows what can be looked at afterwards unless the folder is removed.
func Run(ctx context.Context, w *term.Env, realAgent, remove bool) (err error) {
	dir, err := os.MkdirTemp("", "symphony-demo-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	if remove {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	d := &playground{w: w, dir: dir, realAgent: realAgent, began: w.Now(), seen: map[string]int{}, ended: map[string]bool{}}
	d.linear = lineartest.New(lineartest.Config{RequestsPerHour: 1e6})
	seed := lineartest.Seed{Teams: []lineartest.SeedTeam{{Key: "DEMO", Name: "Demo"}}}
	if err := errors.Join(d.linear.Load(seed), d.linear.Start()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.linear.Close()) }()
	if err := errors.Join(d.addIssues(), d.makeRepository(ctx), d.writeWorkflow()); err != nil {
		return err
	}
	d.say("a Linear with %d issues listens on %s; everything else is in %s", len(d.linear.Issues()), d.linear.Endpoint(), dir)
	if err := d.play(ctx); err != nil {
		return errors.Join(err, d.stopAll(ctx))
	}
	return d.lookBack(ctx, remove)
}

// Agent is the scripted agent, a separate process that speaks codex's protocol. It returns the exit code.
func Agent(args []string, w *term.Env) int { return codextest.Main(args, w.Stdin, w.Stdout, w.Stderr) }

func (d *playground) say(format string, args ...any) {
	fmt.Fprintf(d.w.Stdout, "%5.1fs  %s\n", d.w.Now().Sub(d.began).Seconds(), term.Visible(fmt.Sprintf(format, args...)))
}

func (d *playground) workflow() string { return filepath.Join(d.dir, "WORKFLOW.md") }
func (d *playground) stateDir() string { return filepath.Join(d.dir, "state") }

// project reads the project again, as each pass does.
func (d *playground) project() *project.Project { return project.New(d.w, d.workflow(), d.stateDir()) }

// flags are what later commands need to find the project.
func (d *playground) flags() string {
	return fmt.Sprintf("-w %s --state-dir %s", term.ShellQuote(d.workflow()), term.ShellQuote(d.stateDir()))
}

func failed(hint, format string, args ...any) error {
	return exit.Fault("demo_failed", fmt.Sprintf(format, args...), hint)
}

// addIssues adds the issues, for the scripted agent with what it is to do.
func (d *playground) addIssues() error {
	var issues []lineartest.Issue
	if err := yaml.Unmarshal(issuesText, &issues); err != nil {
		return err
	}
	for n, issue := range issues {
		issue.Identifier, issue.State, issue.CreatedAt = fmt.Sprintf("DEMO-%d", n+1), "Todo", d.began.Add(time.Duration(n-60)*time.Minute)
		for _, state := range []string{"In Progress", "Human Review", "Done"} {
			id, err := d.linear.StateID("DEMO", state)
			if err != nil {
				return err
			}
			call, err := json.Marshal(map[string]any{
				"query":     "mutation($id: String!, $state: String!) { issueUpdate(id: $id, input: {stateId: $state}) { success } }",
				"variables": map[string]string{"id": issue.Identifier, "state": id},
			})
			if err != nil {
				return err
			}
			*issue.Description = strings.ReplaceAll(*issue.Description, "{move "+state+"}", "tool linear_graphql "+string(call))
		}
		if d.realAgent {
			*issue.Description, _, _ = strings.Cut(*issue.Description, "\n```agent")
		}
		if _, err := d.linear.AddIssue(issue); err != nil {
			return err
		}
	}
	return nil
}

// makeRepository makes the repository, and the environment of everything that the demo starts.
func (d *playground) makeRepository(ctx context.Context) error {
	d.w.Environ = append(d.w.Environ,
		"LINEAR_API_KEY="+d.linear.Key(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Symphony demo", "GIT_AUTHOR_EMAIL=demo@example.com",
		"GIT_COMMITTER_NAME=Symphony demo", "GIT_COMMITTER_EMAIL=demo@example.com")
	if !d.realAgent { // the demo neither obeys the limits of a codex account nor counts as its use
		d.w.Environ = append(d.w.Environ, "XDG_STATE_HOME="+d.stateDir(), reconcile.MaxAgentsVar+"=")
	}
	git := exec.CommandContext(ctx, "sh", "-ec", `git init -q -b main "$1"; cd "$1"; echo "# A small project" > README.md; git add -A; git commit -qm Begin`,
		"sh", filepath.Join(d.dir, "repository"))
	git.Env = d.w.Environ
	if out, err := git.CombinedOutput(); err != nil {
		return failed("the demo needs git on PATH", "the repository: %v: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (d *playground) writeWorkflow() error {
	values := map[string]string{
		"Endpoint": d.linear.Endpoint(), "Repository": term.ShellQuote(filepath.Join(d.dir, "repository")), "Command": "codex app-server",
	}
	if !d.realAgent {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		home := filepath.Join(d.dir, "agent-home")
		if err := os.Mkdir(home, 0o700); err != nil {
			return err
		}
		values["Home"] = "./agent-home"
		values["Command"] = fmt.Sprintf("%s demo-agent app-server --pace 150ms --home %s", term.ShellQuote(exe), term.ShellQuote(home))
	}
	var text bytes.Buffer
	if err := template.Must(template.New("").Delims("[[", "]]").Parse(workflowText)).Execute(&text, values); err != nil {
		return err
	}
	return os.WriteFile(d.workflow(), text.Bytes(), 0o600)
}

// play runs pass after pass until every issue is handed over and nothing runs.
func (d *playground) play(ctx context.Context) error {
	bound := scriptedBound
	if d.realAgent {
		bound = codexBound
	}
	// The demo holds the loop's lock: workers then start no passes, so that nothing outlives the demo.
	if err := os.MkdirAll(d.stateDir(), 0o700); err != nil {
		return err
	}
	lock := project.LoopLock(d.stateDir())
	if _, err := project.TryLoopLock(ctx, lock); err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the end of the process unlocks it anyway
	for d.w.Now().Sub(d.began) < bound {
		r, err := pass.Run(ctx, d.project(), pass.Options{Trigger: project.TriggerManual, Stays: true, LockTimeout: project.CommandPatience})
		if err == nil && len(r.Errors) > 0 {
			err = r.Errors[0]
		}
		if err == nil {
			err = d.show(ctx, r)
		}
		if err != nil {
			return err
		}
		waiting := slices.ContainsFunc(d.linear.Issues(), func(i lineartest.Issue) bool { return i.State == "Todo" || i.State == "In Progress" })
		idle := r.Holder == nil && r.Running+r.Retrying+r.Held == 0 && len(r.Applied) == 0
		if idle && !waiting && len(pass.LiveRuns(ctx, d.project())) == 0 {
			d.say("every issue is handed over, and nothing runs")
			return nil
		}
		if !project.Sleep(ctx, demoStep) {
			return ctx.Err()
		}
	}
	return failed("see why: "+program()+" ps --all "+d.flags(), "not every issue was handed over within %s", bound)
}

// show prints which issues have changed their states, which runs have ended, and what the pass did.
func (d *playground) show(ctx context.Context, r pass.Result) error {
	for _, issue := range d.linear.Issues() {
		states := append(issue.WasIn, issue.State)
		for n := d.seen[issue.Identifier]; n < len(issue.WasIn); n++ {
			d.say("linear    %s: %s -> %s", issue.Identifier, states[n], states[n+1])
		}
		d.seen[issue.Identifier] = len(issue.WasIn)
	}
	v, err := view.Read(ctx, d.project(), view.Options{All: true})
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(v.Ended) {
		if d.ended[e.RunID] {
			continue
		}
		d.ended[e.RunID] = true
		line := fmt.Sprintf("run of %s %s, %s, %d tokens", e.Identifier, *e.Outcome, text.Plural(e.Turns, "turn"), e.Tokens.Total)
		if e.Kind == reconcile.CleanupRun {
			line = fmt.Sprintf("cleanup of %s %s", e.Identifier, *e.Outcome)
		}
		if e.Error != nil {
			line += ": " + *e.Error
		}
		d.say("worker    %s", line)
	}
	if b := v.Blocked; b != nil { // a schedule would wait until it is over; the user of a demo should not
		return failed("without --agent codex the demo needs none; with it, codex must be installed and logged in", "%s: %s", b.Reason, b.Message)
	}
	for _, a := range r.Applied {
		if a.Kind != reconcile.ActSettle { // the run's own end says it
			d.say("pass %-4d %s", r.Pass.ID, a.String())
		}
	}
	return nil
}

// stopAll ends what is still running when the demo is interrupted.
func (d *playground) stopAll(ctx context.Context) error {
	silent := *d.w
	silent.Stdout, silent.Stderr = io.Discard, io.Discard
	p := project.New(&silent, d.workflow(), d.stateDir())
	if !p.HasState() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if err := operate.Apply(ctx, p, reconcile.VerbStopAll, ""); err != nil {
		return err
	}
	for len(pass.LiveRuns(ctx, p)) > 0 && project.Sleep(ctx, project.WaitStep) {
	}
	return nil
}

// lookBack prints the result, and commands that show more.
func (d *playground) lookBack(ctx context.Context, removed bool) error {
	v, err := view.Read(ctx, d.project(), view.Options{All: true})
	if err != nil {
		return err
	}
	fmt.Fprintln(d.w.Stdout)
	for _, issue := range d.linear.Issues() {
		fmt.Fprintf(d.w.Stdout, "  %-8s %-14s %s\n", issue.Identifier, issue.State, issue.Title)
	}
	fmt.Fprintf(d.w.Stdout, "\n%d runs, %d tokens, nothing running.\n", len(v.Ended), v.Totals.Total)
	if !removed {
		fmt.Fprintf(d.w.Stdout, "\nLook around:\n\n  %s ps --all %s\n  %[1]s logs DEMO-3 %s\n  git -C %s log -p main..\n",
			program(), d.flags(), term.ShellQuote(filepath.Join(d.dir, "workspaces", "DEMO-3")))
	}
	return nil
}

// program is how this one is called from a shell: go run's binary is gone when it ends.
func program() string {
	exe, err := os.Executable()
	if err != nil || strings.Contains(exe, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/symphony"
	}
	return term.ShellQuote(exe)
}
