package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
)

// rig is a project on a machine whose faults a test makes: a directory with a small file system in it, a Linear, and
// commands that are processes of their own.
type rig struct {
	t      *testing.T
	linear *lineartest.Server
	dir    string // ours, on an ordinary disk
	disk   string // the small one
	state  string
	mark   string
	env    []string
	// wrap stands before every command: setpriv or a shell that sets limits.
	wrap []string
	// hurry lets quiet bring forward the next try of a block.
	hurry bool
}

// rigWait bounds every wait of such a test.
const rigWait = 30 * time.Second

const namespaceVar = "SYMPHONY_TEST_NAMESPACE"

// mounts makes sure that file systems can be mounted: where this account can't, it runs the whole test again in
// namespaces of its own and returns false, for then there is nothing left to do here.
func mounts(t *testing.T) bool {
	t.Helper()
	if canMount() {
		return true
	}
	if os.Getenv(namespaceVar) != "" {
		t.Skip("nothing can be mounted here, not even in a user namespace")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run", "^"+regexp.QuoteMeta(t.Name())+"$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Skipf("nothing can be mounted here, and there are no user namespaces: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("in a user namespace: %v\n%s", err, said.String())
	} else if strings.Contains(said.String(), "--- SKIP") {
		t.Skip(said.String())
	}
	return false
}

// newRig makes a project whose state directory lies at state and whose workspace root at root, both below the rig's
// directory; of it `disk` is a file system of so many kilobytes, none where that is 0.
func newRig(t *testing.T, state, root string, kilobytes int) *rig {
	t.Helper()
	r := &rig{t: t, mark: fmt.Sprintf("rig-%d-%d", os.Getpid(), time.Now().UnixNano())}
	// Not t.TempDir: the account that a test takes on must be able to enter it.
	dir, err := os.MkdirTemp("", "symphony-rig-")
	r.must(err)
	t.Cleanup(func() { r.must(os.RemoveAll(dir)) })
	r.dir, err = filepath.EvalSymlinks(dir)
	r.must(err)
	r.disk, r.state = filepath.Join(r.dir, "disk"), filepath.Join(r.dir, state)
	home, codexHome := filepath.Join(r.dir, "home"), filepath.Join(r.dir, "codex-home")
	r.must(errors.Join(os.Mkdir(home, 0o700), os.Mkdir(codexHome, 0o700), os.Mkdir(r.disk, 0o700)))
	if kilobytes > 0 {
		r.mount(kilobytes)
	}
	r.linear = lineartest.New(lineartest.Config{Validate: linearschema.Validate, Key: "lin_api_" + strings.Repeat("secret", 3)})
	r.must(r.linear.Start())
	t.Cleanup(func() { r.linear.Close() })
	t.Cleanup(r.sweep)
	agent, err := inPath(os.Getenv("PATH"), "fake-codex")
	r.must(err)
	r.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + codexHome, "TMPDIR=" + r.dir, markName + "=" + r.mark,
		"SYMPHONY_STATE_DIR=" + r.state, "LINEAR_API_KEY=" + r.linear.Key(),
	}
	workflow := strings.NewReplacer(
		"$LINEAR_ENDPOINT", r.linear.Endpoint(), "./ws", "./"+root, "$AGENT", agent+" app-server --home "+codexHome,
	).Replace(standardWorkflow)
	r.must(os.WriteFile(filepath.Join(r.dir, "WORKFLOW.md"), []byte(workflow), 0o600))
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) mount(kilobytes int) {
	r.t.Helper()
	r.must(unix.Mount("tmpfs", r.disk, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%dk", kilobytes)))
	r.t.Cleanup(func() { r.unmount() })
}

func (r *rig) unmount() {
	for unix.Unmount(r.disk, unix.MNT_DETACH) == nil { // more than one may lie over another
	}
}

// readOnly mounts the small disk for reading only, or for writing again. A file that is open for writing would keep
// it from that, but not a bind mount of it.
func (r *rig) readOnly(on bool) {
	r.t.Helper()
	if !on {
		r.must(unix.Unmount(r.disk, unix.MNT_DETACH))
		return
	}
	r.must(unix.Mount(r.disk, r.disk, "", unix.MS_BIND, ""))
	r.must(unix.Mount("", r.disk, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}

const ballastName = "ballast"

// fill leaves so many pages of the small disk free.
func (r *rig) fill(pages int) {
	r.t.Helper()
	var st unix.Statfs_t
	r.must(unix.Statfs(r.disk, &st))
	take := int64(st.Bavail) - int64(pages)
	if take <= 0 {
		return
	}
	f, err := os.OpenFile(filepath.Join(r.disk, ballastName), os.O_CREATE|os.O_RDWR, 0o600)
	r.must(err)
	defer f.Close()
	info, err := f.Stat()
	r.must(err)
	r.must(unix.Fallocate(int(f.Fd()), 0, info.Size(), take*st.Bsize))
}

// free gives the space back.
func (r *rig) free() {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.disk, ballastName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
}

// run runs a command of symphony's. What it says must not hold the key.
func (r *rig) run(args ...string) (a answer) {
	r.t.Helper()
	return r.command(append([]string{"symphony"}, args...)...)
}

type answer struct {
	stdout, stderr string
	code           int
}

func (a answer) String() string {
	return fmt.Sprintf("exit %d\n%s%s", a.code, a.stdout, a.stderr)
}

var errorLine = regexp.MustCompile(`(?m)^symphony: (\w+): `)

// codes are those of the errors that were said.
func (a answer) codes() (list []string) {
	for _, m := range errorLine.FindAllStringSubmatch(a.stderr, -1) {
		list = append(list, m[1])
	}
	return list
}

func (r *rig) command(args ...string) (a answer) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rigWait)
	defer cancel()
	args = append(slices.Clone(r.wrap), args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.env, time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		r.t.Fatalf("%q: %v\n%s%s", args, err, stdout.String(), stderr.String())
	}
	a = answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if strings.Contains(a.stdout+a.stderr, r.linear.Key()) {
		r.t.Errorf("%q says the key:\n%v", args, a)
	}
	return a
}

// want demands an exit code, and with it the codes of all errors that are said.
func (r *rig) want(a answer, code int, errorCodes ...string) answer {
	r.t.Helper()
	if got := a.codes(); a.code != code || !slices.Equal(got, errorCodes) {
		r.t.Fatalf("exit %d with the errors %q, want %d with %q:\n%v", a.code, got, code, errorCodes, a)
	}
	for _, line := range strings.Split(strings.TrimRight(a.stderr, "\n"), "\n") {
		if line != "" && !strings.HasPrefix(line, "symphony: ") && !strings.HasPrefix(line, "  ") {
			r.t.Errorf("stderr holds more than errors and hints: %q", line)
		}
	}
	return a
}

// pass runs one that must go well.
func (r *rig) pass() answer {
	r.t.Helper()
	return r.want(r.run("tick", "--lock-timeout", "20s"), 0)
}

// add adds an issue whose agent does what the script says; {move STATE} and {gate FILE} are those of the scripts.
func (r *rig) add(identifier, script string) {
	r.t.Helper()
	script = moveMacro.ReplaceAllStringFunc(script, func(m string) string {
		id, err := r.linear.StateID("ABC", moveMacro.FindStringSubmatch(m)[1])
		r.must(err)
		return fmt.Sprintf(`tool linear_graphql {"query": "mutation($issue: String!, $state: String!) { issueUpdate(id: $issue, input: {stateId: $state}) { success } }", "variables": {"issue": %q, "state": %q}}`, identifier, id)
	})
	script = gateMacro.ReplaceAllStringFunc(script, func(m string) string {
		return fmt.Sprintf("sh until [ -e '%s' ]; do sleep 0.02; done", filepath.Join(r.dir, gateMacro.FindStringSubmatch(m)[1]))
	})
	text := "```agent\n" + script + "\n```\n"
	_, err := r.linear.AddIssue(lineartest.Issue{Identifier: identifier, Title: "Issue " + identifier, State: "Todo", Description: &text})
	r.must(err)
}

// open opens a gate.
func (r *rig) open(gate string) {
	r.t.Helper()
	r.must(os.WriteFile(filepath.Join(r.dir, gate), nil, 0o600))
}

func (r *rig) until(what string, ok func() (bool, string)) {
	r.t.Helper()
	for end := time.Now().Add(rigWait); ; time.Sleep(20 * time.Millisecond) {
		done, last := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("waited %s in vain for: %s; the last:\n%s\n%s", rigWait, what, last, r.story())
		}
	}
}

// atWork waits until an issue's agent is at its turn.
func (r *rig) atWork(identifier string) {
	r.t.Helper()
	r.until(identifier+" at work", func() (bool, string) {
		a := r.run("ps")
		return strings.Contains(a.stdout, "running\t"+identifier+"\tTodo\tstreaming_turn"), a.String()
	})
}

// atGate waits until an agent's command stands before a gate.
func (r *rig) atGate() {
	r.t.Helper()
	r.until("a command at its gate", func() (bool, string) {
		found := r.processes("until [ -e ")
		return len(found) > 0, fmt.Sprint(found)
	})
}

// is waits until an issue has a state.
func (r *rig) is(identifier, state string) {
	r.t.Helper()
	r.until(identifier+" in "+state, func() (bool, string) {
		i, err := r.linear.Issue(identifier)
		r.must(err)
		return i.State == state, i.State
	})
}

// processes are those of the rig whose command line holds the text.
func (r *rig) processes(text string) (pids []int) {
	for pid, cmdline := range marked(r.mark, r.dir) {
		if strings.Contains(cmdline, text) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (r *rig) gone(text string) {
	r.t.Helper()
	r.until("no process "+text, func() (bool, string) {
		left := r.processes(text)
		return len(left) == 0, fmt.Sprint(left)
	})
}

// quiet runs passes until nothing runs or waits and no process of the rig is left.
func (r *rig) quiet() {
	r.t.Helper()
	r.until("nothing running or waiting", func() (bool, string) {
		if _, err := os.Stat(filepath.Join(r.state, "state.db")); err == nil && r.hurry {
			r.sql(`UPDATE meta SET value = json_set(value, '$.next_try', '2026-01-01T00:00:00Z') WHERE key = 'blocked_agent'`)
		}
		before := len(r.processes(""))
		a := r.run("tick", "--lock-timeout", "20s")
		return before+len(r.processes("")) == 0 && strings.Contains(a.stdout, ": 0 running, 0 waiting"), a.String()
	})
}

// sweep ends what a rig that failed has left.
func (r *rig) sweep() {
	for end := time.Now().Add(sweepBound); len(r.processes("")) > 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // workers that are just ending
	}
	for pid, cmdline := range marked(r.mark, r.dir) {
		r.t.Errorf("left behind: %d %s", pid, cmdline)
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
	}
}

// sql runs a query on the rig's database and gives its rows, columns separated by blanks.
func (r *rig) sql(query string) (rows []string) {
	r.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.state, "state.db")+"?mode=rw&_pragma=busy_timeout(5000)")
	r.must(err)
	defer db.Close()
	found, err := db.Query(query)
	r.must(err)
	defer found.Close()
	columns, err := found.Columns()
	r.must(err)
	for found.Next() {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(sql.NullString)
		}
		r.must(found.Scan(cells...))
		var row []string
		for _, c := range cells {
			row = append(row, c.(*sql.NullString).String)
		}
		rows = append(rows, strings.Join(row, " "))
	}
	r.must(found.Err())
	return rows
}

// story is what helps when something went wrong.
func (r *rig) story() string {
	var b strings.Builder
	logs, _ := filepath.Glob(filepath.Join(r.state, "runs", "*", "worker.log"))
	for _, path := range logs {
		data, _ := os.ReadFile(path)
		fmt.Fprintf(&b, "== %s\n%s", path, data[max(0, len(data)-4000):])
	}
	fmt.Fprintf(&b, "== ps\n%v", r.run("ps", "--all"))
	return b.String()
}

// belongTo makes everything of the rig a user's, and runs all commands as that.
func (r *rig) belongTo(uid int) {
	r.t.Helper()
	bin := filepath.Join(r.dir, "bin")
	r.must(os.Mkdir(bin, 0o755))
	for _, name := range []string{"symphony", "fake-codex"} {
		// By way of the directory that others may not enter.
		path, err := inPath(os.Getenv("PATH"), name)
		r.must(err)
		path, err = filepath.EvalSymlinks(path)
		r.must(err)
		if os.Link(path, filepath.Join(bin, name)) == nil {
			continue
		}
		data, err := os.ReadFile(path)
		r.must(err)
		r.must(os.WriteFile(filepath.Join(bin, name), data, 0o755))
	}
	for i, kv := range r.env {
		if strings.HasPrefix(kv, "PATH=") {
			r.env[i] = "PATH=" + bin + ":/usr/bin:/bin"
		}
	}
	path := filepath.Join(r.dir, "WORKFLOW.md")
	workflow, err := os.ReadFile(path)
	r.must(err)
	agent := regexp.MustCompile(`command: \S+`).ReplaceAll(workflow, []byte("command: "+filepath.Join(bin, "fake-codex")))
	r.must(os.WriteFile(path, agent, 0o600))
	r.must(filepath.WalkDir(r.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(path, bin) {
			return err
		}
		return os.Lchown(path, uid, uid)
	}))
	r.wrap = []string{"setpriv", "--reuid", fmt.Sprint(uid), "--regid", fmt.Sprint(uid), "--clear-groups"}
}

// limit runs the commands that follow with a limit of the shell's, such as "-n 32"; empty takes it away.
func (r *rig) limit(what string) {
	if i := slices.Index(r.wrap, "bash"); i >= 0 {
		r.wrap = r.wrap[:i]
	}
	if what != "" {
		r.wrap = append(slices.Clone(r.wrap), "bash", "-c", "ulimit "+what+"; exec \"$@\"", "limited")
	}
}

// hooks puts hooks into the workflow, as lines of YAML.
func (r *rig) hooks(lines string) {
	r.t.Helper()
	path := filepath.Join(r.dir, "WORKFLOW.md")
	text, err := os.ReadFile(path)
	r.must(err)
	r.must(os.WriteFile(path, []byte(strings.Replace(string(text), "\nagent:", "\nhooks:\n"+lines+"agent:", 1)), 0o600))
}
