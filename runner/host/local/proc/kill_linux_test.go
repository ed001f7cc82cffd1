package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["hydra"] = hydra
	helpers["kill as nobody"] = killAsNobody
}

// hydra starts another of its kind as soon as it gets SIGTERM, and ends: as many generations as it has arguments.
func hydra(args []string) int {
	term := make(chan os.Signal, 1)
	notify(term, syscall.SIGTERM)
	sayUp()
	<-term
	if len(args) > 0 {
		cmd := exec.Command(os.Args[0], append([]string{helperArg, "hydra"}, args[1:]...)...)
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			say("error", err)
			return 1
		}
	}
	return 0
}

// descriptors counts what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}

func TestKillTree(t *testing.T) {
	id := mark(t)
	env := []string{RunMark + "=" + id}
	polite := start(t, env, "idle")
	deaf := start(t, env, "idle", "deaf")
	chain := start(t, env, "spawn", "setsid,clear", "idle", "deaf")
	p, d, top, bottom := polite.up(), deaf.up(), chain.up(), chain.up()
	stopped := start(t, env, "idle")
	s := stopped.up()
	must(t, Signal(s, unix.SIGSTOP))
	bystander := start(t, nil, "idle").up()
	before := descriptors(t)

	left, err := KillTree(t.Context(), Owner{RunID: id}, 500*time.Millisecond)
	if len(left) != 0 || err != nil {
		t.Fatalf("left %v, %v", left, err)
	}
	for _, q := range []reconcile.Process{p, d, top, bottom, s} {
		if living(q) {
			t.Errorf("%d lives", q.PID)
		}
	}
	if !living(bystander) {
		t.Error("the bystander was killed")
	}
	for h, want := range map[*helper]string{polite: "signal: terminated", stopped: "signal: terminated", deaf: "signal: killed"} {
		if err := h.cmd.Wait(); err == nil || err.Error() != want {
			t.Errorf("ended with %v, want %s", err, want)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestKillTreeFollowsNewProcesses(t *testing.T) {
	id := mark(t)
	h := start(t, []string{RunMark + "=" + id}, "hydra", "1", "2", "3")
	h.up()
	left, err := KillTree(t.Context(), Owner{RunID: id}, time.Second)
	if len(left) != 0 || err != nil {
		t.Fatalf("left %v, %v", left, err)
	}
	if got := find(t, Owner{RunID: id}); len(got) != 0 {
		t.Fatalf("afterwards there are %v", got)
	}
}

func TestKillTreeNamesWhatIsLeftWhenTimeIsUp(t *testing.T) {
	id := mark(t)
	p := start(t, []string{RunMark + "=" + id}, "idle", "deaf").up()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left, err := KillTree(ctx, Owner{RunID: id}, time.Hour)
	if !errors.Is(err, context.Canceled) || len(left) != 1 || left[0].PID != p.PID || left[0].Name == "" {
		t.Fatalf("left %+v, %v", left, err)
	}
	// Grace leaves half of the time to SIGKILL.
	ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	left, err = KillTree(ctx, Owner{RunID: id}, time.Hour)
	if len(left) != 0 || err != nil {
		t.Fatalf("left %+v, %v", left, err)
	}
}

func TestKillTreeNamesWhatItMayNotSignal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user's")
	}
	p := start(t, nil, "idle").up()
	h := start(t, nil, "kill as nobody", itoa(p.PID), strconv.FormatUint(p.Start, 10))
	if got := h.line("left"); got != itoa(p.PID)+" <nil>" {
		t.Errorf("left %s, want %d", got, p.PID)
	}
	if !living(p) {
		t.Error("it was killed after all")
	}
}

// killAsNobody becomes the user nobody and tries to end a recorded process of root.
func killAsNobody(args []string) int {
	if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
		say("error", err)
		return 1
	}
	var p reconcile.Process
	if _, err := fmt.Sscan(strings.Join(args, " "), &p.PID, &p.Start); err != nil {
		say("error", err)
		return 1
	}
	boot, err := BootID()
	if err != nil {
		say("error", err)
		return 1
	}
	left, err := KillTree(context.Background(), Owner{RunID: "of-nobody", Recorded: []reconcile.Process{p}, Boot: boot}, time.Hour)
	for _, q := range left {
		say("left", q.PID, err)
	}
	return 0
}

// noGoroutines waits until no goroutine of this package is left but the tests'.
func noGoroutines(t *testing.T) {
	t.Helper()
	eventually(t, "the goroutines to end", func() bool {
		buf := make([]byte, 1<<20)
		all := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(all, "proc.watchExit.func") && !strings.Contains(all, "(*Detached).reap")
	})
}
