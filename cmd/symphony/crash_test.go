//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/test"
)

// TestCrashPoints kills the program at every point of package crash, runs the next passes, and
// checks that nothing was lost, duplicated, left behind or damaged. It plays each scenario
// once without a death, to see which points it reaches; then once for each point, in the first
// scenario that reaches it.
//
// One process dies at each point, except before calls: what is left there is what is left
// after the call before it. With SYMPHONY_TEST=each a pass and a worker die at each point that
// both reach, before calls, too, for some points in several scenarios and at several visits. A
// point that no scenario reaches fails the test.
func TestCrashPoints(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	points := crashPoints(t)
	program := builtProgram(t, "crashpoints")
	places := map[string][]crashPlace{} // by scenario
	var mu sync.Mutex
	played := 0
	t.Run("scenario", func(t *testing.T) {
		for _, s := range crashScenarios {
			if s.needs != nil && !s.needs() {
				continue
			}
			played++
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				c := newCrashScene(t, program, s, "")
				c.play()
				mu.Lock()
				defer mu.Unlock()
				places[s.name] = c.visited()
			})
		}
	})
	if t.Failed() {
		return
	}
	tasks := crashTasks(places)
	died := map[string]bool{}
	t.Run("point", func(t *testing.T) {
		for _, task := range tasks {
			t.Run(task.scenario.name+"/"+task.at(), func(t *testing.T) {
				t.Parallel()
				// On a slow machine the first scenario may have reached a point that it
				// usually does not.
				for _, s := range slices.Concat([]crashScenario{task.scenario}, task.others, []crashScenario{task.scenario}) {
					c := newCrashScene(t, program, s, task.at())
					c.play()
					if c.died() {
						mu.Lock()
						died[task.name] = true
						mu.Unlock()
						return
					}
				}
				t.Logf("%s was not reached again", task.at())
			})
		}
	})
	t.Logf("%d points, %d deaths", len(points), len(tasks))
	for _, task := range tasks {
		if !slices.Contains(points, task.name) {
			t.Errorf("the crash point %s is not in the source", task.name)
		}
	}
	if len(places) < played || len(died) == 0 {
		return // -run selected only some scenarios
	}
	for _, name := range points {
		if !died[name] && !spared(name) && !slices.Contains(unreached, name) &&
			!slices.Contains(unreachable(), name) {
			t.Errorf("no process died at the crash point %s", name)
		}
	}
}

// spared reports whether no process dies at a point.
func spared(name string) bool { return !test.Each() && strings.HasSuffix(name, ".before") }

// TestFrozenInAWrite stops a worker during a transaction, which locks the database for every
// pass. A pass still ends the worker, and the issue continues.
func TestFrozenInAWrite(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	program := builtProgram(t, "crashpoints")
	s := crashScenario{
		name:   "write",
		issue:  handOver,
		ends:   "Human Review",
		keeps:  true,
		deaths: 1,
		exits:  []int{1},
		stands: true,
	}
	s.play = func(c *crashScene) {
		c.passes("the worker is stopped", c.died)
		c.silent()
		c.passes("the worker is ended", func() bool { return !c.working() })
	}
	c := newCrashScene(t, program, s, "worker:state.transaction#4")
	c.play()
	test.Equal(
		t,
		"the error code of the first run",
		c.query(`SELECT error_code FROM runs ORDER BY id LIMIT 1`),
		[]string{"worker_frozen"},
	)
}

// TestCrashPointsAbsent checks that a release contains none of the points.
func TestCrashPointsAbsent(t *testing.T) {
	test.Expensive(t)
	data := test.Must(os.ReadFile(builtProgram(t, "")))
	for _, name := range append(crashPoints(t), "SYMPHONY_CRASH") {
		if bytes.Contains(data, []byte(name)) {
			t.Errorf("the program contains the name %s", name)
		}
	}
}

// builtProgram returns the path of the program, built once with each set of build tags. It is
// removed with the programs of the scripts.
func builtProgram(t *testing.T, tags string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	program := filepath.Join(filepath.Dir(test.Must(exec.LookPath("fake-codex"))), "built"+tags, "symphony")
	if isExecutable(program) {
		return program
	}
	test.Run(t, exec.Command("go", "build", "-ldflags", "-s -w", "-tags", tags, "-o", program, "."))
	return program
}

var builds sync.Mutex

// crashPoints reads the names of all points from the module's source: the literals of
// crash.At, each of which occurs once; those of crash.Around, around a call of a port; and
// those of crash.Method, around each write of package state.
func crashPoints(t *testing.T) []string {
	t.Helper()
	at := map[string]token.Position{}
	root := filepath.Join("..", "..")
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		add := func(where token.Pos, names ...string) {
			for _, name := range names {
				if other, taken := at[name]; taken {
					t.Errorf("%s: the crash point %s is also at %s", files.Position(where), name, other)
				}
				at[name] = files.Position(where)
			}
		}
		method := ""
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok {
				method = f.Name.Name
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := calledName(call)
			switch {
			case name == "crash.At":
				add(call.Pos(), literalOf(t, call))
			case strings.HasPrefix(strings.TrimPrefix(name, "crash."), "Around") && method != "AroundErr":
				add(call.Pos(), literalOf(t, call)+".before", literalOf(t, call)+".after")
			case file.Name.Name == "state" && strings.HasSuffix(name, ".update"):
				add(call.Pos(), "state."+method+".before", "state."+method+".after")
			}
			return true
		})
		return nil
	})
	test.OK(t, err)
	if len(at) < 60 {
		t.Errorf("only %d crash points were found", len(at))
	}
	return slices.Sorted(maps.Keys(at))
}

// calledName returns the name of a called function: NAME, X.NAME, or .NAME if X is not an
// identifier.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name + "." + fun.Sel.Name
		}
		return "." + fun.Sel.Name
	}
	return ""
}

func literalOf(t *testing.T, call *ast.CallExpr) string {
	t.Helper()
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		t.Fatalf("the name of a crash point is not a literal")
	}
	return test.Must(strconv.Unquote(literal.Value))
}

// crashPlace is a point that a scenario reached.
type crashPlace struct {
	role, name string
	visits     int // by one process, at most
}

// crashTask is one death.
type crashTask struct {
	crashPlace
	scenario crashScenario
	visit    int
	others   []crashScenario // reach the same place
}

func (t crashTask) at() string {
	if t.visit == 1 {
		return t.role + ":" + t.name
	}
	return fmt.Sprintf("%s:%s#%d", t.role, t.name, t.visit)
}

// everyVisit lists points that a process reaches more than once, each time between different
// effects, with the number of visits that are tested with SYMPHONY_TEST=each.
var everyVisit = map[string]int{
	"host.RunHook.before":    3,
	"host.RunHook.after":     3,
	"workspace.hook.started": 3,
	"durable.written":        3,
	"durable.renamed":        3,
	"state.UpdateRun.after":  3,
	"state.Commit.after":     2,
	"proc.procs.added":       2,
}

// unreachable are the points that are reached only through a process that can't be killed, or
// through a host, where the system has none.
func unreachable() (points []string) {
	if !canFreeze() {
		points = append(points, "state.ReapFailed.before", "state.ReapFailed.after")
	}
	if !canServeSSH() {
		for _, call := range []string{"TakeRemote", "SaveRemote", "SaveRemoteWorkspace"} {
			points = append(points, "state."+call+".before", "state."+call+".after")
		}
	}
	return points
}

// unreached are points that no scenario reaches. No scenario moves its project: the script
// projects_move completes interrupted moves. None has hosts whose commits are kept here, nor
// signs: engine_dies and TestSignedDelivery end and repeat these steps. No comment is older than
// two minutes, after which a pass keeps its hold: after a death there the next pass reads the
// comment again. No after_create fails: TestDiscard removes such a workspace in steps that can be
// repeated. In none somebody changes the base of a pull request.
var unreached = []string{
	"state.MoveWorkspaces.before", "state.MoveWorkspaces.after",
	"host.Keep.before", "host.Keep.after", "host.Forget.before", "host.Forget.after",
	"repository.keep.copied", "repository.deliver.signed",
	"state.KeepHold.before", "state.KeepHold.after", "host.Discard.before", "host.Discard.after",
	"state.AcceptBase.before", "state.AcceptBase.after",
}

// crashTasks chooses the deaths and their scenarios.
func crashTasks(places map[string][]crashPlace) (tasks []crashTask) {
	done := map[string]bool{}
	for _, s := range crashScenarios {
		for _, p := range places[s.name] {
			if spared(p.name) {
				continue
			}
			key := p.role + ":" + p.name
			again := slices.ContainsFunc(
				s.again,
				func(prefix string) bool { return strings.HasPrefix(key, prefix) },
			)
			if !test.Each() {
				key = p.name
				again = false
			}
			first := !done[key]
			if !first && !again {
				continue
			}
			done[key] = true
			visits := 1
			if first && test.Each() {
				visits = min(p.visits, max(1, everyVisit[p.name]))
			}
			for visit := range visits {
				tasks = append(tasks, crashTask{crashPlace: p, scenario: s, visit: visit + 1})
			}
		}
	}
	for i, task := range tasks {
		for _, s := range crashScenarios {
			if s.name != task.scenario.name &&
				slices.ContainsFunc(
					places[s.name],
					func(p crashPlace) bool { return p.role == task.role && p.name == task.name && p.visits >= task.visit },
				) {
				tasks[i].others = append(tasks[i].others, s)
			}
		}
	}
	return tasks
}

// check checks the invariants of the final state without the help of the program.
func (c *crashScene) check() {
	c.t.Helper()
	// A workspace never has two agents, and an incomplete one has none.
	if wrong, err := os.ReadFile(c.path("ledger", "wrong")); err == nil {
		c.t.Errorf("the witness reports:\n%s", wrong)
	}
	// Every run has one outcome and is settled, and only held claims remain.
	for what, text := range map[string]string{
		"runs without an end":   `SELECT id FROM runs WHERE outcome IS NULL OR settled = 0`,
		"claims that remain":    `SELECT identifier || ' ' || status FROM claims WHERE status <> 'held'`,
		"commands not consumed": `SELECT verb FROM commands`,
		// A run that handed over had the answer.
		"answers that no agent received": `SELECT q.number FROM requests q JOIN runs r ON r.id = q.run_id WHERE q.decision = 'answer' AND q.told_run = ''
			AND (coalesce(q.fate, '') <> 'answered' OR r.outcome = 'lost' AND q.ended_at >= r.heartbeat_at)
			AND (SELECT outcome FROM runs WHERE kind = 'agent' ORDER BY id DESC LIMIT 1) <> 'lost'`,
		"agents' runs unrecorded": `SELECT id FROM runs WHERE kind = 'agent' AND thread_id <> '' AND workspace_id = ''`,
	} {
		if left := c.query(text); len(left) > 0 {
			c.t.Errorf("%s: %q", what, left)
		}
	}
	if kept := c.number(`SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'commands'`); kept < c.orders ||
		kept > c.orders+2*c.edits {
		c.t.Errorf(
			"%d commands were stored, %d were given, and the workflow was changed %d times",
			kept,
			c.orders,
			c.edits,
		)
	}
	if strings.HasPrefix(c.issue, remarks) && c.number(`SELECT count(*) FROM created WHERE kind = 'comment'`) == 0 {
		c.t.Errorf("the objects that the agent created are stored as %q", c.query(`SELECT kind FROM created`))
	}
	c.checkAttempts()
	c.checkTokens()
	c.checkHealthy()
	c.checkAttentions()
	c.checkFiles()
	c.checkWorkspace()
	c.checkRemote()
	c.checkHandedOver()
}

// checkAttempts checks that every failed or lost run counts as an attempt.
func (c *crashScene) checkAttempts() {
	if c.recounted {
		return
	}
	rows := c.query(`SELECT attempt || ' ' || outcome FROM runs WHERE kind = 'agent' ORDER BY id`)
	for i := range rows[:max(0, len(rows)-1)] {
		attempt, outcome, _ := strings.Cut(rows[i], " ")
		next, _, _ := strings.Cut(rows[i+1], " ")
		failed := !slices.Contains([]string{"succeeded", "ended", "interrupted", "canceled"}, outcome)
		if failed && len(next) == len(attempt) && next != string(attempt[0]+1) {
			c.t.Errorf(
				"the run after one with attempt %s that ended %s has attempt %s",
				attempt,
				outcome,
				next,
			)
		}
	}
}

// checkTokens checks that all sums of tokens agree, and that they are less than the agent's
// own count only if a worker died before it received the rest.
func (c *crashScene) checkTokens() {
	runs := c.number(`SELECT coalesce(sum(tokens_total), 0) FROM runs`)
	threads := c.number(`SELECT coalesce(sum(total), 0) FROM threads`)
	issues := c.number(`SELECT coalesce(sum(total), 0) FROM issue_totals`)
	days := c.number(`SELECT coalesce(sum(total), 0) FROM model_totals`)
	sums := []int{runs, issues, days}
	want := []int{threads, threads, threads}
	test.Equal(c.t, "the tokens of runs, of issues and of days", sums, want)
	reported := 0
	for _, file := range c.glob("codex-home", "threads", "*.json") {
		var thread struct{ Total struct{ Input, Output int } }
		c.must(json.Unmarshal(test.Must(os.ReadFile(file)), &thread))
		reported += thread.Total.Input + thread.Total.Output
	}
	workerDied := c.deaths > 0 || c.died() && strings.HasPrefix(c.point, "worker:")
	if threads > reported || threads < reported && !workerDied {
		c.t.Errorf("%d tokens are counted, the agent reported %d", threads, reported)
	}
}

// checkHealthy checks that no worker but the one that died was lost.
func (c *crashScene) checkHealthy() {
	lost := c.query(`SELECT id || ' ' || error_code FROM runs WHERE outcome = 'lost' AND worker_pid <> 0`)
	allowed := c.deaths
	if strings.HasPrefix(c.point, "worker:") {
		allowed++
	}
	if len(lost) > allowed {
		c.t.Errorf("healthy runs were lost: %q", lost)
	}
}

// checkFiles checks that no file was created outside the workspace root and the state
// directory, and that no unfinished file is left in them.
func (c *crashScene) checkFiles() {
	c.entries(
		"",
		"WORKFLOW.md",
		"bin",
		"codex-home",
		"died",
		"gate",
		"go",
		"home",
		"hosts",
		"hosts.sh",
		"ledger",
		"remote",
		"state",
		"tmp",
		"visits",
		"visits.before",
		"witness",
		"ws",
	)
	c.entries("home", ".local") // files that the account's projects share
	for _, dir := range c.glob("home", ".local", "state", "symphony", "accounts", "*") {
		dir = strings.TrimPrefix(dir, c.dir+"/")
		if filepath.Base(dir) != "trackers" { // a lock for each tracker
			c.entries(dir, "codex", "limits.json", "limits.lock", "slots", "slots.lock")
		}
		c.entries(dir+"/codex", "auth.json", "config.toml")
		c.entries(dir+"/slots", "1")
	}
	c.entries("tmp")
	inState := []string{
		"lock",
		"lock.waiter",
		"runs",
		"state.db",
		"state.db-wal",
		"state.db-shm",
		"attention.log",
		"attention.tree",
	}
	if c.claims != "" {
		inState = append(inState, "mirrors") // with a copy of the claims
	}
	c.entries("state", inState...)
	meta := []string{"mirrors", "projects", "trash", "work", "ABC-1.lock"}
	if c.keeps {
		meta = append(meta, "ABC-1.json")
	}
	c.entries("ws", ".symphony", "ABC-1")
	c.entries("ws/.symphony", meta...)
	c.entries("ws/.symphony/trash")
	known := c.query(`SELECT id FROM runs`)
	for _, path := range c.glob("state", "runs", "*") {
		allowed := []string{"workflow.md", "alive"}
		// A pass that died before it stored the row leaves a directory, which is removed after
		// an hour.
		if slices.Contains(known, filepath.Base(path)) {
			allowed = append(
				allowed,
				"host.json",
				"procs",
				"tree",
				"events.jsonl",
				"hooks.log",
				"agent.stderr",
				"worker.log",
			)
		}
		c.entries("state/runs/"+filepath.Base(path), allowed...)
	}
}

// entries checks that a directory, if it exists, contains only these names.
func (c *crashScene) entries(dir string, allowed ...string) {
	list, err := os.ReadDir(c.path(dir))
	if err != nil && !os.IsNotExist(err) {
		c.t.Error(err)
	}
	for _, e := range list {
		// A crash may leave an unfinished file of durable.WriteFile behind.
		if !slices.Contains(allowed, e.Name()) && !strings.HasSuffix(e.Name(), durable.TempSuffix) &&
			!strings.HasPrefix(e.Name(), ".procs-") {
			c.t.Errorf("%s is left", filepath.Join(dir, e.Name()))
		}
	}
}

// checkWorkspace checks that the workspace is complete and recorded as such, or removed with
// everything that belonged to it.
func (c *crashScene) checkWorkspace() {
	if !c.keeps {
		for _, path := range []string{"ws/ABC-1", "ws/.symphony/ABC-1.json", "ws/.symphony/work/ABC-1"} {
			test.Equal(c.t, path+" is left", c.exists(path), false)
		}
		return
	}
	record, err := os.ReadFile(c.path("ws", ".symphony", "ABC-1.json"))
	if err != nil || !strings.Contains(string(record), `"state": "ready"`) {
		c.t.Errorf("the workspace's record: %v\n%s", err, record)
	}
	for _, path := range []string{"ws/ABC-1/made/3", "ws/ABC-1/work.txt"} {
		test.Equal(c.t, path+" is there", c.exists(path), true)
	}
}
