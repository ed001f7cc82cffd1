//go:build linux

package main

import (
	"bytes"
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
)

// TestCrashPoints kills the program at every point of package crash, runs the next passes, and checks that nothing was
// lost, doubled, left or spoilt. It plays each scenario once without a death, to see which points it reaches; then once for
// each point, in the first scenario that reaches it, and for some points in others, too.
//
// SYMPHONY_CRASH_TEST says how much of this is done:
//
//	(unset)  the quick scenarios, and one death for each kind of point: package and role
//	once     every scenario, one death at each point
//	each     every scenario, a death of a pass and of a worker at each point that both reach
//
// A point that no scenario reaches fails the test, except where it is unset.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	points := crashPoints(t)
	program := filepath.Join(t.TempDir(), "symphony")
	build(t, program, "crashpoints")
	places := map[string][]crashPlace{} // by scenario
	var mu sync.Mutex
	played := 0
	t.Run("scenario", func(t *testing.T) {
		for _, s := range crashScenarios {
			if s.freezer && !canFreeze() || crashMode() == "" && !s.quick {
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
				// A slow machine may have led the first scenario past a point that it usually does not reach.
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
	if crashMode() == "" || len(places) < played || len(died) == 0 {
		return // only some were asked for
	}
	for _, name := range points {
		if !died[name] && (canFreeze() || !slices.Contains(freezerPoints, name)) {
			t.Errorf("no process died at the crash point %s", name)
		}
	}
}

func crashMode() string { return os.Getenv("SYMPHONY_CRASH_TEST") }

// TestFrozenInAWrite stops a worker inside of a transaction, which keeps the database from every pass. A pass ends it all
// the same, and the issue goes on.
func TestFrozenInAWrite(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "symphony")
	build(t, program, "crashpoints")
	s := crashScenario{name: "write", issue: handOver, ends: "Human Review", keeps: true, deaths: 1, exits: []int{1}, stands: true}
	s.play = func(c *crashScene) {
		c.passes("it stands still", c.died)
		c.silent()
		c.passes("it is ended", func() bool { return !c.working() })
	}
	c := newCrashScene(t, program, s, "worker:state.transaction#4")
	c.play()
	if out := c.query(`SELECT error_code FROM runs ORDER BY id LIMIT 1`); !slices.Equal(out, []string{"worker_frozen"}) {
		t.Errorf("the first run ended by %q", out)
	}
}

// TestCrashPointsAbsent checks that a release holds none of the points.
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

// crashPoints reads the names of all points from the module's source: the literals of crash.At, which stand in one place
// each; those of crash.Around, around a call of a port; and those of crash.Method around each write of package state.
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
					t.Errorf("%s: the crash point %s stands at %s, too", files.Position(where), name, other)
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
			switch name := calledName(call); {
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
	if err != nil {
		t.Fatal(err)
	}
	if len(at) < 60 {
		t.Errorf("only %d crash points were found", len(at))
	}
	return slices.Sorted(maps.Keys(at))
}

// calledName is what a call names: a function, or the last selector and what it is selected from.
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
	name, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return name
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

// everyVisit are points that a process reaches more than once, each time between other effects, and how many of these
// visits are died at.
var everyVisit = map[string]int{
	"host.RunHook.before": 3, "host.RunHook.after": 3, "workspace.hook.started": 3, "durable.written": 3, "durable.renamed": 3,
	"state.UpdateRun.after": 3, "state.Commit.after": 2, "proc.procs.added": 2,
}

// freezerPoints are reached only through a process that can't be killed, which not every system can make.
var freezerPoints = []string{"state.ReapFailed.before", "state.ReapFailed.after"}

// crashTasks chooses the deaths and their scenarios.
func crashTasks(places map[string][]crashPlace) (tasks []crashTask) {
	done := map[string]bool{}
	for _, s := range crashScenarios {
		for _, p := range places[s.name] {
			key := p.role + ":" + p.name
			again := slices.ContainsFunc(s.again, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
			switch crashMode() {
			case "":
				kind, _, _ := strings.Cut(p.name, ".")
				key, again = p.role+":"+kind, false
			case "once":
				key = p.name
			}
			first := !done[key]
			if !first && !again {
				continue
			}
			done[key] = true
			visits := 1
			if first && crashMode() != "" {
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
