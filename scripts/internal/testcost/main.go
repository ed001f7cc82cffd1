//go:build linux

// Command testcost measures the CPU and the processes of the tests. It runs the packages or
// tests one after the other, each in its own process, and waits for all processes that remain.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// cost is the use of a command and all its descendants.
type cost struct {
	name         string
	user, system time.Duration
	processes    int // that ended; 0 unless root
	wall         time.Duration
	failed       bool
}

func (c cost) cpu() time.Duration { return c.user + c.system }

// meter runs commands and collects their costs.
type meter struct {
	dir    string // temporary
	least  time.Duration
	costs  []cost
	failed bool
}

const (
	// the budget: the CPU of all packages, divided by the CPU of a build
	most       = 2.0
	buildOnly  = "go build (no cache)" // its row in the table
	accounting = "processes"           // the file of the kernel's process accounting
	recordSize = 64                    // of struct acct_v3
	patience   = 20 * time.Second      // for processes that a test leaves
)

func main() {
	packages := flag.Bool("packages", false, "measure packages only")
	n := flag.Int("n", 50, "the number of rows")
	least := flag.Duration("least", 500*time.Millisecond, "look into packages and tests of at least this CPU")
	flag.Parse()
	if err := stage.Catch(func() { run(*packages, *n, *least, flag.Args()) }); err != nil {
		fmt.Fprintln(os.Stderr, "testcost:", err)
		os.Exit(1)
	}
}

func run(packages bool, n int, least time.Duration, patterns []string) {
	dir := stage.Get(os.MkdirTemp("", "testcost-"))
	defer os.RemoveAll(dir)
	m := &meter{dir: dir, least: least}
	// Processes whose parent ended become children of this process, so that their CPU is
	// counted.
	stage.Must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer m.account()()
	var build, total time.Duration
	if len(patterns) == 0 {
		patterns = []string{"./..."}
		build = m.build()
	}
	for _, d := range testDirs(patterns) {
		total += m.pkg(d, !packages).cpu()
	}
	m.print(n)
	if build > 0 {
		ratio := total.Seconds() / build.Seconds()
		fmt.Printf(
			"\nall packages: %.0f s of CPU; a build with an empty cache: %.0f s; ratio %.2f (budget %.0f)\n",
			total.Seconds(),
			build.Seconds(),
			ratio,
			most,
		)
		m.failed = m.failed || ratio > most
	}
	if m.failed {
		stage.Must(errors.New("a test failed, or the budget is missed; see the table"))
	}
}

// account starts the accounting of the kernel, which writes a record for each process that
// ends. The returned function ends it.
func (m *meter) account() (end func()) {
	path := filepath.Join(m.dir, accounting)
	if err := os.WriteFile(path, nil, 0o600); err != nil || unix.Acct(path) != nil {
		return func() {} // not root, or no such kernel
	}
	return func() { _ = unix.Acct("") }
}

func (m *meter) processes() int {
	info, err := os.Stat(filepath.Join(m.dir, accounting))
	if err != nil {
		return 0
	}
	return int(info.Size() / recordSize)
}

// build measures a build of the program with an empty cache, to compare with.
func (m *meter) build() time.Duration {
	cmd := exec.Command("go", "build", "-o", filepath.Join(m.dir, "symphony"), "./cmd/symphony")
	cmd.Env = append(os.Environ(), "GOCACHE="+filepath.Join(m.dir, "cache"))
	c, out, err := m.measure(buildOnly, cmd)
	if err != nil {
		stage.Must(fmt.Errorf("go build: %w\n%s", err, out))
	}
	m.costs = append(m.costs, c)
	return c.cpu()
}

func testDirs(patterns []string) []string {
	args := []string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"}
	list := exec.Command("go", append(args, patterns...)...)
	list.Stderr = os.Stderr
	// the line of a package without tests is empty
	dirs := strings.Split(string(stage.Get(list.Output())), "\n")
	return slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })
}

// pkg measures the tests of a package and, if it is expensive, each test by name, too.
func (m *meter) pkg(dir string, each bool) cost {
	name := stage.Get(filepath.Rel(stage.Get(os.Getwd()), dir))
	binary := filepath.Join(m.dir, "test")
	compile := exec.Command("go", "test", "-c", "-vet=off", "-o", binary, dir)
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		stage.Must(fmt.Errorf("compile the tests of %s: %w", name, err))
	}
	c, out := m.test(name, dir, binary, "")
	if each && c.cpu() >= m.least {
		m.children(name, dir, binary, "", out)
	}
	return c
}

// test runs the test of that name, or all if name is empty.
func (m *meter) test(title, dir, binary, name string) (cost, []byte) {
	args := []string{"-test.v", "-test.count=1", "-test.timeout=30m"}
	if name != "" {
		parts := strings.Split(name, "/")
		for i := range parts {
			parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
		}
		args = append(args, "-test.run="+strings.Join(parts, "/"))
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	c, out, err := m.measure(title, cmd)
	if err != nil {
		c.failed = true
		m.failed = true
		fmt.Fprintf(os.Stderr, "%s: %v\n%s\n", title, err, failures(out))
	}
	m.costs = append(m.costs, c)
	return c, out
}

var (
	started = regexp.MustCompile(`(?m)^=== RUN   (\S+)$`)
	section = regexp.MustCompile(`^=== \w+ +(\S+)\s*$`)
	failure = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
)

// failures returns the output of failed tests, or all output of a test that ended early.
func failures(out []byte) []byte {
	if bytes.Contains(out, []byte("\npanic: ")) {
		return out
	}
	printed := map[string][]byte{} // by test
	name := ""
	var failed []byte
	for line := range bytes.Lines(out) {
		if match := section.FindSubmatch(line); match != nil {
			name = string(match[1])
		} else if match := failure.FindSubmatch(line); match != nil {
			failed = slices.Concat(failed, line, printed[string(match[1])])
		} else {
			printed[name] = append(printed[name], line...)
		}
	}
	return failed
}

// children measures each test below another by itself. out is the output of the test above.
func (m *meter) children(title, dir, binary, above string, out []byte) {
	var names []string
	depth := 0
	prefix := ""
	if above != "" {
		depth = strings.Count(above, "/") + 1
		prefix = above + "/"
	}
	for _, match := range started.FindAllSubmatch(out, -1) {
		if name := string(match[1]); strings.Count(name, "/") == depth && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	if above != "" && len(names) < 2 {
		return
	}
	for _, name := range names {
		if c, out := m.test(title+" "+name, dir, binary, name); c.cpu() >= m.least {
			m.children(title, dir, binary, name, out)
		}
	}
}

// measure runs a command and waits for all processes that it leaves. It ends processes that
// stay, as an error.
func (m *meter) measure(name string, cmd *exec.Cmd) (cost, []byte, error) {
	before := used()
	processes := m.processes()
	began := time.Now()
	output := filepath.Join(m.dir, "output")
	file, err := os.Create(output)
	if err != nil {
		return cost{}, nil, err
	}
	defer file.Close()
	cmd.Stdout = file
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		return cost{}, nil, err
	}
	err = reap(cmd.Process.Pid)
	after := used()
	out, readErr := os.ReadFile(output)
	return cost{
		name:      name,
		user:      after.user - before.user,
		system:    after.system - before.system,
		processes: m.processes() - processes,
		wall:      time.Since(began),
	}, out, errors.Join(err, readErr)
}

// reap waits for a child and all its descendants, also while the child runs, because tests
// notice processes that nothing waits for.
func reap(child int) (err error) {
	var left []string
	for since := (time.Time{}); ; {
		var status unix.WaitStatus
		pid, waitErr := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case pid == child:
			since = time.Now()
			if status != 0 {
				err = fmt.Errorf("it ended with %d, signal %d", status.ExitStatus(), status.Signal())
			}
		case errors.Is(waitErr, unix.ECHILD):
			if left != nil {
				err = errors.Join(err, fmt.Errorf("it left processes: %q", left))
			}
			return err
		case pid > 0:
		case !since.IsZero() && time.Since(since) > patience:
			left = append(left, endChildren()...)
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// endChildren kills the children of this process and returns their command lines.
func endChildren() (killed []string) {
	for _, path := range stage.Get(filepath.Glob("/proc/self/task/*/children")) {
		for _, pid := range strings.Fields(string(stage.Get(os.ReadFile(path)))) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline") // empty if it just ended
			killed = append(killed, strings.ReplaceAll(string(line), "\x00", " "))
			_ = unix.Kill(stage.Get(strconv.Atoi(pid)), unix.SIGKILL)
		}
	}
	time.Sleep(5 * time.Millisecond)
	return killed
}

// used returns the CPU of all ended descendants.
func used() cost {
	var u unix.Rusage
	stage.Must(unix.Getrusage(unix.RUSAGE_CHILDREN, &u))
	return cost{user: time.Duration(u.Utime.Nano()), system: time.Duration(u.Stime.Nano())}
}

func (m *meter) print(n int) {
	slices.SortStableFunc(m.costs, func(a, b cost) int { return cmp.Compare(b.cpu(), a.cpu()) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "CPU\tuser\tsystem\tprocesses\tseconds\t  \n")
	for _, c := range m.costs[:min(n, len(m.costs))] {
		result := ""
		if c.failed {
			result = "  FAILED"
		}
		fmt.Fprintf(
			w,
			"%.2f\t%.2f\t%.2f\t%d\t%.1f\t  %s%s\n",
			c.cpu().Seconds(),
			c.user.Seconds(),
			c.system.Seconds(),
			c.processes,
			c.wall.Seconds(),
			c.name,
			result,
		)
	}
	w.Flush()
}
