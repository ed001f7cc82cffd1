//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain runs the test's program as the gate where its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == gateCommand {
		if err := gate(os.Args[2], os.Args[3:]); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// The gate records the processes that are still in the workspace, none of another workspace, and none that have ended.
func TestGate(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "gate")
	for _, path := range []string{dir, filepath.Join(root, "A"), filepath.Join(root, "B")} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(workspace string, argv ...string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command(os.Args[0], append([]string{gateCommand, dir}, argv...)...)
		cmd.Dir, cmd.Stderr = filepath.Join(root, workspace), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first := begin("A", "/bin/sleep", "60")
	t.Cleanup(func() { _, _ = first.Process.Kill(), first.Wait() })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if list, err := journal(dir); err == nil && len(list) == 1 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the first did not pass: %v, %v", list, err)
		}
	}
	for _, workspace := range []string{"A", "B"} {
		if err := begin(workspace, "/bin/true").Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	if err := begin("A", "/bin/true").Wait(); err != nil {
		t.Fatal(err)
	}
	list, err := journal(dir)
	if err != nil || len(list) != 4 {
		t.Fatalf("journal: %+v, %v", list, err)
	}
	if met := list[1].Met; len(met) != 1 || !strings.HasPrefix(met[0], strconv.Itoa(first.Process.Pid)+" ") {
		t.Errorf("the second in the workspace met %q, want process %d", met, first.Process.Pid)
	}
	for _, n := range []int{0, 2, 3} {
		if len(list[n].Met) > 0 {
			t.Errorf("entry %d met %q", n, list[n].Met)
		}
	}
}
