package state

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// TestWriterInACrowd: SQLite does not queue its writers. One that takes the database again as soon as it has given it
// back leaves others hardly a moment, and they must get their turn all the same.
func TestWriterInACrowd(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	run := startedRun(t, db, 1)
	// So that this does not take the five seconds that it really would.
	_, err := db.sql.ExecContext(context.Background(), `PRAGMA busy_timeout = 600`)
	check(t, err)

	until := time.Now().Add(2 * time.Second)
	over := crowded(t, dir, func() bool { return time.Now().After(until) })
	run.Beats++
	_, err = db.UpdateRun(context.Background(), epoch, run)
	check(t, errors.Join(err, <-over))
}

// crowded lets another connection write until over, and returns when it has begun.
func crowded(t *testing.T, dir string, over func() bool) <-chan error {
	t.Helper()
	hog, err := openPool(filepath.Join(dir, databaseName), "rw", "")
	check(t, err)
	t.Cleanup(func() { check(t, hog.Close()) })
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- hogUntil(hog, over, began) }()
	select {
	case <-began:
	case err := <-ended:
		t.Fatalf("the other writer: %v", err)
	}
	return ended
}

// hogUntil writes in one transaction after the other.
func hogUntil(hog *sql.DB, over func() bool, began chan<- struct{}) error {
	for n := 0; !over(); n++ {
		tx, err := hog.BeginTx(context.Background(), nil)
		if err == nil {
			_, err = tx.ExecContext(context.Background(), `UPDATE meta SET value = ? WHERE key = 'totals_input'`, strconv.Itoa(n))
			if n == 0 {
				close(began)
			}
			time.Sleep(30 * time.Millisecond) // the length of its turn
			err = errors.Join(err, tx.Commit())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDatabaseThatIsHeld: where nobody writes, waiting for a turn is senseless, and the holder is to be looked for.
func TestDatabaseThatIsHeld(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	run := startedRun(t, db, 1)
	_, err := db.sql.ExecContext(context.Background(), `PRAGMA busy_timeout = 100`)
	check(t, err)
	holder, err := openPool(filepath.Join(dir, databaseName), "rw", "")
	check(t, err)
	defer holder.Close()
	tx, err := holder.BeginTx(context.Background(), nil)
	check(t, err)
	start := time.Now()
	_, err = db.UpdateRun(context.Background(), epoch, run)
	wantCode(t, err, "state_busy")
	if took := time.Since(start); took > turnTimeout/2 {
		t.Errorf("it took %v to say so", took)
	}
	check(t, tx.Rollback())
	_, err = db.UpdateRun(context.Background(), epoch, run)
	check(t, err)
}

// The heartbeats of this test come as often as those of workers, because the time that SQLite waits is the real one.
const (
	beatPeriod = 5 * time.Second
	beatCount  = 3
)

// TestTwentyWorkers lets twenty processes beat while passes and readers come and go: nobody is told that the database
// is busy, and no heartbeat is later than twice its period.
func TestTwentyWorkers(t *testing.T) {
	t.Parallel() // most of it is waiting
	dir := newDir(t)
	db := createIn(t, dir)
	var beaters, others []*crowdMember
	for i := range 20 {
		insertedRun(t, db, i)
		beaters = append(beaters, joinCrowd(t, "beater", dir, runID(i)))
	}
	for range 2 {
		others = append(others, joinCrowd(t, "passer", dir), joinCrowd(t, "reader", dir))
	}
	for _, m := range beaters {
		r := m.result(t)
		if r.Times != beatCount || r.Longest > 2*beatPeriod {
			t.Errorf("%s: %d heartbeats, the longest gap %v", m.name, r.Times, r.Longest)
		}
	}
	came := 0 // all together, for on a loaded machine one may wait while the others come
	for _, m := range others {
		m.end()
		came += m.result(t).Times
	}
	if came < 10*len(others) {
		t.Errorf("passes and readers came only %d times: nobody was in the way", came)
	}
	for i := range 20 {
		if run := mustRun(t, db, runID(i)); run.Beats != beatCount {
			t.Errorf("%s has %d heartbeats stored", run.ID, run.Beats)
		}
	}
}

// attended is what a member of the crowd reports at its end.
type attended struct {
	Times   int
	Longest time.Duration // between two heartbeats
	Failed  string
}

type crowdMember struct {
	name  string
	lines *bufio.Scanner
	end   func()
	wait  func() error
}

func joinCrowd(t *testing.T, name string, args ...string) *crowdMember {
	t.Helper()
	cmd, lines, end := startHelper(t, name, args...)
	return &crowdMember{fmt.Sprint(name, args[1:]), lines, end, cmd.Wait}
}

func (m *crowdMember) result(t *testing.T) (r attended) {
	t.Helper()
	if !m.lines.Scan() {
		t.Fatalf("%s says nothing: %v", m.name, m.wait())
	}
	check(t, json.Unmarshal(m.lines.Bytes(), &r))
	check(t, m.wait())
	if r.Failed != "" {
		t.Errorf("%s: %s", m.name, r.Failed)
	}
	return r
}

func init() {
	helpers["beater"] = func(args []string) error { return report(beatOn(args[0], args[1])) }
	helpers["passer"] = func(args []string) error { return report(untilEnd(func() error { return passOnce(args[0]) })) }
	helpers["reader"] = func(args []string) error { return report(untilEnd(func() error { return readOnce(args[0]) })) }
}

func report(r attended, err error) error {
	if err != nil {
		r.Failed = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func beatOn(dir, id string) (r attended, err error) {
	ctx := context.Background()
	db, err := Open(ctx, dir)
	if err != nil {
		return r, err
	}
	defer db.Close()
	run, err := db.TakeRun(ctx, id, worker, time.Now())
	if err != nil {
		return r, err
	}
	last := time.Now()
	ticker := time.NewTicker(beatPeriod)
	defer ticker.Stop()
	for r.Times < beatCount {
		run.Beats++
		if _, err := db.UpdateRun(ctx, time.Now(), run); err != nil {
			return r, err
		}
		r.Longest = max(r.Longest, time.Since(last))
		last = time.Now()
		if r.Times++; r.Times < beatCount {
			<-ticker.C
		}
	}
	return r, nil
}

// untilEnd does it over and over until the test closes this process's input.
func untilEnd(once func() error) (r attended, err error) {
	over := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(over) }()
	pace := time.NewTicker(20 * time.Millisecond) // of a test machine with other things to do
	defer pace.Stop()
	for {
		if err := once(); err != nil {
			return r, err
		}
		r.Times++
		select {
		case <-over:
			return r, nil
		case <-pace.C:
		}
	}
}

// passOnce does to the database what a pass does.
func passOnce(dir string) error {
	ctx, now := context.Background(), time.Now()
	release, held, err := Acquire(ctx, dir, Holder{Trigger: "timer", Since: now}, 20*time.Second)
	if err != nil || held != nil {
		return err
	}
	db, err := Create(ctx, dir, now)
	if err != nil {
		return errors.Join(err, release())
	}
	rec, err := db.State(ctx)
	for _, run := range rec.Runs {
		err = errors.Join(err, db.RecordHeartbeat(ctx, run.ID, run.Beats, reconcile.Instant{Boot: "boot", Mono: time.Hour}))
	}
	_, passErr := db.SavePass(ctx, Pass{Trigger: "timer", StartedAt: now, Actions: 1})
	return errors.Join(err, passErr, db.Close(), release())
}

// readOnce does what ps does.
func readOnce(dir string) error {
	ctx := context.Background()
	db, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return err
	}
	_, err = db.State(ctx)
	_, totalsErr := db.Totals(ctx)
	_, _, passErr := db.LastPass(ctx)
	return errors.Join(err, totalsErr, passErr, db.Close())
}
