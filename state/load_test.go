package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

const beats = 50

func init() {
	helpers["worker"] = func(args []string) error { return beatAndFinish(args[0], args[1]) }
	helpers["commit-for-ever"] = func(args []string) error { return commitForEver(args[0]) }
	helpers["birth-for-ever"] = func(args []string) error {
		for i := 0; ; i++ {
			fmt.Println(i)
			if err := createLocked(filepath.Join(args[0], strconv.Itoa(i))); err != nil {
				return err
			}
		}
	}
}

// beatAndFinish is what a worker does to the database, without its pauses.
func beatAndFinish(dir, id string) error {
	ctx := context.Background()
	db, err := Open(ctx, dir)
	if err != nil {
		return err
	}
	run, err := db.TakeRun(ctx, id, reconcile.Handle{Boot: "b", PID: os.Getpid()}, epoch)
	if err != nil {
		return err
	}
	for i := range int64(beats) {
		run.Beats++
		if i%10 == 0 {
			fmt.Println(i)
			run.Phase, run.Turns = reconcile.StreamingTurn, run.Turns+1
		}
		run.Tokens = reconcile.Tokens{Input: i + 1, Output: i + 1, Total: 2 * (i + 1)}
		if err := db.SaveThread(ctx, id, run.IssueID, "thread-"+id, "ws", run.Tokens, epoch); err != nil {
			return err
		}
		if _, err := db.UpdateRun(ctx, epoch, run); err != nil {
			return err
		}
	}
	run.Phase, run.Outcome = reconcile.Finishing, reconcile.Succeeded
	return errors.Join(db.Finish(ctx, epoch, run), db.Close())
}

func TestTwentyWorkersPassesAndReaders(t *testing.T) {
	const workers = 20
	ctx := context.Background()
	dir := newDir(t)
	db := createIn(t, dir)
	told := make(chan string, workers)
	ended := make(chan error, workers)
	for i := range workers {
		claim(t, db, i)
		id := insertedRun(t, db, i).ID
		cmd, lines, _ := startHelper(t, "worker", dir, id)
		go func() {
			for lines.Scan() {
				told <- lines.Text()
			}
			ended <- cmd.Wait()
		}()
	}
	// A pass for every few beats: closer together than any schedule, but not one that never lets go.
	for left, n := workers, 0; left > 0; {
		select {
		case err := <-ended:
			check(t, err)
			left--
		case <-told:
			if n++; n%5 == 0 {
				check(t, passAndRead(ctx, dir))
			}
		}
	}
	check(t, passAndRead(ctx, dir))
	sum := int64(workers * beats)
	got, err := db.Totals(ctx)
	check(t, err)
	if got.Tokens != (reconcile.Tokens{Input: sum, Output: sum, Total: 2 * sum}) {
		t.Errorf("totals are %+v", got)
	}
}

// passAndRead settles what has ended, touches every claim, records itself, and reads it all once more.
func passAndRead(ctx context.Context, dir string) error {
	db, err := Create(ctx, dir, epoch)
	if err != nil {
		return err
	}
	rec, err := db.State(ctx)
	if err != nil {
		return err
	}
	for _, r := range rec.Runs {
		if r.Outcome == "" {
			continue
		}
		if err := db.Commit(ctx, epoch, reconcile.Change{Settle: r.ID}); err != nil {
			return err
		}
	}
	for _, c := range rec.Claims {
		c.Attempt++
		if err := db.Commit(ctx, epoch, reconcile.Change{Claim: &c}); err != nil {
			return err
		}
	}
	if _, err := db.SavePass(ctx, Pass{Trigger: "loop", StartedAt: epoch}); err != nil {
		return err
	}
	ro, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return err
	}
	_, err = ro.State(ctx)
	return errors.Join(err, ro.Close(), db.Close())
}

// commitForEver says each version of its claim after it is committed.
func commitForEver(dir string) error {
	ctx := context.Background()
	db, err := Open(ctx, dir)
	if err != nil {
		return err
	}
	for {
		c, ok, err := db.ClaimByIssue(ctx, issueOf(1).ID)
		if err != nil || !ok {
			return errors.Join(err, errors.New("no claim"))
		}
		c.Attempt = int(c.Version)
		if err := db.Commit(ctx, epoch, reconcile.Change{Claim: &c, AgentBlock: &reconcile.Block{
			Code:    "network",
			Message: strconv.FormatInt(c.Version, 10),
		}}); err != nil {
			return err
		}
		fmt.Println(c.Version + 1)
	}
}

func TestKilledInTheMiddleOfWrites(t *testing.T) {
	ctx := context.Background()
	dir := newDir(t)
	db, err := Create(ctx, dir, epoch)
	check(t, err)
	claim(t, db, 1)
	check(t, db.Close())
	for range 10 {
		cmd, lines, _ := startHelper(t, "commit-for-ever", dir)
		last := 0
		for range 5 + rand.IntN(200) {
			if !lines.Scan() {
				t.Fatal("the writer ended by itself")
			}
			last, err = strconv.Atoi(lines.Text())
			check(t, err)
		}
		check(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended by itself")
		}
		wantWhole(t, dir, last)
	}
}

// wantWhole opens a database after a crash: sound, not older than the last version that was told, and every change
// whole.
func wantWhole(t *testing.T, dir string, last int) {
	t.Helper()
	db, err := Create(context.Background(), dir, epoch)
	check(t, err)
	defer func() { check(t, db.Close()) }()
	var sound string
	check(t, db.sql.QueryRow(`PRAGMA integrity_check`).Scan(&sound))
	if sound != "ok" {
		t.Fatalf("integrity check: %s", sound)
	}
	rec, err := db.State(context.Background())
	check(t, err)
	c := rec.Claims[0]
	if c.Version < int64(last) {
		t.Errorf("version %d is left of %d", c.Version, last)
	}
	if int64(c.Attempt) != c.Version-1 || rec.AgentBlock.Message != strconv.Itoa(c.Attempt) {
		t.Errorf("half a change is left: version %d, attempt %d, block %v", c.Version, c.Attempt, rec.AgentBlock)
	}
}

func TestKilledInTheMiddleOfBirths(t *testing.T) {
	for range 5 {
		root := t.TempDir()
		cmd, lines, _ := startHelper(t, "birth-for-ever", root)
		last := 0
		for range 1 + rand.IntN(10) {
			if !lines.Scan() {
				t.Fatal("the helper ended by itself")
			}
			var err error
			last, err = strconv.Atoi(lines.Text())
			check(t, err)
		}
		// The helper is in the middle of it: where exactly, chance decides.
		for range rand.IntN(2000) {
			_, _ = os.Stat(root)
		}
		check(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Fatal("the helper ended by itself")
		}
		check(t, createLocked(filepath.Join(root, strconv.Itoa(last))))
		for i := range last {
			wantCounts(t, filepath.Join(root, strconv.Itoa(i)), 1, 0)
		}
	}
}
