//go:build linux

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
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
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// TestCrashPoints dies at every place that package crash has a name for, runs the next passes, and looks whether
// anything was lost, doubled, left or spoilt. Each scenario is played once without a death, to see which places it
// comes by; then once for each place, by the first scenario that comes by it, and for some places by every one.
// A place that none comes by fails the test. SYMPHONY_CRASH_TEST=all plays every scenario for every place of it,
// once only one process dies at each place, whoever else comes by it.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	points := crashPoints(t)
	program := filepath.Join(t.TempDir(), "symphony")
	build(t, program, "crashpoints")
	places := map[string][]crashPlace{} // by scenario
	var mu sync.Mutex
	t.Run("scenario", func(t *testing.T) {
		for _, s := range crashScenarios {
			if s.freezer && !canFreeze() {
				continue
			}
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
	reached := map[string]bool{}
	for _, task := range tasks {
		reached[task.name] = true
	}
	played := len(crashScenarios)
	if !canFreeze() {
		played -= len(slices.DeleteFunc(slices.Clone(crashScenarios), func(s crashScenario) bool { return !s.freezer }))
	}
	for _, name := range points {
		if len(places) < played {
			break // only some were asked for
		}
		if !reached[name] && (canFreeze() || !slices.Contains(freezerPoints, name)) {
			t.Errorf("no scenario comes by the crash point %s", name)
		}
	}
	for name := range reached {
		if !slices.Contains(points, name) {
			t.Errorf("the crash point %s is not in the source", name)
		}
	}
	died := map[string]bool{}
	t.Run("point", func(t *testing.T) {
		for _, task := range tasks {
			t.Run(task.scenario.name+"/"+task.at(), func(t *testing.T) {
				t.Parallel()
				// A scenario may have come by only because the machine was slow that time.
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
	for _, name := range points {
		if reached[name] && !died[name] && len(places) == played && len(died) > 0 { // else only some were asked for
			t.Errorf("nobody died at the crash point %s", name)
		}
	}
	t.Logf("%d points, %d deaths", len(points), len(tasks))
}

// TestFrozenInAWrite: a worker that stands still in the middle of a write keeps the database from every pass. The next
// one ends it all the same, and the issue goes on.
func TestFrozenInAWrite(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "symphony")
	build(t, program, "crashpoints")
	s := crashScenario{name: "write", issue: handOver, ends: "Human Review", keeps: true, deaths: 1, exits: []int{1}, stands: true}
	s.play = func(c *crashScene) {
		c.passes("it stands still", c.died)
		// Half a minute passes.
		alive, err := filepath.Glob(c.path("state", "runs", "*", "alive"))
		c.must(err)
		body := fmt.Sprintf("1 %020d %020d", 1, int64(proc.Monotonic()-30*time.Second))
		c.must(os.WriteFile(alive[0], fmt.Appendf(nil, "%-63s\n", fmt.Sprintf("%s %08x", body, crc32.ChecksumIEEE([]byte(body)))), 0o600))
		c.passes("it is ended", func() bool { return !c.working() })
	}
	c := newCrashScene(t, program, s, "worker:state.transaction#4")
	c.play()
	if out := c.query(`SELECT error_code FROM runs ORDER BY id LIMIT 1`); !slices.Equal(out, []string{"worker_frozen"}) {
		t.Errorf("the first run ended by %q", out)
	}
}

// TestCrashPointsAbsent: the program as it is built for people holds none of it.
func TestCrashPointsAbsent(t *testing.T) {
	program := filepath.Join(t.TempDir(), "symphony")
	build(t, program, "")
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(crashPoints(t), "SYMPHONY_CRASH") {
		if bytes.Contains(data, []byte(name)) {
			t.Errorf("the program holds the name %s", name)
		}
	}
}

func build(t *testing.T, program, tags string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-tags", tags, "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// crashPoints reads the names of all points from the module's source. Each is a literal, and stands in one place.
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
		writer := "" // the method of state that is looked at
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && file.Name.Name == "state" {
				writer = f.Name.Name
			}
			call, ok := n.(*ast.CallExpr)
			if ok && writer != "" && isUpdate(call.Fun) {
				for _, when := range []string{"before", "after"} {
					at["state."+writer+"."+when] = files.Position(call.Pos())
				}
			}
			if !ok || !isCrashAt(call.Fun) {
				return true
			}
			where := files.Position(call.Pos())
			literal, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the name of a crash point is a literal", where)
				return true
			}
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Errorf("%s: %v", where, err)
			}
			if other, taken := at[name]; taken {
				t.Errorf("%s: the crash point %s stands at %s, too", where, name, other)
			}
			at[name] = where
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(at) < 60 {
		t.Errorf("only %d crash points were found", len(at))
	}
	return slices.Sorted(maps.Keys(at))
}

// isUpdate reports a call of the method through which package state writes: see crash.Method.
func isUpdate(fun ast.Expr) bool {
	selector, ok := fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "update"
}

func isCrashAt(fun ast.Expr) bool {
	selector, ok := fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "At" {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "crash"
}

// crashPlace is a point that a scenario came by.
type crashPlace struct {
	role, name string
	visits     int // most of one process
}

// crashTask is one death.
type crashTask struct {
	crashPlace
	scenario crashScenario
	visit    int
	others   []crashScenario // come by the same place
}

func (t crashTask) at() string {
	if t.visit == 1 {
		return t.role + ":" + t.name
	}
	return fmt.Sprintf("%s:%s#%d", t.role, t.name, t.visit)
}

// everyVisit are points that a process comes by more than once, each time between other effects: up to so many of
// them are died at.
var everyVisit = map[string]int{
	"workspace.hook.started": 3, "workspace.hook.over": 2, "durable.written": 3, "durable.renamed": 3,
	"state.UpdateRun.after": 3, "state.SetMeta.after": 2, "state.Commit.after": 2, "proc.procs.added": 2,
}

// freezerPoints are those that only a process which no signal reaches leads to; not every system can make one.
var freezerPoints = []string{"state.ReapFailed.before", "state.ReapFailed.after"}

// crashTasks says which deaths are to be died in which scenarios.
func crashTasks(places map[string][]crashPlace) (tasks []crashTask) {
	all, once := os.Getenv("SYMPHONY_CRASH_TEST") == "all", os.Getenv("SYMPHONY_CRASH_TEST") == "once"
	done := map[string]bool{}
	for _, s := range crashScenarios {
		for _, p := range places[s.name] {
			key := p.role + ":" + p.name
			if once {
				key = p.name
			}
			first := !done[key]
			if !all && !first && !slices.ContainsFunc(s.again, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
				continue
			}
			done[key] = true
			visits := 1
			if first || all {
				visits = min(p.visits, max(1, everyVisit[p.name]))
			}
			for visit := range visits {
				tasks = append(tasks, crashTask{crashPlace: p, scenario: s, visit: visit + 1})
			}
		}
	}
	for i, task := range tasks {
		for _, s := range crashScenarios {
			if s.name != task.scenario.name && slices.ContainsFunc(places[s.name], func(p crashPlace) bool { return p.role == task.role && p.name == task.name && p.visits >= task.visit }) {
				tasks[i].others = append(tasks[i].others, s)
			}
		}
	}
	return tasks
}
