//go:build linux

package main

import (
	"fmt"
	"os"
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
