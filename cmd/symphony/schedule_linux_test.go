//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/internal/test"
)

// schedule runs symphony schedule as a user and checks the exit code.
func (m *machine) schedule(as func(string) string, want int, args string) string {
	m.t.Helper()
	said, code := m.sh(as("~/bin/symphony schedule " + args + " 2>&1"))
	if code != want {
		m.t.Fatalf("schedule %s: exit %d, want %d\n%s\n%s", args, code, want, said, m.story())
	}
	return said
}

// wants fails for each text that the output does not contain.
func (m *machine) wants(said string, texts ...string) {
	m.t.Helper()
	test.Contains(m.t, "the output", said, texts...)
}

func (m *machine) scheduleStatus(project string) (out schedule.Status) {
	m.t.Helper()
	// the exit code is 1 without an active schedule
	said, _ := m.sh(m.as("~/bin/symphony schedule status --json -w " + project))
	m.must(json.Unmarshal([]byte(said), &out))
	return out
}

// files lists the files in the directories with the hashes of their contents.
func (m *machine) files(dirs string) string {
	m.t.Helper()
	return m.mustSh(
		"cd /; find " + dirs + ` -printf '%p %y %l\n' | sort; find ` + dirs + ` -type f -exec sha256sum {} + | sort`,
	)
}

// ownPlaces gives the machine its own copy of systemd's folders, which it would otherwise
// share, and a logind.
func (m *machine) ownPlaces() {
	m.t.Helper()
	m.mustSh(`set -e
		for d in /etc/systemd/system /var/lib/systemd/linger /var/lib/systemd/timers; do
			mkdir -p $d /run/own$d; cp -a $d/. /run/own$d; mount --bind /run/own$d $d
		done
		rm -f /run/systemd/system/systemd-logind.service
		systemctl daemon-reload
		systemctl start dbus.socket systemd-logind || { journalctl --no-pager -n 20; exit 1; }`)
}

// lingering turns lingering of the user on or off.
func (m *machine) lingering(on bool) {
	m.t.Helper()
	if on {
		m.mustSh(m.as("loginctl enable-linger symtester"))
		return
	}
	m.mustSh(m.as("loginctl disable-linger symtester"))
	m.until("the user's systemd has ended", func() (bool, string) {
		said, _ := m.sh(
			fmt.Sprintf("systemctl is-active user@%d.service user-runtime-dir@%[1]d.service", m.uid),
		)
		return said == "inactive\ninactive", said
	})
}

// interval sets polling.interval_ms of a project.
func (m *machine) interval(workflow string, ms int) {
	m.t.Helper()
	rest := regexp.MustCompile(`(?m)^polling: .*\n`).ReplaceAllString(m.file(workflow), "")
	m.write(
		workflow,
		strings.Replace(rest, "workspace:\n", fmt.Sprintf("polling: {interval_ms: %d}\nworkspace:\n", ms), 1),
	)
}

// odd is the folder of a project whose path needs every kind of quoting.
const odd = `web ${HOME} "shop" 50%d it's`

// oddWorkflow moves the project to odd, and returns its workflow as a shell reads it.
func (m *machine) oddWorkflow() string {
	m.t.Helper()
	m.must(os.Rename(filepath.Join(m.home, "web-shop"), filepath.Join(m.home, odd)))
	m.must(os.Symlink(odd, filepath.Join(m.home, "web-shop"))) // for the helpers of machine
	m.key()
	return `"` + strings.NewReplacer(`$`, `\$`, `"`, `\"`).Replace(odd) + `/WORKFLOW.md"`
}

// TestScheduleUser takes a user's timer through its life on a real systemd, for a workflow
// whose path needs every kind of quoting: refused until the user lingers, installed, changed,
// inspected, removed without a trace.
func TestScheduleUser(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	m := bootSystemd(t, scheduleUserUID)
	m.ownPlaces()
	workflow := m.oddWorkflow()
	const places = userHome + "/.config /var/lib/systemd/timers"
	before := m.files(places)

	said := m.schedule(m.as, 1, "install -w "+workflow)
	m.wants(said, "symphony: schedule_failed: symtester does not linger", "loginctl enable-linger symtester")
	test.Equal(t, "the files after the refused install", m.files(places), before)
	m.lingering(true) // the manager is still starting when the install asks for it

	m.interval(odd+"/WORKFLOW.md", 1000)
	m.add("ABC-1", "gate-1")
	said = m.schedule(m.as, 0, "install -w "+workflow)
	m.wants(
		said,
		"wrote /run/symtester/.config/systemd/user/symphony-web___HOME___shop__50_d_it_s-",
		".timer runs a pass every 1s",
	)
	w := m.atWork("ABC-1", "gate-1")
	m.inScope(w, m.userManager())
	m.passes(2)
	m.lives(w, "two more passes")
	m.wants(m.schedule(m.as, 0, "install -w "+workflow), ".timer runs a pass every 1s")
	unit := filepath.Base(strings.Fields(m.mustSh("ls " + userHome + "/.config/systemd/user/*.timer"))[0])
	m.mustSh(m.as("systemd-analyze verify --user --man=no .config/systemd/user/" + unit))

	// By default systemd starts a service at most five times in ten seconds.
	m.mustSh(
		m.as(
			"for i in 1 2 3 4 5 6 7; do systemctl --user start " + strings.Replace(
				unit,
				".timer",
				".service",
				1,
			) + " || exit; done",
		),
	)

	// The status.
	var st schedule.Status
	m.until("the next pass is known", func() (bool, string) { // unknown during a pass
		st = m.scheduleStatus(workflow)
		return len(st.Timers) == 1 && st.Timers[0].Next != nil, fmt.Sprintf("%+v", st)
	})
	if !st.Alive || len(st.Problems) > 0 || st.LastPass.Trigger != "timer" {
		t.Fatalf("status: %+v", st)
	}
	timer := st.Timers[0]
	if timer.Unit != unit || !timer.Enabled || !timer.Active || timer.Last == nil ||
		timer.Result != "success" ||
		timer.RunAs != "symtester" ||
		timer.Manager != "user" {
		t.Errorf("status of the timer: %+v", timer)
	}
	m.wants(
		m.schedule(m.as, 0, "status -w "+workflow),
		"schedule\tactive",
		"timer\t"+unit+" (user, as symtester): enabled, active",
	)

	// After a change of the interval install rewrites the timer; this one counts from the end
	// of a pass.
	m.interval(odd+"/WORKFLOW.md", 7500)
	m.wants(
		m.schedule(m.as, 0, "install -w "+workflow),
		"wrote /run/symtester/.config/systemd/user/"+unit,
		"every 7.5s",
	)
	m.wants(m.userctl("show -P TimersMonotonic "+unit), "OnUnitActiveUSec=7.5")

	// A disabled timer is reported, and an install enables it.
	m.userctl("disable --quiet --now " + unit)
	m.wants(
		m.schedule(m.as, 0, "status -w "+workflow),
		unit+" (user, as symtester): not enabled, not active",
		unit+" is not switched on",
	)
	m.wants(m.schedule(m.as, 0, "install -w "+workflow), "runs a pass every 7.5s")

	// The timer is removed without a trace, except for the user's drop-in, although the
	// workflow is invalid and the last pass failed.
	good := m.file(odd + "/WORKFLOW.md")
	m.write(odd+"/WORKFLOW.md", "---\nagent: 1\n---\n")
	m.sh(m.userSystemctl("start " + strings.Replace(unit, ".timer", ".service", 1)))
	// not while the timer's next pass runs
	m.until("the failure is a problem", func() (bool, string) {
		said := m.schedule(m.as, 0, "status -w "+workflow)
		return strings.Contains(
			said,
			"problem\tthe last pass failed (exit-code): journalctl --user -u symphony-web",
		), said
	})
	m.mustSh(m.as("mkdir .config/systemd/user/" + unit + ".d"))
	said = m.schedule(m.as, 0, "remove -w "+workflow)
	m.wants(
		said,
		"removed /run/symtester/.config/systemd/user/"+unit,
		"kept /run/symtester/.config/systemd/user/"+unit+".d",
		"running workers continue",
		"symphony stop --all -w",
	)
	m.lives(w, "the schedule's removal")
	m.mustSh(m.as("rmdir .config/systemd/user/" + unit + ".d"))
	m.untraced(places, before)
	test.Equal(
		t,
		"the units that systemd still knows",
		m.userctl("list-units --all --no-legend 'symphony-web*'"),
		"",
	)
	m.wants(m.schedule(m.as, 0, "remove -w "+workflow), "nothing is installed for ")
	m.write(odd+"/WORKFLOW.md", good)
	m.finish("ABC-1", "gate-1")
	m.ended(w)

	// Without lingering the user manager ends, and the timer with it; both return when
	// lingering is turned on.
	m.schedule(m.as, 0, "install -w "+workflow)
	m.lingering(false)
	m.wants(
		m.schedule(m.as, 0, "status -w "+workflow),
		"problem\tsymtester does not linger, so the timer stops at the last logout: loginctl enable-linger symtester",
	)
	m.lingering(true)
	m.until("the timer runs", func() (bool, string) {
		said, _ := m.sh(m.as("~/bin/symphony schedule status -w " + workflow))
		return strings.Contains(said, "enabled, active"), said
	})
	m.lingering(false)
	m.wants(
		m.schedule(m.as, 0, "remove -w "+workflow),
		"systemd does not answer",
		"removed /run/symtester/.config/systemd/user/"+unit,
	)
	m.untraced(places, before)
}

// untraced fails if the places have changed, apart from empty folders of systemd.
func (m *machine) untraced(places, before string) {
	m.t.Helper()
	m.sh(m.as("rmdir .config/systemd/user/timers.target.wants .config/systemd/user .config/systemd"))
	test.Equal(m.t, "the files", m.files(places), before)
	said, _ := m.sh(m.as("find .local/share -name 'stamp-symphony*'"))
	test.Equal(m.t, "the stamps of timers", said, "")
}

// TestScheduleSystem installs a system timer as root. It runs passes as another user, whose
// workers continue without a user manager. The user can't install it.
func TestScheduleSystem(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	m := bootSystemd(t, scheduleSystemUID)
	m.ownPlaces()
	const workflow = userProject + "/WORKFLOW.md"
	asRoot := func(command string) string {
		return "cd / && exec env -i HOME=/root PATH=/usr/bin:/bin SUDO_USER=symtester bash -c '" + strings.ReplaceAll(
			strings.ReplaceAll(command, "~", userHome),
			"'",
			`'\''`,
		) + "'"
	}
	before := m.files("/etc/systemd/system /var/lib/systemd/timers " + userHome + "/.config")
	said := m.schedule(m.as, 1, "install --system -w "+workflow)
	m.wants(said, "symphony: needs_root: only root can change system units",
		"sudo "+userHome+"/bin/symphony schedule install --system --run-as symtester -w "+workflow)

	m.interval("web-shop/WORKFLOW.md", 2000)
	m.add("ABC-1", "gate-1")
	said = m.schedule(asRoot, 0, "install --system -w "+workflow)
	m.wants(said, "wrote /etc/systemd/system/symphony-web-shop-", "runs a pass every 2s")
	unit := filepath.Base(strings.Fields(m.mustSh("ls /etc/systemd/system/symphony-web-shop-*.service"))[0])
	m.mustSh("systemd-analyze verify --man=no /etc/systemd/system/" + unit)
	w := m.atWork("ABC-1", "gate-1")
	test.Equal(
		t,
		"the user of the worker",
		m.mustSh(fmt.Sprintf("stat -c %%u /proc/%d", w.pid)),
		fmt.Sprint(m.uid),
	)
	m.passes(2)
	m.lives(w, "two more passes")
	m.unblocked()
	m.wants(m.schedule(asRoot, 0, "install --system --run-as symtester -w "+workflow), "runs a pass every 2s")
	st := m.scheduleStatus(workflow)
	if len(st.Timers) != 1 || !st.Alive || st.Timers[0].Manager != "system" ||
		st.Timers[0].RunAs != "symtester" ||
		len(st.Problems) > 0 {
		t.Errorf("status as the user: %+v", st)
	}
	said = m.schedule(m.as, 1, "remove -w "+workflow)
	m.wants(said, "sudo "+userHome+"/bin/symphony schedule remove --system -w "+workflow)
	m.wants(m.schedule(m.as, 0, "status -w "+workflow), "(system, as symtester): enabled, active")

	said = m.schedule(asRoot, 0, "remove --system -w "+workflow)
	m.wants(said, "removed /etc/systemd/system/"+unit, "WORKFLOW.md ends them, as symtester")
	m.lives(w, "the schedule's removal")
	test.Equal(
		t,
		"the files",
		m.files("/etc/systemd/system /var/lib/systemd/timers "+userHome+"/.config"),
		before,
	)
	test.Equal(
		t,
		"files of the user's state that root owns",
		m.mustSh("find "+userHome+"/.local/state -uid 0"),
		"",
	)

	// A unit of that name that symphony did not write is left unchanged.
	m.mustSh("printf '[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/" + unit)
	m.wants(
		m.schedule(asRoot, 1, "install --system -w "+workflow),
		"symphony: schedule_failed: /etc/systemd/system/"+unit,
	)
	m.wants(m.schedule(asRoot, 0, "remove --system -w "+workflow), "nothing is installed")
	m.wants(m.mustSh("cat /etc/systemd/system/"+unit), "/bin/true")
	m.finish("ABC-1", "gate-1")
	m.ended(w)
}

// TestScheduleCron checks that Debian's crontab accepts the line that install writes and that
// its cron runs it, for a path with characters that are special to cron and to a shell. The
// other lines stay byte for byte. The documented line runs beside it for a project without a
// key and reports the missing key. A worker outlives cron.
func TestScheduleCron(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	m := bootCron(t, scheduleCronUID)
	m.project("no-key")
	workflow := m.oddWorkflow()

	// A user who had no crontab has none afterwards.
	m.wants(
		m.schedule(m.as, 0, "install --cron -w "+workflow),
		"added to your crontab: * * * * * /run/symtester/bin/symphony tick",
		"warning: no cron daemon is running on this machine",
	)
	m.wants(m.schedule(m.as, 0, "remove -w "+workflow), "removed from your crontab: ")
	test.Equal(t, "the files in the spool", m.mustSh("ls -A /var/spool/cron/crontabs"), "")

	line := strings.TrimSpace(between(t, document(t, "docs/scheduling.md"), "```crontab\n", "```"))
	theirs := "# m h dom mon dow command\nMAILTO=\"\"\n\n@yearly\techo 100\\% \t \n* * * * *  env > " +
		"$HOME/env.log # mine\n" +
		strings.ReplaceAll(
			line,
			"web-shop",
			"no-key",
		) + " >> $HOME/no-key.log 2>&1; echo exit $? >> $HOME/no-key.log\n"
	m.write("crontab", theirs)
	m.mustSh(m.as("crontab crontab"))
	m.add("ABC-1", "gate-1")
	m.schedule(m.as, 0, "install --cron -w "+workflow)
	m.wants(m.schedule(m.as, 0, "install --cron -w "+workflow), "already in your crontab: ")
	got := m.mustSh(
		m.as("crontab -l | head -c " + fmt.Sprint(len(theirs)) + " | cmp - crontab && crontab -l | wc -l"),
	)
	test.Equal(t, "the lines of the old crontab with that of symphony", got, "7")
	// Without setsid cron would end with the command that starts it.
	m.mustSh(
		"setsid -f cron -f >/run/cron.out 2>&1; for i in $(seq 100); do pgrep -x cron && exit; sleep " +
			"0.05; done; exit 1",
	)
	w := m.atWork("ABC-1", "gate-1")
	st := m.scheduleStatus(workflow)
	if !st.Alive || st.LastPass.Trigger != "cron" || len(st.LastPass.Errors) > 0 || st.Cron == nil ||
		st.Cron.Daemon == nil ||
		!*st.Cron.Daemon ||
		len(st.Problems) > 0 {
		t.Errorf("status: %+v", st)
	}
	m.wants(m.file("env.log"), "HOME="+userHome+"\n")
	test.Lacks(t, "the environment of cron", m.file("env.log"), "XDG_")
	m.wants(
		m.schedule(m.as, 0, "remove -w "+workflow),
		"removed from your crontab: ",
		"running workers continue",
	)
	m.mustSh(m.as("crontab -l | cmp - crontab"))
	m.until("the pass without a key is over", func() (bool, string) {
		said := m.file("no-key.log")
		return strings.Contains(said, "exit 3\n"), said
	})
	m.wants(m.file("no-key.log"), "symphony: missing_tracker_api_key: ", m.envFile("no-key"))
	m.mustSh("kill $(pgrep -x cron)")
	m.lives(w, "the schedule's removal and cron's end")
	m.finish("ABC-1", "gate-1")
	m.calm()
}

// bootCron starts a machine with its own crontabs and its own pid file of cron.
func bootCron(t *testing.T, uid int) *machine {
	t.Helper()
	if _, err := exec.LookPath("cron"); err != nil {
		t.Skip("cron is not installed")
	}
	if os.Geteuid() != 0 || !canMount() {
		t.Skip("only root can mount a spool for cron")
	}
	if version, err := exec.Command("dpkg-query", "-W", "cron").CombinedOutput(); err != nil {
		t.Skipf("cron is not Debian's package: %s", version)
	}
	m := bootMachine(
		t,
		uid,
		"unshare",
		"--mount",
		"--pid",
		"--fork",
		"--kill-child",
		"--mount-proc",
		"bash",
		"-c",
		`set -e
		mount -t tmpfs -o mode=755 tmpfs /run
		mount -t tmpfs -o mode=755 tmpfs /etc/cron.d
		mount -t tmpfs -o mode=755 tmpfs /var/spool/cron
		mkdir -m 1730 /var/spool/cron/crontabs
		chgrp crontab /var/spool/cron/crontabs
		: > /run/crontab; mount --bind /run/crontab /etc/crontab
		exec "$@"`,
		"machine",
	)
	return m
}

// file reads a file of the user; it returns "" if there is none.
func (m *machine) file(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.home, name))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(data)
}
