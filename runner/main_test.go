package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/proc"
)

// agentVar makes this test binary the scripted agent.
const agentVar = "RUNNER_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(agentVar) != "" {
		os.Exit(codextest.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const testKey = "lin_api_0123456789secret"

// memory is a Journal in memory for one run.
type memory struct {
	mu       sync.Mutex
	updates  []reconcile.Run
	finished []reconcile.Run
	stop     string // the stop reason that a pass has set
	stopRead bool   // whether the worker has read it
	// refuse is called at every write. Its error is that of the write.
	refuse func(run reconcile.Run) error
	// fails is how many more times a method fails, by its name.
	fails map[string]int

	threads  map[string]reconcile.Tokens
	last     string // the issue's newest thread
	lastIn   string // the id of its workspace
	failures int
	before   int64 // tokens that the issue had used before
	created  []reconcile.Created

	seen    map[string]reconcile.LastSeen // by thread
	lastRun *reconcile.Run
	ours    map[string]bool // comments of agents
	late    []reconcile.Request
	untold  []reconcile.Message

	delivered reconcile.Delivered
}

func newMemory() *memory {
	return &memory{
		threads: map[string]reconcile.Tokens{},
		seen:    map[string]reconcile.LastSeen{},
		fails:   map[string]int{},
	}
}

// failure is the error of a method that is to fail.
func (m *memory) failure(method string) error {
	m.fails[method]--
	if m.fails[method] < 0 {
		return nil
	}
	return &reconcile.Error{Code: "disk_full", Message: "no room"}
}

func (m *memory) UpdateRun(_ context.Context, _ time.Time, run reconcile.Run) (reconcile.Orders, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopRead = m.stopRead || m.stop != ""
	if m.refuse != nil {
		if err := m.refuse(run); err != nil {
			return reconcile.Orders{Stop: m.stop}, err
		}
	}
	m.updates = append(m.updates, run)
	return reconcile.Orders{Stop: m.stop, Messages: len(m.untold) > 0}, nil
}

func (m *memory) Finish(_ context.Context, _ time.Time, run reconcile.Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		if err := m.refuse(run); err != nil {
			return err
		}
	}
	m.finished = append(m.finished, run)
	return nil
}

func (m *memory) SaveThread(
	_ context.Context,
	_, _ string,
	thread reconcile.Thread,
	t reconcile.Tokens,
	_ time.Time,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.threads[thread.ID] = t
	m.last = thread.ID
	m.lastIn = thread.WorkspaceID
	return nil
}

func (m *memory) Thread(_ context.Context, thread string) (reconcile.Tokens, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.threads[thread]
	return t, ok, m.failure("Thread")
}

func (m *memory) LastThread(context.Context, string, string) (newest, here reconcile.Thread, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	newest = reconcile.Thread{ID: m.last, WorkspaceID: m.lastIn, Failed: m.failures}
	return newest, newest, nil
}

func (m *memory) SaveCreated(_ context.Context, _, _ string, made []reconcile.Created, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failure("SaveCreated"); err != nil {
		return err
	}
	m.created = append(m.created, made...)
	return nil
}

// setStop sets the stop reason, as a pass would.
func (m *memory) setStop(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop = reason
}

func (m *memory) stopWasRead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopRead
}

// lastRow returns the row as written last.
func (m *memory) lastRow() reconcile.Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.updates) == 0 {
		return reconcile.Run{}
	}
	return m.updates[len(m.updates)-1]
}

// tracker answers each refresh with the next of its functions, and then always with the last
// one.
type tracker struct {
	mu       sync.Mutex
	answers  []func() (map[string]reconcile.Issue, error)
	asked    int
	comments []reconcile.Comment // of the issue, the newest first
}

func (k *tracker) adapter() *reconcile.TrackerAdapter {
	return &reconcile.TrackerAdapter{Tracker: k, Comments: k.Comments}
}

// Candidates implements reconcile.Tracker.
func (k *tracker) Candidates(context.Context, []string) ([]reconcile.Issue, error) {
	return nil, errors.New("a worker must not ask for candidates")
}

func (k *tracker) ByIDs(_ context.Context, ids []string) (map[string]reconcile.Issue, error) {
	k.mu.Lock()
	k.asked++
	answer := k.answers[min(k.asked, len(k.answers))-1]
	k.mu.Unlock()
	if len(ids) != 1 {
		return nil, fmt.Errorf("a worker asked for %q", ids)
	}
	return answer()
}

type answer = func() (map[string]reconcile.Issue, error)

func issueIn(state string) reconcile.Issue {
	return reconcile.Issue{
		ID:         "id-1",
		Identifier: "ABC-1",
		Title:      "Fix $(touch oops)",
		State:      state,
	}
}

// in returns an answer with the issue in a state.
func in(state string) answer {
	return with(func(i *reconcile.Issue) { i.State = state })
}

func with(change func(*reconcile.Issue)) answer {
	return func() (map[string]reconcile.Issue, error) {
		i := issueIn("Todo")
		change(&i)
		return map[string]reconcile.Issue{i.ID: i}, nil
	}
}

func broken() (map[string]reconcile.Issue, error) {
	return nil, &reconcile.Error{Code: "linear_api_status", Message: "HTTP 503"}
}

// scripted is a Prompt with a script for the agent, the same for every issue.
type scripted string

func (s scripted) Render(_ reconcile.Issue, attempt int) (string, error) {
	if strings.HasPrefix(string(s), "error ") {
		return "", &reconcile.Error{Code: "template_render_error", Message: string(s[6:])}
	}
	return fmt.Sprintf("Do this.\n\n```agent\n%s\n```\nAttempt: %d\n", s, attempt), nil
}

// rig is a worker with everything that it needs, in temporary directories.
type rig struct {
	*Worker
	t         *testing.T
	journal   *memory
	tracker   *tracker
	run       reconcile.Run
	root      string
	terminate chan struct{}
	log       *lockedWriter
}

// newRig returns a worker whose agent runs the script. Without answers, the issue leaves the
// active states after one turn.
func newRig(t *testing.T, script string, answers ...answer) *rig {
	t.Helper()
	base := test.Must(filepath.EvalSymlinks(t.TempDir()))
	home := filepath.Join(base, "home")
	test.OK(t, os.MkdirAll(filepath.Join(base, "codex"), 0o700))
	test.OK(t, os.Mkdir(home, 0o700))
	if len(answers) == 0 {
		answers = []answer{in("Todo"), in("Human Review")}
	}
	exe := test.Must(os.Executable())
	program := filepath.Join(base, "scripted-codex") // its own git is refused, which its name decides
	test.OK(t, os.Symlink(exe, program))
	command := program + " app-server --home " + text.ShellWord(filepath.Join(base, "codex"))
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		agentVar + "=1",
		"LINEAR_API_KEY=" + testKey,
		"GORACE=" + os.Getenv("GORACE"),
	}
	log := &lockedWriter{}
	redactor := agent.NewRedactor([]string{testKey})
	r := &rig{
		t:         t,
		journal:   newMemory(),
		tracker:   &tracker{answers: answers},
		root:      filepath.Join(base, "ws"),
		terminate: make(chan struct{}),
		log:       log,
	}
	r.Worker = &Worker{
		Here: Place{
			Config: Config{
				Config: confine.Config{
					HomeVar:      codex.Kind().HomeVar,
					Secrets:      []string{"LINEAR_API_KEY"},
					SecretValues: []string{testKey},
				},
				Agent: codex.Kind(),
				Policy: reconcile.Policy{
					Project:        "demo",
					ActiveStates:   []string{"Todo", "In Progress"},
					TerminalStates: []string{"Done"},
					WorkspaceRoot:  r.root,
				},
				MaxTurns:          3,
				Hooks:             Hooks{Timeout: 5 * time.Second},
				Command:           command,
				ReadTimeout:       10 * time.Second,
				InitializeTimeout: 10 * time.Second,
				TurnTimeout:       time.Minute,
				StallTimeout:      time.Minute,
				ResumeThread:      true,
			},
			Machine: newLinkedMachine(t, local.Machine{
				StateDir: filepath.Join(base, "state"),
				Account:  host.Account{Env: env},
			}),
			StateDir: filepath.Join(base, "state"),
			Env:      env,
		},
		Prompt:   scripted(script),
		Journal:  r.journal,
		Tracker:  r.tracker.adapter(),
		Version:  "test",
		Now:      time.Now,
		Mono:     proc.Monotonic,
		Boot:     "boot",
		Log:      slog.New(slog.NewTextHandler(agent.Writer{W: log, Redactor: redactor}, nil)),
		Redactor: redactor,
	}
	r.next("run-1")
	return r
}

// next prepares the issue's next run. Its id is unique on this machine, because a run ends all
// processes with its mark.
func (r *rig) next(name string) {
	r.t.Helper()
	id := fmt.Sprintf("%s-%d-%d", name, os.Getpid(), time.Now().UnixNano())
	r.Dir = host.RunDir(r.Here.StateDir, id)
	test.OK(r.t, os.MkdirAll(r.Dir, 0o700))
	r.Alive = &pulse{}
	r.run = reconcile.Run{
		ID:            id,
		Kind:          reconcile.AgentRun,
		IssueID:       "id-1",
		Identifier:    "ABC-1",
		Issue:         issueIn("Todo"),
		Phase:         reconcile.PreparingWorkspace,
		WorkspaceRoot: r.root,
		StartedAt:     time.Now(),
	}
}

// withRuns is a machine whose runs are wrapped.
type withRuns struct {
	host.Machine
	wrap func(host.Run) host.Run
}

func (m withRuns) Run(id string) host.Run { return m.wrap(m.Machine.Run(id)) }

// pulse is an Alive in memory.
type pulse struct {
	beats   atomic.Int64
	refused string
}

func (p *pulse) Beat(n int64, _ time.Duration) error { p.beats.Store(n); return nil }
func (p *pulse) NoteFault(code string) error         { p.refused = code; return nil }

// bare returns a worker of a run that could not start.
func bare(journal Journal) (*Worker, *pulse) {
	alive := &pulse{}
	return &Worker{
		Journal: journal,
		Alive:   alive,
		Now:     time.Now,
		Mono:    proc.Monotonic,
		Log:     slog.New(slog.DiscardHandler),
	}, alive
}

type lockedWriter struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedWriter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// work carries out the run. It checks that no process is left and that the tracker's key was
// written nowhere.
func (r *rig) work() (reconcile.Run, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), test.Patience())
	defer cancel()
	run, err := r.Run(ctx, r.run, r.terminate)
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("worker's log:\n%s", r.log)
		}
	})
	if ctx.Err() != nil {
		r.t.Fatalf("the run took longer than %v", test.Patience())
	}
	left, findErr := tree.Find(tree.Owner{RunID: r.run.ID, ThreadID: run.ThreadID})
	test.OK(r.t, findErr)
	if len(left) > 0 {
		r.t.Errorf("processes of the run are left: %+v", left)
	}
	r.noSecret()
	return run, err
}

// ends carries out the run and checks that its outcome was recorded once, and is the expected
// one.
func (r *rig) ends(outcome reconcile.Outcome, code string) reconcile.Run {
	r.t.Helper()
	run, err := r.work()
	if err != nil {
		r.t.Fatalf("Run: %v", err)
	}
	if len(r.journal.finished) != 1 {
		r.t.Fatalf("%d outcomes were recorded", len(r.journal.finished))
	}
	got := r.journal.finished[0]
	if got.Outcome != outcome || got.ErrorCode != code || got.Phase != reconcile.Finishing ||
		got.EndedAt.IsZero() {
		r.t.Errorf(
			"recorded %s %q (%s) in %s, want %s %q",
			got.Outcome,
			got.ErrorCode,
			got.ErrorText,
			got.Phase,
			outcome,
			code,
		)
	}
	return run
}

// space returns a path in the issue's workspace.
func (r *rig) space(name ...string) string {
	return filepath.Join(append([]string{r.root, "ABC-1"}, name...)...)
}

func (r *rig) noSecret() {
	r.t.Helper()
	r.journal.mu.Lock()
	rows := fmt.Sprintf("%+v %+v", r.journal.updates, r.journal.finished)
	r.journal.mu.Unlock()
	if strings.Contains(rows, testKey) || strings.Contains(r.log.String(), testKey) {
		r.t.Error("the tracker's key is in the run's row or the worker's log")
	}
	for _, dir := range []string{r.Here.StateDir, r.root} {
		test.OK(r.t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(data), testKey) {
				err = fmt.Errorf("the tracker's key is in %s", path)
			}
			return err
		}))
	}
}
