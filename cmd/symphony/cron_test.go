//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestCron shows the README's line on Debian's cron, with its bare environment: the key comes from the environment
// file, a worker outlives cron, and where the key is missing the error says where it belongs.
func TestCron(t *testing.T) {
	t.Parallel()
	m := bootCron(t, cronUID)
	m.project("no-key")
	m.own()
	m.key()
	missing := m.envFile("no-key")
	m.add("ABC-1", "gate-1")

	line := strings.TrimSpace(between(t, document(t, "docs/scheduling.md"), "```crontab\n", "```"))
	crontab := fmt.Sprintf("%s >> $HOME/cron.log 2>&1\n%s >> $HOME/no-key.log 2>&1; echo exit $? >> $HOME/no-key.log\n* * * * *  env > $HOME/env.log\n",
		line, strings.ReplaceAll(line, "web-shop", "no-key"))
	m.must(os.WriteFile(filepath.Join(m.home, "crontab"), []byte(crontab), 0o600))
	m.mustSh(fmt.Sprintf("install -m 600 -o %d -g %[1]d %s/crontab /var/spool/cron/crontabs/symtester", m.uid, userHome))
	m.startCron()

	w := m.atWork("ABC-1", "gate-1", cronWait)
	v, _ := m.ps()
	if v.LastPass.Trigger != "cron" || len(v.LastPass.Errors) > 0 {
		t.Errorf("the pass: %+v", *v.LastPass)
	}
	m.mustSh("kill $(pgrep -x cron)")
	m.until("cron has ended", 10*time.Second, func() (bool, string) {
		said, code := m.sh("pgrep -a -x cron")
		return code != 0, said
	})
	m.lives(w, "cron's end")
	m.open("gate-1")
	m.handedOver("ABC-1", 20*time.Second)
	m.calm()
	if v, _ = m.ps(); len(v.outcomes("ABC-1")) != 1 || v.outcomes("ABC-1")[0] != "succeeded" {
		t.Errorf("runs of ABC-1: %q, want one that succeeded\n%s", v.outcomes("ABC-1"), m.story())
	}
	if said := m.file("cron.log"); said != "" {
		t.Errorf("cron would have mailed:\n%s", said)
	}
	m.until("the pass without a key is over", 10*time.Second, func() (bool, string) {
		said := m.file("no-key.log")
		return strings.Contains(said, "exit "), said
	})
	said := m.file("no-key.log")
	if !strings.HasPrefix(said, "symphony: missing_tracker_api_key: ") || !strings.Contains(said, missing) || !strings.HasSuffix(said, "\nexit 3\n") {
		t.Errorf("without a key, want missing_tracker_api_key, %s and exit 3:\n%s", missing, said)
	}
	if env := m.file("env.log"); strings.Contains(env, "LINEAR") || strings.Contains(env, "XDG_") || !strings.Contains(env, "HOME="+userHome+"\n") {
		t.Errorf("this was no bare environment:\n%s", env)
	}
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
