//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// cronWait is until cron's next minute, and the pass.
const cronWait = 80 * time.Second

// bootCron starts a machine where the crontabs, and cron's pid file, are its own.
func bootCron(t *testing.T, uid int) *machine {
	t.Helper()
	if _, err := exec.LookPath("cron"); err != nil {
		t.Skip("there is no cron here; its test is skipped")
	}
	if os.Geteuid() != 0 || !canMount() {
		t.Skip("only root can give cron a spool of its own; its test is skipped")
	}
	if version, err := exec.Command("dpkg-query", "-W", "cron").CombinedOutput(); err != nil {
		t.Skipf("this cron is not Debian's package: %s", version)
	}
	m := bootMachine(t, uid, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", `set -e
		mount -t tmpfs -o mode=755 tmpfs /run
		mount -t tmpfs -o mode=755 tmpfs /etc/cron.d
		mount -t tmpfs -o mode=755 tmpfs /var/spool/cron
		mkdir -m 1730 /var/spool/cron/crontabs
		chgrp crontab /var/spool/cron/crontabs
		: > /run/crontab; mount --bind /run/crontab /etc/crontab
		exec "$@"`, "machine")
	return m
}

// startCron starts Debian's.
func (m *machine) startCron() {
	m.t.Helper()
	// Without setsid it would end with the command that starts it.
	m.mustSh("setsid -f cron -f >/run/cron.out 2>&1; for i in $(seq 100); do pgrep -x cron && exit; sleep 0.05; done; exit 1")
}

// file reads a file of the user; empty if there is none.
func (m *machine) file(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.home, name))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(data)
}
