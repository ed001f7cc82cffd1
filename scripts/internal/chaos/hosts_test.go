//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// With -hosts agents work on two hosts behind a real ssh server on this machine, with a home
// each, and links to them are cut.

// hostKeys are the keys of the workflow. A host ends a run that has heard nothing for
// lost_after_ms.
const hostKeys = "\nworker:\n  ssh_hosts: [near, far]\n  root: ~/spaces\n  lost_after_ms: 20000"

// prepareHosts makes the hosts.
func (s *scene) prepareHosts(ctx context.Context) {
	cmd := exec.CommandContext(ctx, "sh", "-e", stage.Get(filepath.Abs("testdata/made/hosts.sh")))
	cmd.Dir = s.Dir
	cmd.Env = append(slices.Clone(s.Env), "WORK="+s.Dir, "SYMPHONY_TEST_MARK=")
	if text, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Errorf("hosts: %w: %s", err, text))
	}
	for _, host := range []string{"near", "far"} {
		path := filepath.Join(s.Dir, "hosts", "server-"+host)
		text := strings.Replace(
			string(stage.Get(os.ReadFile(path))),
			" HOST_NAME=",
			" "+s.mark+" HOST_NAME=",
			1,
		)
		stage.Must(os.WriteFile(path, []byte(text), 0o600))
	}
	s.Env[0] = "PATH=" + filepath.Join(s.Dir, "bin") + ":" + os.Getenv("PATH")
}

// spaces lists the roots of workspaces.
func (s *scene) spaces() []string {
	if !*hosts {
		return []string{filepath.Join(s.Dir, "workspaces")}
	}
	return []string{
		filepath.Join(s.Dir, "hosts", "near", "spaces"),
		filepath.Join(s.Dir, "hosts", "far", "spaces"),
	}
}

// mirrors lists the mirrors of the remote repository.
func (s *scene) mirrors() (list []string) {
	dirs := []string{filepath.Join(s.StateDir, "mirrors")}
	for _, root := range s.spaces() {
		dirs = append(dirs, filepath.Join(root, ".symphony", "mirrors"))
	}
	for _, dir := range dirs {
		list = append(list, stage.Get(filepath.Glob(filepath.Join(dir, "*.git")))...)
	}
	return list
}

// cutter cuts links. Some are cut without a word: their ssh is stopped. Sometimes a host is
// unreachable for a while.
func (c *checker) cutter(ctx context.Context) error {
	random := c.random("cutter")
	defer c.connect()
	for pause(ctx, time.Duration(20+random.IntN(250))*time.Millisecond) {
		if lull() {
			continue // otherwise chance alone keeps a link broken for longer than lost_after_ms
		}
		if random.IntN(60) == 0 {
			down := filepath.Join(c.Dir, "hosts", []string{"near.down", "far.down"}[random.IntN(2)])
			if err := os.WriteFile(down, nil, 0o600); err != nil {
				return err
			}
			pause(ctx, time.Duration(random.IntN(8000))*time.Millisecond)
			if err := os.Remove(down); err != nil {
				return err
			}
		}
		list, err := c.processes()
		if err != nil {
			return err
		}
		// Mostly those of workers that the host serves: if ssh dies earlier, nothing begins
		// there, and the host is blocked for a while.
		served := random.IntN(20) > 0
		links := slices.DeleteFunc(list, func(p process) bool {
			return p.kind() != kindLink || served && !strings.Contains(p.Args[len(p.Args)-1], "connect")
		})
		if len(links) == 0 {
			continue
		}
		sig := syscall.SIGKILL
		if random.IntN(20) == 0 {
			sig = syscall.SIGSTOP
		}
		link := links[random.IntN(len(links))]
		frozen := time.Duration(random.IntN(5000)) * time.Millisecond
		if err := c.hit(ctx, link, sig, frozen, &c.frozen); err != nil {
			return fmt.Errorf("cutter: %w", err)
		}
	}
	return nil
}

// connect makes all hosts reachable.
func (c *checker) connect() {
	c.frozen.Wait()
	for _, host := range []string{"near", "far"} {
		if err := os.Remove(filepath.Join(c.Dir, "hosts", host+".down")); !errors.Is(err, os.ErrNotExist) {
			stage.Must(err)
		}
	}
}

// checkLinks checks that no run ended because of its link or its host, unless its worker or
// its daemon was hit, or nothing had begun there.
func (c *checker) checkLinks(ctx context.Context) {
	for _, row := range c.query(ctx, `SELECT id || ' of ' || identifier || ' on ' || host || ': ' || error_code || ' ' || error_text FROM runs
		WHERE error_code LIKE 'host_%' AND error_code NOT IN ('host_unreachable', 'host_unusable')`) {
		if run, _, _ := strings.Cut(row, " "); !c.hitWorkers[run] {
			c.fault("turns lost by a link", "%s", row)
		}
	}
}
