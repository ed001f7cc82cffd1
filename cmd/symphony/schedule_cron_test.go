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

// TestScheduleCron: Debian's crontab accepts the line that install writes and its cron runs it, for a path with characters that
// are special to cron and to a shell. The other lines of the crontab stay byte for byte. The documented line runs beside it for
// a project without a key and reports the missing key; a worker outlives cron.
func TestScheduleCron(t *testing.T) {
	t.Parallel()
	m := bootCron(t, scheduleCronUID)
	const dir = `web ${HOME} "shop" 50%d it's`
	m.must(os.Rename(filepath.Join(m.home, "web-shop"), filepath.Join(m.home, dir)))
	m.must(os.Symlink(dir, filepath.Join(m.home, "web-shop"))) // for what the machine asks itself
	m.project("no-key")
	m.own()
	m.key()
	const workflow = `"` + `web \${HOME} \"shop\" 50%d it's` + `/WORKFLOW.md"`

	// A user without a crontab has none afterwards.
	m.wants(m.schedule(m.as, 0, "install --cron -w "+workflow), "added to your crontab: * * * * * /run/symtester/bin/symphony tick", "warning: no cron runs on this machine")
	m.wants(m.schedule(m.as, 0, "remove -w "+workflow), "removed from your crontab: ")
	if said := m.mustSh("ls -A /var/spool/cron/crontabs"); said != "" {
		t.Errorf("left in the spool: %s", said)
	}

	line := strings.TrimSpace(between(t, document(t, "docs/scheduling.md"), "```crontab\n", "```"))
	theirs := "# m h dom mon dow command\nMAILTO=\"\"\n\n@yearly\techo 100\\% \t \n* * * * *  env > $HOME/env.log # mine\n" +
		strings.ReplaceAll(line, "web-shop", "no-key") + " >> $HOME/no-key.log 2>&1; echo exit $? >> $HOME/no-key.log\n"
	m.must(os.WriteFile(filepath.Join(m.home, "crontab"), []byte(theirs), 0o644))
	m.mustSh(m.as("crontab crontab"))
	m.add("ABC-1", "gate-1")
	m.schedule(m.as, 0, "install --cron -w "+workflow)
	m.wants(m.schedule(m.as, 0, "install --cron -w "+workflow), "stands in your crontab already: ")
	if got := m.mustSh(m.as("crontab -l | head -c " + fmt.Sprint(len(theirs)) + " | cmp - crontab && crontab -l | wc -l")); got != "7" {
		t.Errorf("the crontab is not the old one with our line: %s", got)
	}
	m.startCron()
	w := m.atWork("ABC-1", "gate-1", cronWait)
	st := m.scheduleStatus(workflow)
	if !st.Alive || st.LastPass.Trigger != "cron" || len(st.LastPass.Errors) > 0 || st.Cron == nil || st.Cron.Daemon == nil || !*st.Cron.Daemon || len(st.Problems) > 0 {
		t.Errorf("status: %+v", st)
	}
	if env := m.file("env.log"); !strings.Contains(env, "HOME="+userHome+"\n") || strings.Contains(env, "XDG_") {
		t.Errorf("this was no environment of cron's:\n%s", env)
	}
	m.wants(m.schedule(m.as, 0, "remove -w "+workflow), "removed from your crontab: ", "running workers go on")
	m.mustSh(m.as("crontab -l | cmp - crontab"))
	m.until("the pass without a key is over", 10*time.Second, func() (bool, string) {
		said := m.file("no-key.log")
		return strings.Contains(said, "exit 3\n"), said
	})
	m.wants(m.file("no-key.log"), "symphony: missing_tracker_api_key: ", m.envFile("no-key"))
	m.mustSh("kill $(pgrep -x cron)")
	m.lives(w, "the schedule's removal and cron's end")
	m.open("gate-1")
	m.handedOver("ABC-1", 20*time.Second)
	m.calm()
}

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
