package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
	"golang.org/x/sys/unix"
)

// A large project: 500 claims, of which 40 run, and 5,000 runs that are over.
const (
	largeRunning = 40
	largeClaims  = 500
	largeEnded   = 5000
)

// large is the state of a large project, whose workers are alive as far as anybody can see.
type large struct {
	t   *testing.T
	dir string // with WORKFLOW.md and the state directory
	db  *sql.DB
	// workers are the held locks, by run.
	workers map[string]*os.File
}

func newLarge(t *testing.T) *large {
	t.Helper()
	l := &large{t: t, dir: t.TempDir(), workers: map[string]*os.File{}}
	l.write(standardWorkflow)
	made, err := state.Create(context.Background(), l.state(), time.Now())
	l.must(err)
	l.must(made.Close())
	l.db, err = sql.Open("sqlite", "file:"+filepath.Join(l.state(), "state.db")+"?mode=rw&_pragma=busy_timeout(5000)&_pragma=synchronous(off)")
	l.must(err)
	t.Cleanup(func() { l.db.Close() })
	l.fill()
	for i := range largeRunning {
		l.live(fmt.Sprintf("20261120T080000.%03d-run", i))
	}
	return l
}

func (l *large) write(workflow string) {
	l.t.Helper()
	text := strings.NewReplacer("$LINEAR_ENDPOINT", "http://127.0.0.1:9/graphql", "$AGENT", "codex app-server").Replace(workflow)
	l.must(os.WriteFile(filepath.Join(l.dir, "WORKFLOW.md"), []byte(text), 0o600))
}

func (l *large) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *large) state() string { return filepath.Join(l.dir, "state") }

func (l *large) exec(query string, args ...any) {
	l.t.Helper()
	_, err := l.db.Exec(query, args...)
	l.must(err)
}

// fill writes issues with descriptions of 2,000 characters, as people write them.
func (l *large) fill() {
	now := time.Now().UnixMilli()
	issue := `json_object('id', 'id-' || i, 'identifier', 'ABC-' || i, 'title', 'Title of ' || i, 'state', 'In Progress',
		'description', replace(hex(zeroblob(1000)), '00', 'a '), 'labels', json_array('bug'), 'blocked_by', json_array())`
	count := `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1) `
	l.exec(`INSERT INTO runs (id, kind, issue_id, identifier, phase, outcome, settled, issue, turns, tokens_total, started_at, ended_at)
		`+count+`SELECT printf('20261119T%06d.000-end', i), 'agent', 'id-' || (i % 700), 'ABC-' || (i % 700), 'finishing',
		iif(i % 4, 'succeeded', 'failed'), 1, `+issue+`, 3, 1000, ?2 - 90000000, ?2 - 80000000 FROM n`, largeEnded, now)
	l.exec(`INSERT INTO runs (id, kind, issue_id, identifier, phase, issue, turns, tokens_total, last_event, last_message, last_event_at, heartbeat_at, started_at)
		`+count+`SELECT printf('20261120T080000.%03d-run', i), 'agent', 'id-' || i, 'ABC-' || i, 'streaming_turn', `+issue+`, 2, 1000,
		'notification', 'command started: make test', ?2, ?2, ?2 FROM n`, largeRunning, now)
	l.exec(`INSERT INTO claims (issue_id, identifier, status, version, run_id, kind, due_at, error_code, error_message, hold_reason, hold_message,
		held_at, issue, claimed_at, updated_at) `+count+`SELECT 'id-' || i, 'ABC-' || i,
		iif(i < ?3, 'running', iif(i % 2, 'retry', 'held')), 1, iif(i < ?3, printf('20261120T080000.%03d-run', i), ''), 'backoff', ?2 + 600000 + i,
		'turn_failed', 'no luck', iif(i % 2, '', 'max_failures'), 'it failed too often', ?2, `+issue+`, ?2, ?2 FROM n`, largeClaims, now, largeRunning)
	l.exec(`INSERT INTO skips (issue_id, identifier, reason, message, since)
		`+count+`SELECT 'skip-' || i, 'XYZ-' || i, 'no_slot', 'no slot is free', ?2 FROM n`, 200, now)
	l.exec(`INSERT INTO requests (issue_id, number, identifier, run_id, kind, summary, asked_at, expires_at, expires_mono, expires_boot)
		`+count+`SELECT 'id-' || (i % 700), 1 + i, 'ABC-' || (i % 700), printf('20261119T%06d.000-end', i), 'command', 'make test', ?2, ?2, 0, '' FROM n`,
		largeEnded, now) // ended with their runs
	l.exec(`INSERT INTO passes ("trigger", started_at, duration_ms, actions, skipped)
		`+count+`SELECT 'timer', ?2 - 1000 * (1000 - i), 50, 0, 200 FROM n`, 1000, now)
}

// live holds the lock of a run's worker.
func (l *large) live(runID string) {
	dir := runner.RunDir(l.state(), runID)
	l.must(os.MkdirAll(dir, 0o700))
	file, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_RDWR|os.O_CREATE, 0o600)
	l.must(err)
	l.must(unix.Flock(int(file.Fd()), unix.LOCK_EX))
	l.workers[runID] = file
	l.t.Cleanup(func() { file.Close() })
}

// beat writes what its workers write, each every five seconds, until the test is over.
func (l *large) beat(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i = (i + 1) % largeRunning {
		_, err := l.db.ExecContext(ctx, `UPDATE runs SET beats = beats + 1, heartbeat_at = ?, last_event_at = ?1, tokens_total = tokens_total + 1 WHERE id = ?`,
			time.Now().UnixMilli(), fmt.Sprintf("20261120T080000.%03d-run", i))
		if err != nil && ctx.Err() == nil {
			l.t.Error(err)
			return
		}
		project.Sleep(ctx, 5*time.Second/largeRunning)
	}
}

func (l *large) command(ctx context.Context, args ...string) *exec.Cmd {
	program, err := inPath(os.Getenv("PATH"), "symphony")
	l.must(err)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = l.dir
	cmd.Env = []string{"HOME=" + l.dir, "PATH=" + os.Getenv("PATH"), "SYMPHONY_STATE_DIR=" + l.state(), "TERM=xterm", clockVar + "=" + filepath.Join(l.dir, ".clock"), "TESTSCRIPT_COMMAND=" + os.Getenv("TESTSCRIPT_COMMAND")}
	return cmd
}

// used is the processor's time that a command has taken.
func used(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// What ps says of a large project it says in less than 100 ms of a processor; time that others take from it is not
// counted.
func TestPsLarge(t *testing.T) {
	l := newLarge(t)
	for _, c := range []struct{ args, want string }{
		{"ps", "running\tABC-39\t"},
		{"ps --all", "ended\tABC-99\t"},
		{"ps --all -n 5000", "ended\tABC-1\t"},
		{"ps --json --all", `"held": 230`},
		{"ps ABC-7", "running\tABC-7\t"},
		{"ps --all ABC-7", "ended\tABC-7\t"},
	} {
		best := time.Hour
		for range 3 {
			cmd := l.command(t.Context(), strings.Fields(c.args)...)
			out, err := cmd.Output()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Fatalf("%s: %v, and no %q in %.2000s", c.args, err, c.want, out)
			}
			best = min(best, used(cmd))
		}
		t.Logf("%s: %s", c.args, best)
		if best > 100*time.Millisecond && !raceDetector() {
			t.Errorf("%s takes %s of a processor", c.args, best)
		}
	}
}

// watched is long enough to tell 3 % of it from less by a clock of 10 ms.
const watched = 6 * time.Second

// Watching it takes less than 3 % of one.
func TestWatchLarge(t *testing.T) {
	l := newLarge(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	beating := make(chan struct{})
	go func() { defer close(beating); l.beat(ctx) }()
	defer func() { stop(); <-beating }()
	master, slave, err := openTerminal(120)
	l.must(err)
	defer master.Close()
	cmd := l.command(ctx, "ps", "--watch")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	l.must(cmd.Start())
	l.must(slave.Close())
	frames := framesOf(master)
	if first := <-frames; !strings.Contains(first, "ABC-1") {
		t.Fatalf("the first frame is %q", first)
	}
	before, start, seen := cpuOf(t, cmd.Process.Pid), time.Now(), map[string]bool{}
	for time.Since(start) < watched {
		select {
		case frame := <-frames:
			seen[frame] = true
		case <-time.After(bound):
			t.Fatal("no frame any more")
		}
	}
	share := float64(cpuOf(t, cmd.Process.Pid)-before) / float64(time.Since(start))
	l.must(cmd.Process.Signal(syscall.SIGTERM))
	l.must(cmd.Wait())
	t.Logf("%d frames, %.2f %% of a processor", len(seen), 100*share)
	if len(seen) < 3 {
		t.Errorf("only %d different frames in %s", len(seen), watched)
	}
	if share > 0.03 && !raceDetector() {
		t.Errorf("it takes %.1f %% of a processor", 100*share)
	}
}

// framesOf cuts what a terminal is told into frames.
func framesOf(master *os.File) <-chan string {
	frames := make(chan string, 64)
	go func() {
		defer close(frames)
		var rest string
		buffer := make([]byte, 64<<10)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			rest += string(buffer[:n])
			for {
				at := strings.LastIndex(rest, "\x1b[H")
				next := strings.Index(rest[max(at, 0):], "running, ")
				if at < 0 || next < 0 {
					break
				}
				frames <- rest[at:]
				rest = ""
			}
		}
	}()
	return frames
}

// cpuOf is what a process has used until now, in ticks of 10 ms.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var user, system int64
	fields := strings.Fields(string(data[strings.LastIndex(string(data), ")")+1:]))
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
