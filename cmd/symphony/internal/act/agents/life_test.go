package agents_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/worker"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

const (
	// clientVar makes this test binary a client; its value is the directory of the agent.
	clientVar = "AGENTS_TEST_CLIENT"
	hostVar   = "AGENTS_TEST_HOST" // the agent of the client ends with it
)

// TestMain makes this binary the worker, the scripted codex, or a client.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "worker":
		os.Exit(workerMain())
	case len(os.Args) > 1 && os.Args[1] == "app-server":
		os.Exit(codextest.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case os.Getenv(clientVar) != "":
		clientMain()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func workerMain() int {
	flags := flag.NewFlagSet("worker", flag.ExitOnError)
	run := flags.String("run", "", "")
	dir := flags.String("state-dir", "", "")
	path := flags.String("workflow", "", "")
	slot := flags.String("slot", "", "")
	_ = flags.Parse(os.Args[2:]) // it exits
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := worker.Run(ctx, processEnv(), os.Stderr, worker.Options{
		ID:       *run,
		StateDir: *dir,
		Workflow: *path,
		Slot:     *slot,
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// processEnv is the environment of this process, which belongs to no account of the machine.
func processEnv() *environ.Env {
	env := test.Must(term.NewEnv())
	env.AccountHome = ""
	return env.Environment()
}

// clientMain does one step after the other, and prints a line after each, until it is killed.
func clientMain() {
	ctx := context.Background()
	dir := os.Getenv(clientVar)
	a := test.Must(agents.Open(ctx, processEnv()))
	fmt.Println("open")
	settings := agents.Settings{ID: "a", Cwd: dir, Program: test.Must(os.Executable())}
	script := script("sleep 100ms\nsay done")
	if os.Getenv(hostVar) != "" {
		self := test.Must(proc.Self())
		settings.Host = &self
		script = hang
	}
	test.Must(a.Spawn(ctx, settings))
	fmt.Println("spawned")
	test.Must(a.Call(ctx, "a", reconcile.Call{
		ID:   "c",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{}))
	fmt.Println("conversation")
	test.Must(a.Call(ctx, "a", turn("t"), script))
	fmt.Println("turn")
	select {}
}

// turn is a turn in the conversation c.
func turn(id string) reconcile.Call {
	return reconcile.Call{ID: id, Verb: reconcile.CallTurn, Conversation: "c"}
}

// script is a turn in which the agent runs a script.
func script(text string) runner.TurnCall {
	return runner.TurnCall{Items: []agent.Input{{
		Type: "text",
		Text: "```agent\n" + text + "\n```",
	}}}
}

var hang = script("hang")

// rig has the agents of an account of its own, and a directory for an agent.
type rig struct {
	*agents.Agents
	t   *testing.T
	env *environ.Env
	dir string
}

func newRig(t *testing.T, vars ...string) *rig {
	t.Helper()
	base := test.Must(filepath.EvalSymlinks(t.TempDir()))
	dir := filepath.Join(base, "dir")
	home := filepath.Join(base, "home")
	for _, d := range []string{dir, filepath.Join(home, ".codex")} {
		test.OK(t, os.MkdirAll(d, 0o700))
	}
	vars = append(
		[]string{
			"PATH=" + os.Getenv("PATH"),
			"HOME=" + home,
			"XDG_STATE_HOME=" + filepath.Join(base, "state"),
		},
		vars...)
	env := &environ.Env{Environ: vars, Home: home, Dir: base, Now: time.Now}
	r := &rig{t: t, env: env, dir: dir}
	r.reopen()
	t.Cleanup(func() {
		for _, one := range test.Must(r.List(context.WithoutCancel(t.Context()))) {
			test.OK(t, r.Kill(context.WithoutCancel(t.Context()), one.Identifier))
			r.nothingLeft(one.Run)
			fifo := filepath.Join(host.RunDir(wiring.AgentsDir(r.env), one.ID), "wake")
			test.Equal(t, "the FIFO of an ended agent is left", exists(fifo), false)
		}
		test.OK(t, r.Close())
	})
	return r
}

// reopen opens the agents as another client does.
func (r *rig) reopen() {
	r.t.Helper()
	r.Agents = test.Must(agents.Open(r.t.Context(), r.env))
}

func (r *rig) settings(id string) agents.Settings {
	return agents.Settings{ID: id, Cwd: r.dir, Program: test.Must(os.Executable())}
}

func (r *rig) spawn(id string) agents.Agent {
	r.t.Helper()
	return test.Must(r.Spawn(r.t.Context(), r.settings(id)))
}

func (r *rig) call(agentID string, call reconcile.Call, params any) reconcile.Call {
	r.t.Helper()
	return test.Must(r.Call(r.t.Context(), agentID, call, params))
}

// await waits for the end of a call and checks its status and its text.
func (r *rig) await(id string, status reconcile.CallStatus, text string) reconcile.Call {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), test.Patience())
	defer cancel()
	call := test.Must(r.Await(ctx, id))
	if got := string(call.Result) + call.ErrorCode + ": " + call.ErrorText; call.Status != status ||
		!strings.Contains(got, text) {
		r.t.Errorf("call %s: %s %s, want %s %s", id, call.Status, got, status, text)
	}
	return call
}

// converse opens the conversation c of an agent and begins a turn that does not end.
func (r *rig) converse(agentID string) {
	r.t.Helper()
	r.call(agentID, reconcile.Call{
		ID:   "c",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{})
	r.await("c", reconcile.CallCompleted, "threadId")
}

// refuses returns a function that checks the error of a call.
func (r *rig) refuses(code, text string) func(_ any, err error) {
	return func(_ any, err error) {
		r.t.Helper()
		if err == nil {
			r.t.Errorf("no error, want %s", code)
		} else if e := exit.From(err); e.Code != code || !strings.Contains(e.Message, text) {
			r.t.Errorf("%s: %s, want %s: %s", e.Code, e.Message, code, text)
		}
	}
}

// nothingLeft checks that no process of a run is alive.
func (r *rig) nothingLeft(run reconcile.Run) {
	r.t.Helper()
	left := test.Must(tree.Find(tree.Owner{
		RunID:       run.ID,
		ThreadID:    run.ThreadID,
		Worker:      reconcile.Process{PID: run.Worker.PID, Start: run.Worker.Start},
		Descendants: true,
		Boot:        run.Worker.Boot,
	}))
	if len(left) > 0 {
		r.t.Errorf("processes of agent %s are left: %+v", run.Identifier, left)
	}
}

// project makes a project of the account, whose workflow is at path in the directory of r. Its
// issues, its tracker and its workspaces are beside the workflow.
func (r *rig) project(name, path string) {
	r.t.Helper()
	dir := filepath.Dir(filepath.Join(r.dir, path))
	for _, d := range []string{"issues", "ws", "ch"} {
		test.OK(r.t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	test.OK(r.t, os.WriteFile(filepath.Join(dir, "tracker"), nil, 0o600))
	test.OK(r.t, os.WriteFile(filepath.Join(dir, "hook.sh"), nil, 0o600))
	config := "tracker: {kind: command, provider: {command: [./built, --from=tracker]}}\nhooks: " +
		"{on_attention: 'sh \"" + dir + "/hook.sh\"'}"
	if name == "one" {
		config = "tracker: {kind: file, provider: {path: issues}}\ncodex: {home: ch}"
	}
	test.OK(
		r.t,
		os.WriteFile(
			filepath.Join(r.dir, path),
			[]byte("---\n"+config+"\nworkspace: {root: ws}\n---\nWork.\n"),
			0o600,
		),
	)
	db := test.Must(state.Create(r.t.Context(), filepath.Join(wiring.StateHome(r.env), name), time.Now()))
	test.OK(r.t, db.SetMeta(r.t.Context(), wiring.OwnerKey, filepath.Join(r.dir, path)))
	test.OK(r.t, db.Close())
}

// git runs git in a directory below that of r.
func (r *rig) git(dir string, args ...string) {
	r.t.Helper()
	c := exec.CommandContext(
		r.t.Context(),
		"git",
		append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	c.Dir = filepath.Join(r.dir, dir)
	c.Env = r.env.Environ
	if out, err := c.CombinedOutput(); err != nil {
		r.t.Fatalf("git %q: %v %s", args, err, out)
	}
}

func (r *rig) run(id string) reconcile.Run {
	r.t.Helper()
	return test.Must(r.Find(r.t.Context(), id)).Run
}

// A spawn or a call that is repeated with the same id does nothing again. After the agent has
// ended its calls can still be read.
func TestLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, "SYMPHONY_MAX_AGENTS=1")
	ctx := t.Context()
	r.refuses(agents.CodeUnknown, `no agent "a"`)(r.Find(ctx, "a"))
	r.refuses(agents.CodeUnknown, `no agent "a"`)(r.Call(ctx, "a", turn("t"), script("say no")))
	r.refuses(agents.CodeUnknown, `no agent "a"`)(nil, r.Kill(ctx, "a"))
	r.refuses("not_found", `no call "t"`)(r.Await(ctx, "t"))

	one := r.spawn("a")
	if again := r.spawn("a"); again.ID != one.ID { // although there is no slot
		t.Errorf("spawned twice: %s and %s", one.ID, again.ID)
	}
	other := r.settings("a")
	other.Cwd = t.TempDir()
	r.refuses(agents.CodeConflict, "agent a works in "+r.dir)(r.Spawn(ctx, other))
	r.refuses("no_slot", "SYMPHONY_MAX_AGENTS")(r.Spawn(ctx, agents.Settings{
		ID:      "b",
		Cwd:     other.Cwd,
		Program: other.Program,
	}))

	r.converse("a")
	r.call("a", turn("t"), script("sh echo x >> made\nsay one"))
	r.await("t", reconcile.CallCompleted, "one")
	test.Equal(
		t,
		"the repeated call",
		r.call("a", turn("t"), script("sh echo x >> made")).Status,
		reconcile.CallCompleted,
	)
	r.refuses(agents.CodeConflict, `id "t" belongs to another call`)(r.Call(ctx, "a", reconcile.Call{
		ID:           "t",
		Verb:         reconcile.CallSteer,
		Conversation: "c",
	}, script("")))
	test.Equal(t, "what the turn made", string(test.Must(os.ReadFile(filepath.Join(r.dir, "made")))), "x\n")

	test.OK(t, r.Kill(ctx, "a"))
	test.OK(t, r.Kill(ctx, "a"))
	if run := r.run("a"); run.Outcome != reconcile.Canceled || run.ErrorCode != reconcile.StopOperator ||
		!run.Settled {
		t.Errorf("%s %s, settled %v", run.Outcome, run.ErrorCode, run.Settled)
	}
	test.Equal(
		t,
		"the repeated call of the ended agent",
		r.call("a", turn("t"), script("")).Status,
		reconcile.CallCompleted,
	)
	r.refuses(
		agents.CodeEnded,
		"agent a has ended: stopped: operator",
	)(r.Call(ctx, "a", turn("t2"), script("say no")))
	r.refuses(agents.CodeEnded, "agent a has ended")(r.Spawn(ctx, r.settings("a")))
	thread := r.await("c", reconcile.CallCompleted, "").ThreadID
	test.Equal(t, "the conversation of the thread", test.Must(r.Conversation(ctx, thread)).ID, "c")

	// Its slot and its directory are free, and its conversation goes on.
	r.spawn("b")
	r.call("b", reconcile.Call{
		ID:   "c2",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{ThreadID: thread})
	r.await("c2", reconcile.CallCompleted, `"resumed":true`)
}

// Two agents in one directory are refused, unless it is shared. Agents and issues share slots
// and the limits of the account.
func TestWhereAndWhenAgentsStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, "SYMPHONY_MAX_AGENTS=3")
	ctx := t.Context()
	r.spawn("a")
	link := filepath.Join(filepath.Dir(r.dir), "link")
	test.OK(t, os.Symlink(r.dir, link))
	same := r.settings("b")
	same.Cwd = link
	r.refuses(agents.CodeConflict, "agent a works in "+r.dir+" already")(r.Spawn(ctx, same))
	same.Shared = true
	upper := same
	upper.ID = "A" // symphony approve A.1 would approve what a asks
	r.refuses(agents.CodeConflict, "the ids A and a differ only in case")(r.Spawn(ctx, upper))
	test.Must(r.Spawn(ctx, same))
	if list := test.Must(r.List(ctx)); len(list) != 2 || list[0].Identifier != "b" ||
		!list[0].Settings.Shared {
		t.Errorf("listed %+v", list)
	}

	account := wiring.OpenAccount(wiring.NewProject(r.env, filepath.Join(r.dir, "WORKFLOW.md"), ""), "")
	slots, _, err := account.TakeSlots(ctx, 3, 3) // as a pass for issues does
	test.OK(t, err)
	test.Equal(t, "the free slots of 3 beside two agents", len(slots), 1)
	third := r.settings("c")
	third.Cwd = t.TempDir()
	r.refuses("no_slot", "all slots")(r.Spawn(ctx, third))
	for _, f := range slots {
		f.Close()
	}
	test.OK(t, account.Failed(ctx, time.Now(), reconcile.CodeAgentAuth, "logged out"))
	r.refuses(reconcile.CodeAgentAuth, "logged out")(r.Spawn(ctx, third))
	later := *r.env
	later.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	next := test.Must(agents.Open(ctx, &later))
	test.Must(next.Spawn(ctx, third)) // it shows whether the account works again
	test.OK(t, next.Close())

	broken := newRig(t, "SYMPHONY_MAX_AGENTS=many")
	r.refuses("invalid_config", "SYMPHONY_MAX_AGENTS")(broken.Spawn(ctx, broken.settings("a")))
	nested := newRig(t, "SYMPHONY_RUN_ID=run-1")
	r.refuses("nested_workflow", "inside run run-1")(nested.Spawn(ctx, nested.settings("a")))
}

// Another agent may put a link in the place of the directory of an ended agent. It keeps no
// agent from being started elsewhere.
func TestDirectoryOfAnEndedAgentIsALink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ended := r.settings("ended")
	ended.Cwd = filepath.Join(r.dir, "sub")
	test.OK(t, os.Mkdir(ended.Cwd, 0o700))
	test.Must(r.Spawn(t.Context(), ended))
	test.OK(t, r.Kill(t.Context(), "ended"))
	for id, target := range map[string]string{"circle": "sub", "proc": "/proc/self/root"} {
		test.OK(t, os.RemoveAll(ended.Cwd))
		test.OK(t, os.Symlink(target, ended.Cwd))
		next := r.settings(id)
		next.Cwd = t.TempDir()
		test.Must(r.Spawn(t.Context(), next))
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := filepath.Join(r.dir, "file")
	test.OK(t, os.WriteFile(file, nil, 0o600))
	closed := filepath.Join(r.dir, "closed")
	test.OK(t, os.Mkdir(closed, 0o000))
	base := filepath.Dir(r.dir)
	workspace := filepath.Join(base, "ws", "ABC-1")
	test.OK(t, os.MkdirAll(workspace, 0o700))
	test.OK(t, os.Mkdir(filepath.Join(base, "ws", ".symphony"), 0o700))
	test.OK(t, os.WriteFile(filepath.Join(base, "ws", ".symphony", "ABC-1.json"), []byte("{}"), 0o600))
	// as the agent of the issue may have made it
	test.OK(t, os.Symlink(file, filepath.Join(workspace, "WORKFLOW.md")))
	r.project("one", "app/WORKFLOW.md")
	app := filepath.Join(r.dir, "app")
	test.OK(t, os.Mkdir(filepath.Join(app, "ws", "sub"), 0o700))
	r.project("faulty", "faulty/WORKFLOW.md")
	faulty := filepath.Join(r.dir, "faulty")
	test.OK(t, os.WriteFile(filepath.Join(faulty, "WORKFLOW.md"), []byte("---\nagent: [\n---\n"), 0o600))
	r.project("linked", "linked/WORKFLOW.md")
	linked := filepath.Join(r.dir, "linked")
	test.OK(t, os.Rename(filepath.Join(linked, "ws"), filepath.Join(linked, "real")))
	test.OK(t, os.Symlink("real", filepath.Join(linked, "ws")))
	for _, dir := range []string{".git/objects", ".git/refs", ".git/hooks", ".git/HEAD"} {
		test.OK(t, os.MkdirAll(filepath.Join(r.dir, "repo", dir), 0o700))
	}
	byProc := filepath.Join(r.dir, "by-proc")
	test.OK(t, os.Symlink("/proc/self/root"+r.env.Home, byProc))
	pattern := filepath.Join(r.dir, "[id]")
	test.OK(t, os.Mkdir(pattern, 0o700))
	for _, c := range []struct{ id, cwd, text string }{
		{"a", filepath.Join(app, "ws", "sub"), "is in " + app + ", where passes of a project run programs"},
		{"a", filepath.Join(app, "issues"), "is in " + app + ", where passes of a project run programs"},
		{"a", faulty, "is in " + faulty + ", where passes of a project run programs"},
		{
			"a",
			filepath.Join(r.dir, "repo", ".git", "hooks"),
			"is in the git directory " + filepath.Join(r.dir, "repo", ".git"),
		},
		{"a", linked, "is in " + linked + ", where passes of a project run programs"},
		{"a", pattern, "as a pattern has"},
		{"", r.dir, `id "" is not valid`},
		{"a b", r.dir, `id "a b" is not valid`},
		{"../a", r.dir, `id "../a" is not valid`},
		{strings.Repeat("a", 65), r.dir, "is not valid"},
		{"a", "", `cwd "" is not an absolute path`},
		{"a", "sub", `cwd "sub" is not an absolute path`},
		{"a", filepath.Join(r.dir, "missing"), "no such file or directory"},
		{"a", file, "is not a directory"},
		{"a", closed, "permission denied"},
		{"a", "/", "could change"},
		{"a", r.env.Home, "could change " + r.env.Home},
		{"a", filepath.Join(r.env.Home, ".codex"), "could change " + filepath.Join(r.env.Home, ".codex")},
		{"a", wiring.AgentsDir(r.env), "could change"},
		{"a", workspace, "is in the workspace of an issue"},
		{"a", "/proc/self/root" + r.env.Home, "leads into /proc"},
		{"a", "/dev/fd/../root" + r.env.Home, "leads into /proc"},
		{"a", byProc, "leads into /proc"},
	} {
		if c.cwd == closed && os.Geteuid() == 0 {
			continue // root may read it
		}
		r.refuses(agents.CodeInvalid, c.text)(r.Spawn(t.Context(), agents.Settings{
			ID:  c.id,
			Cwd: c.cwd,
		}))
	}
	test.OK(
		t,
		os.WriteFile(filepath.Join(wiring.StateHome(r.env), "one", "state.db"), []byte("damaged"), 0o600),
	)
	r.refuses(
		"state_unusable",
		"which files of its project an agent could change",
	)(r.Spawn(t.Context(), r.settings("a")))
	test.Equal(t, "how many agents exist", len(test.Must(r.List(t.Context()))), 0)
}

// daemon is a script that starts a process in a session of its own, and then hangs. undressed
// is what precedes the process: with a command that removes the environment and descriptors of
// the agent, only the living worker can find the process.
func daemon(undressed string) string {
	return `sh (setsid ` + undressed + ` bash -c 'echo $$ > pid; exec -a "$PWD/daemon" sleep 60s' </dev/null >/dev/null 2>&1 &); ` +
		`until test -s pid; do sleep 0.01; done; touch started
hang`
}

// daemonLeft reports whether the process of the script daemon is alive.
func (r *rig) daemonLeft() bool {
	pid, err := os.ReadFile(filepath.Join(r.dir, "pid"))
	if err != nil {
		return false // none was started
	}
	// there is none once it has ended
	command, _ := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "cmdline"))
	return strings.Contains(string(command), "daemon")
}

// lost checks that a run is over as one whose worker has died, and has left nothing.
func (r *rig) lost(id string) {
	r.t.Helper()
	run := r.run(id)
	if run.Outcome != reconcile.Lost || !run.Settled || r.daemonLeft() {
		r.t.Errorf("%s, settled %v, daemon left %v", run.Outcome, run.Settled, r.daemonLeft())
	}
	r.nothingLeft(run)
}

func (r *rig) startDaemon(agentID, undressed string) {
	r.t.Helper()
	r.converse(agentID)
	r.call(agentID, turn("t"), script(daemon(undressed)))
	test.Until(r.t, "daemon", func() bool { return exists(filepath.Join(r.dir, "started")) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Kill ends the worker, codex, the running command, and daemons. The calls that it cuts off
// say so.
func TestKillEndsAllProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spawn("a")
	r.startDaemon("a", `env -i bash -c 'exec 3>&- 63>&-; exec "$@"' -`)
	r.call("a", turn("t2"), script("say no"))
	var killing sync.WaitGroup // by two clients
	for range 2 {
		killing.Go(func() {
			if err := r.Kill(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		})
	}
	killing.Wait()
	r.nothingLeft(r.run("a"))
	test.Equal(t, "a daemon is left", r.daemonLeft(), false)
	r.await("t", reconcile.CallInterrupted, "operator: stopped: operator")
	// the worker may not have seen it
	if waiting := test.Must(r.Await(t.Context(), "t2")); !strings.Contains(
		waiting.ErrorText,
		"stopped: operator",
	) {
		t.Errorf("the waiting turn: %s %s", waiting.Status, waiting.ErrorText)
	}
}

// freeze stops the worker of an agent by SIGSTOP, but not while it has locked the database.
func (r *rig) freeze(run reconcile.Run) {
	db := test.Must(
		sql.Open("sqlite", "file:"+filepath.Join(wiring.AgentsDir(r.env), "state.db")+"?_txlock=immediate"),
	)
	defer db.Close()
	test.Until(r.t, "the worker to stop between two transactions", func() bool {
		test.OK(r.t, syscall.Kill(run.Worker.PID, syscall.SIGSTOP))
		test.Until(r.t, "SIGSTOP", func() bool { return strings.Contains(statusOf(run), "State:\tT") })
		tx, err := db.Begin()
		if err != nil {
			test.OK(r.t, syscall.Kill(run.Worker.PID, syscall.SIGCONT))
			return false
		}
		return tx.Rollback() == nil
	})
}

func statusOf(run reconcile.Run) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", run.Worker.PID))
	return string(status)
}

// killOfAFrozenWorker freezes the worker of an agent and begins Kill, which waits for the
// worker. The function that it returns ends that wait, and returns what Kill returns.
func (r *rig) killOfAFrozenWorker(id string) (func() error, reconcile.Run) {
	run := r.run(id)
	r.freeze(run)
	ctx, cancel := context.WithCancel(r.t.Context())
	killed := make(chan error, 1)
	go func() { killed <- r.Kill(ctx, id) }()
	test.Until(
		r.t,
		"SIGTERM to wait for the worker",
		func() bool { return strings.Contains(statusOf(run), "ShdPnd:\t0000000000004000") },
	)
	return func() error { cancel(); return <-killed }, run
}

// A worker that does not react is killed.
func TestKillOfAFrozenWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spawn("a")
	r.startDaemon("a", "")
	kill, _ := r.killOfAFrozenWorker("a")
	test.OK(t, kill())
	r.lost("a")
	r.await("t", reconcile.CallFailed, "agent_ended: agent a has ended: its worker has died")
}

// While another client settles an agent that has died, its worker seems to be alive.
func TestKillWhileAnotherClientSettles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spawn("a")
	r.startDaemon("a", "")
	kill, run := r.killOfAFrozenWorker("a")
	dir := wiring.AgentsDir(r.env)
	release, _, err := state.Acquire(t.Context(), dir, state.Holder{
		PID:   os.Getpid(),
		Since: time.Now(),
	}, test.Patience(), false)
	test.OK(t, err)
	test.OK(t, syscall.Kill(run.Worker.PID, syscall.SIGKILL))
	test.Until(t, "end of the worker", func() bool { return !proc.SameProcess(run.Worker) })
	settled := test.Must(proc.LockDead(filepath.Join(host.RunDir(dir, run.ID), host.AliveFile)))
	// long enough for Kill to find the worker alive, if it looks without the lock
	time.AfterFunc(300*time.Millisecond, func() {
		settled()
		_ = release()
	})
	test.OK(t, kill())
}

// When the worker is killed, the calls that run and wait end, by whichever client looks next,
// and its processes with it. Its directory is free again.
func TestDeadWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		looks func(*rig)
	}{
		{"awaits", func(r *rig) { r.await("t", reconcile.CallFailed, "agent_ended") }},
		{"lists", func(r *rig) { test.Must(r.List(r.t.Context())) }},
		{"calls", func(r *rig) {
			r.refuses(agents.CodeEnded, "its worker has died")(r.Call(r.t.Context(), "a", turn("t3"), script("say no")))
		}},
		{"spawns", func(r *rig) { r.spawn("b") }},
		{"kills", func(r *rig) { test.OK(r.t, r.Kill(r.t.Context(), "a")) }},
		{"is a pass", func(r *rig) { test.OK(r.t, agents.Reap(r.t.Context(), r.env)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "awaits" {
				test.Expensive(t)
			}
			t.Parallel()
			r := newRig(t)
			r.spawn("a")
			r.startDaemon("a", "")
			r.call("a", turn("t2"), script("say no"))
			test.OK(t, syscall.Kill(r.run("a").Worker.PID, syscall.SIGKILL))
			test.Until(r.t, "end of the worker", func() bool { return !proc.SameProcess(r.run("a").Worker) })
			c.looks(r)
			for _, id := range []string{"t", "t2"} {
				call, _, err := r.DB.Clients.Call(t.Context(), id)
				test.OK(t, err)
				test.Equal(t, "the status of call "+id, call.Status, reconcile.CallFailed)
				test.Equal(
					t,
					"the error of call "+id,
					call.ErrorText,
					"agent a has ended: its worker has died",
				)
			}
			r.lost("a")
		})
	}
}

// An agent whose end can't be recorded, because it has filled the disk, ends all the same.
func TestKillWithoutRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spawn("a")
	r.startDaemon("a", "")
	db := test.Must(
		sql.Open(
			"sqlite",
			"file:"+filepath.Join(wiring.AgentsDir(r.env), "state.db")+"?_pragma=busy_timeout(5000)",
		),
	)
	test.Must(
		db.ExecContext(
			t.Context(),
			`CREATE TRIGGER full BEFORE UPDATE OF stop_reason ON runs BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
		),
	)
	test.Equal(t, "the end of the agent was recorded", r.Kill(t.Context(), "a") == nil, false)
	test.Equal(t, "a daemon is left", r.daemonLeft(), false)
	r.nothingLeft(r.run("a"))
	test.Must(db.ExecContext(t.Context(), `DROP TRIGGER full`))
	test.OK(t, db.Close())
	test.OK(t, r.Kill(t.Context(), "a"))
}

// A client of before a newer program has migrated the database begins nothing, and can still
// end its agents.
func TestNewerProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	r.spawn("a")
	r.converse("a")
	pool := test.Must(sql.Open("sqlite", filepath.Join(wiring.AgentsDir(r.env), "state.db")))
	defer pool.Close()
	test.Must(pool.Exec("PRAGMA user_version = 99"))
	other := r.settings("b")
	other.Cwd = t.TempDir()
	r.refuses("state_newer", "to schema 99")(r.Spawn(ctx, other))
	r.refuses("state_newer", "to schema 99")(r.Call(ctx, "a", turn("t"), script("say no")))
	var runs, calls int
	test.OK(
		t,
		pool.QueryRow("SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM calls)").Scan(&runs, &calls),
	)
	test.Equal(t, "how many runs and calls there are", [2]int{runs, calls}, [2]int{1, 1})
	test.OK(t, r.Kill(ctx, "a"))
}

// A call that is stored while the worker ends by itself is not left open.
func TestCallOfAnEndingAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.settings("a")
	s.IdleTimeout = time.Millisecond
	test.Must(r.Spawn(t.Context(), s))
	for i := 0; ; i++ {
		id := fmt.Sprint("l", i)
		if _, err := r.Call(t.Context(), "a", reconcile.Call{
			ID:           id,
			Verb:         reconcile.CallSteer,
			Conversation: "x",
		}, runner.TurnCall{}); err != nil {
			r.refuses(agents.CodeEnded, "agent a has ended: it had nothing to do for 1ms")(nil, err)
			return
		}
		r.await(id, reconcile.CallFailed, "")
	}
}

// An ephemeral agent ends with its host, also when the host is killed.
func TestHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.client("turn", hostVar+"=1")
	test.Contains(
		t,
		"the turn",
		test.Must(r.Await(t.Context(), "t")).ErrorText,
		"the program that started the agent has exited",
	)
	test.Until(r.t, "end of the agent", func() bool { return test.Must(r.List(t.Context()))[0].Settled })
}

// client starts a client that works in the directory of r, and kills it after a step.
func (r *rig) client(step string, vars ...string) {
	r.t.Helper()
	client := exec.CommandContext(r.t.Context(), test.Must(os.Executable()))
	client.Env = append(append(r.env.Environ, clientVar+"="+r.dir), vars...)
	out := test.Must(client.StdoutPipe())
	client.Stderr = os.Stderr
	test.OK(r.t, client.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != step; {
	}
	test.OK(r.t, client.Process.Kill())
	_ = client.Wait() // it was killed
}

// A client may be killed after any step: another one carries on.
func TestDeadClient(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"open", "spawned", "conversation", "turn"} {
		t.Run(step, func(t *testing.T) {
			if step != "spawned" {
				test.Expensive(t)
			}
			t.Parallel()
			r := newRig(t)
			r.client(step)
			if step != "open" && len(test.Must(r.List(t.Context()))) != 1 {
				t.Error("the agent is lost")
			}
			r.spawn("a")
			r.converse("a")
			r.call("a", turn("t"), script("sleep 100ms\nsay done"))
			r.await("t", reconcile.CallCompleted, "done")
		})
	}
}

// A client that was killed between storing an agent and starting its worker leaves an agent
// that has ended. It may be spawned again.
func TestAgentWithoutAWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := reconcile.Run{
		ID:            "20260101T000000.000-abcdef",
		Kind:          reconcile.FreeRun,
		IssueID:       "a",
		Identifier:    "a",
		Phase:         reconcile.Starting,
		WorkspacePath: r.dir,
		StartedAt:     time.Now(),
	}
	_, err := r.DB.Clients.AddAgent(t.Context(), run)
	test.OK(t, err)
	r.spawn("b")
	r.lost("a")
	again := r.settings("a")
	again.Cwd = t.TempDir()
	if got := test.Must(r.Spawn(t.Context(), again)); got.ID == run.ID {
		t.Error("the agent was not spawned again")
	}
}

// Agents that have ended long ago are deleted with their calls and files.
func TestOldAgentsAreDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.spawn("a").Run
	r.converse("a")
	test.OK(t, r.Kill(t.Context(), "a"))
	later := *r.env
	later.Now = func() time.Time { return time.Now().Add(8 * 24 * time.Hour) }
	r.env = &later
	test.OK(t, r.Close())
	r.reopen()
	r.spawn("a") // the id is free again
	if _, found, err := r.DB.Clients.Call(t.Context(), "c"); found || err != nil {
		t.Errorf("the call is left: %v", err)
	}
	test.Equal(t, "the files are left", exists(host.RunDir(wiring.AgentsDir(r.env), old.ID)), false)
}

// An old agent stays as long as its settings can't be read: it may have a worktree with work
// that exists nowhere else.
func TestOldAgentWithUnreadableSettingsStays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.spawn("a").Run
	r.converse("a")
	test.OK(t, r.Kill(t.Context(), "a"))
	file := filepath.Join(host.RunDir(wiring.AgentsDir(r.env), old.ID), "agent.json")
	settings := test.Must(os.ReadFile(file))
	test.OK(t, os.WriteFile(file, settings[:len(settings)/2], 0o600))
	later := *r.env
	later.Now = func() time.Time { return time.Now().Add(8 * 24 * time.Hour) }
	r.env = &later
	test.OK(t, r.Close())
	r.reopen()
	r.spawn("b")
	_, found, err := r.DB.Clients.FreeAgent(t.Context(), "a")
	test.OK(t, err)
	test.Equal(t, "the agent is known", found, true)
	test.OK(t, os.WriteFile(file, settings, 0o600))
}

// A pass on a machine without agents creates nothing.
func TestReapWithoutAgents(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	env := &environ.Env{
		Environ: []string{"XDG_STATE_HOME=" + filepath.Join(base, "none")},
		Home:    base,
		Now:     time.Now,
	}
	test.OK(t, agents.Reap(t.Context(), env))
	test.Equal(t, "a state directory", exists(filepath.Join(base, "none")), false)
}

// The codex of an agent gets the key of no tracker.
func TestKeysOfTrackersReachNoAgent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads the environment of codex from /proc")
	}
	r := newRig(t, "LINEAR_API_KEY=of-linear", "GITHUB_TOKEN=of-github", "GH_TOKEN=of-gh", "NPM_TOKEN=of-npm")
	r.spawn("a")
	r.converse("a")
	r.call("a", turn("t"), script("sh cat /proc/$PPID/environ > seen\nsay done"))
	r.await("t", reconcile.CallCompleted, "done")
	seen := string(test.Must(os.ReadFile(filepath.Join(r.dir, "seen"))))
	test.Contains(t, "the environment", seen, "of-npm")
	test.Lacks(t, "the environment", seen, "of-linear", "of-gi", "of-gh")
}
