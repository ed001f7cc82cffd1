package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["adopt"] = adopt
}

// adopt is a worker in small: it adopts what others leave and reaps it, while its own children end unnoticed for a
// while, each in its own way.
func adopt(args []string) int {
	if err := adoptAll(len(args) > 0); err != nil {
		say("error", err)
		return 1
	}
	say("fine")
	return 0
}

func adoptAll(hide bool) error {
	if err := BecomeSubreaper(); err != nil {
		return err
	}
	if hide {
		if err := NonDumpable(); err != nil {
			return err
		}
	}
	r, err := NewReaper()
	if err != nil {
		return err
	}
	own := exec.Command("sh", "-c", "exit 7")
	if err := own.Start(); err != nil {
		return err
	}
	child, err := Exec{Argv: []string{"sh", "-c", "exit 9"}}.Start()
	if err != nil {
		return err
	}
	if err := waitDead(own.Process.Pid, child.Process().PID); err != nil {
		return err
	}
	if n, err := r.Reap(); n != 0 || err != nil {
		return fmt.Errorf("reaped %d children that are waited for: %w", n, err)
	}
	if err := adoptOrphans(r, 3); err != nil {
		return err
	}
	var status *exec.ExitError
	if err := own.Wait(); !errors.As(err, &status) || status.ExitCode() != 7 {
		return fmt.Errorf("the child of os/exec: %w", err)
	}
	state, err := child.Close()
	if err != nil || state.ExitCode() != 9 {
		return fmt.Errorf("the started child: %v, %w", state, err)
	}
	return nil
}

// adoptOrphans makes n processes that their parent leaves, lets them end, and waits until they have been reaped.
func adoptOrphans(r *Reaper, n int) error {
	for range n {
		// The shell in the middle ends at once; the orphan ends when its stdin does.
		cmd := exec.Command("sh", "-c", "cat >/dev/null & exec true")
		cmd.Stdin = nil
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	failed := make(chan error, 1)
	go r.Run(ctx, 2*time.Millisecond, func(err error) { failed <- err })
	for ctx.Err() == nil {
		below, err := zombiesAndLiving()
		if err != nil || below == 2 { // the two that are waited for
			return err
		}
		select {
		case err := <-failed:
			return err
		case <-time.After(time.Millisecond):
		}
	}
	return ctx.Err()
}

// zombiesAndLiving counts the children of this process, dead or alive.
func zombiesAndLiving() (int, error) {
	entries, err := scanAll()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		if e.ppid == os.Getpid() {
			n++
		}
	}
	return n, nil
}

func waitDead(pids ...int) error {
	for _, pid := range pids {
		for end := time.Now().Add(bound); ; {
			e, err := statOf(pid)
			if err != nil || e.dead {
				if err != nil {
					return fmt.Errorf("%d was reaped by a stranger: %w", pid, err)
				}
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%d does not end", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func TestReaperTakesOrphansOnly(t *testing.T) {
	for _, hide := range [][]string{nil, {"hide"}} {
		h := start(t, nil, append([]string{"adopt"}, hide...)...)
		h.line("fine")
		must(t, h.cmd.Wait())
	}
}

func TestReaperLeavesBusyOwnersAlone(t *testing.T) {
	r, err := NewReaper()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if n, err := r.Reap(); n != 0 || err != nil {
				t.Errorf("reaped %d of ours, %v", n, err)
			}
		}
	}()
	for i := range 60 {
		cmd := exec.Command("sh", "-c", "exit 3")
		if i%2 == 0 { // its owner comes to it late
			must(t, cmd.Start())
			must(t, waitDead(cmd.Process.Pid))
		} else {
			must(t, cmd.Start())
		}
		var status *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &status) || status.ExitCode() != 3 {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	cancel()
	<-done
}

func TestReaperTakesWhatItsOwnerGaveUp(t *testing.T) {
	r, err := NewReaper()
	must(t, err)
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	must(t, err)
	pid := p.Pid
	must(t, waitDead(pid))
	if n, err := r.Reap(); n != 0 || err != nil {
		t.Fatalf("reaped %d, %v, while its owner holds it", n, err)
	}
	must(t, p.Release())
	eventually(t, "the zombie to be reaped", func() bool {
		_, err := r.Reap()
		must(t, err)
		_, err = statOf(pid)
		return errors.Is(err, os.ErrProcessDone)
	})
}

func TestDoubleForkedDaemonIsBelowTheSubreaper(t *testing.T) {
	h := start(t, nil, "subreap")
	top := h.up()
	h.up() // the one in the middle, which ends
	daemon := h.up()
	eventually(t, "the daemon to be adopted", func() bool {
		e, err := statOf(daemon.PID)
		must(t, err)
		return e.ppid == top.PID
	})
	eventually(t, "the daemon alone below the subreaper", func() bool { // the one in the middle is a moment in ending
		got := find(t, Owner{Roots: []reconcile.Process{top}, Boot: boot(t)})
		return len(got) == 1 && got[daemon.PID]
	})
}

func init() {
	helpers["subreap"] = func([]string) int {
		if err := BecomeSubreaper(); err != nil {
			say("error", err)
			return 1
		}
		sayUp()
		cmd := exec.Command(os.Args[0], helperArg, "spawn", "setsid,clear,exit", "idle")
		cmd.Stdout = os.Stdout
		if err := cmd.Run(); err != nil {
			say("error", err)
			return 1
		}
		select {}
	}
}
