package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// onlyRead lists the methods of Machine and Run that change nothing that a crash could leave
// half done.
var onlyRead = []string{
	"FreeBytes", "Workspaces", "Inspect", "Diff", "ReadAccount", // of the machine
	"Existing", "Resolve", "GitDirs", "Launcher",
	"Fingerprint",
	"Run",     // its methods have points
	"Verify",  // of the workspace's directory
	"Login",   // the operator's profile runs, and its report is kept in memory
	"Observe", // its list of processes has a point of its own, proc.procs.added
	// of takeover, which no test can kill in the place of a person's terminal
	"RunInTerminal",
}

// Each method of a machine and of its runs that changes something has crash points, which are
// named after it.
func TestCrashPointsOfMethods(t *testing.T) {
	points := pointsInSource(t)
	for receiver, port := range map[string]reflect.Type{
		"crashingMachine": reflect.TypeFor[host.Machine](),
		"crashingRun":     reflect.TypeFor[host.Run](),
	} {
		for i := range port.NumMethod() {
			name := port.Method(i).Name
			point, has := points[receiver+"."+name]
			switch {
			case slices.Contains(onlyRead, name):
				if point != "" {
					t.Errorf("%s only reads, and has the crash point %s", name, point)
				}
			case !has:
				t.Errorf("%s.%s has no crash points in crash_on.go", port, name)
			case point != "host."+name:
				t.Errorf("%s has the crash point %q", name, point)
			}
		}
	}
}

// pointsInSource reads the names of the points of methods, such as "host.Purge" of
// crashingMachine.Purge, from crash_on.go, which this build leaves out.
func pointsInSource(t *testing.T) map[string]string {
	t.Helper()
	file := test.Must(parser.ParseFile(token.NewFileSet(), "crash_on.go", nil, parser.SkipObjectResolution))
	points := map[string]string{}
	for _, declaration := range file.Decls {
		method, ok := declaration.(*ast.FuncDecl)
		if !ok || method.Recv == nil {
			continue
		}
		receiver, ok := method.Recv.List[0].Type.(*ast.Ident)
		if !ok {
			t.Fatalf("%s has another receiver than a value", method.Name)
		}
		name := receiver.Name + "." + method.Name.Name
		points[name] = ""
		ast.Inspect(method.Body, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if ok && literal.Kind == token.STRING {
				points[name] = test.Must(strconv.Unquote(literal.Value))
			}
			return true
		})
	}
	return points
}
