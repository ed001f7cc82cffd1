//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSystemdSystemUnits shows the README's units in the system's manager: the user's passes start nothing where that would
// not outlive them, which KillMode=process or a manager of the user's own changes; those of root get scopes at once.
func TestSystemdSystemUnits(t *testing.T) {
	t.Parallel()
	m := bootSystemd(t, systemUnitsUID)
	install := func(file, text string) {
		t.Helper()
		m.mustSh("cat > /run/systemd/system/" + file + " <<'EOF'\n" + text + "EOF\nsystemctl daemon-reload")
	}
	const service = "symphony-web-shop.service"
	unit := func(home string, lines ...string) string {
		return readmeUnit(t, service, append(anyRate, "%h", home, "[Service]\n", "[Service]\n"+strings.Join(append(lines, ""), "\n"))...)
	}
	install(service, unit(userHome, "User=symtester"))

	// By hand a pass stands in no service.
	m.add("ABC-1", "gate-1")
	m.mustSh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
	w := m.atWork("ABC-1", "gate-1", 20*time.Second)

	// Nor is one refused that waits for what it starts: the service, a job of a CI perhaps, lasts as long.
	m.add("ABC-7", "")
	m.mustSh("systemd-run --quiet --wait --unit=ci-job -p User=symtester -p WorkingDirectory=" + userProject + " -p Environment=HOME=" + userHome + " " + userHome + "/bin/symphony tick --wait")
	m.handedOver("ABC-7", time.Second)
	// The worker's own pass ends with the job, maybe before it has settled anything.
	m.until("ABC-7's run is settled", 20*time.Second, func() (bool, string) {
		m.sh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
		v, ok := m.ps()
		return ok && len(v.Running) == 1, fmt.Sprintf("%+v", v)
	})
	m.unblocked()

	m.add("ABC-2", "gate-2")
	m.refused(systemctl, service, "KillMode=control-group")
	m.lives(w, "a pass that starts nothing")

	// doctor sees it, too, where it stands in a service itself.
	said, _ := m.sh("systemd-run --quiet --wait --pipe --unit=doctor -p User=symtester -p WorkingDirectory=" + userProject + " -p Environment=HOME=" + userHome + " " + userHome + "/bin/symphony doctor")
	if !strings.Contains(said, "workers: workers_would_die: a worker would end with doctor.service (KillMode=control-group)") {
		t.Errorf("doctor in a service says\n%s", said)
	}
	if said, _ = m.sh(m.asUser("bin/symphony doctor -w web-shop/WORKFLOW.md")); !strings.Contains(said, "workers: live on when their pass ends") {
		t.Errorf("doctor by hand says\n%s", said)
	}

	install(service, unit(userHome, "User=symtester", "KillMode=process"))
	m.mustSh("systemctl start " + service)
	w2 := m.atWork("ABC-2", "gate-2", 20*time.Second)
	m.unblocked()
	m.mustSh("systemctl start " + service)
	m.lives(w2, "a pass more")
	if got := m.cgroup(w2.pid); !strings.HasSuffix(got, "/"+service) {
		t.Errorf("the worker stands in %q", got)
	}
	m.open("gate-2")
	m.handedOver("ABC-2", 20*time.Second)
	m.until("ABC-2's run has ended", 20*time.Second, func() (bool, string) { return m.birth(w2.pid) == "", "" })

	install(service, unit(userHome, "User=symtester"))
	m.add("ABC-3", "gate-3")
	m.refused(systemctl, service, "KillMode=control-group")
	m.startUserManager()
	m.mustSh("systemctl start " + service)
	w3 := m.atWork("ABC-3", "gate-3", 20*time.Second)
	m.unblocked()
	below := fmt.Sprintf("/user@%d.service", m.uid)
	m.inScope(w3, below)
	if env := m.mustSh(fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ", w3.command)); strings.Contains(env, "XDG_RUNTIME_DIR") {
		t.Errorf("what leads to the user's manager has come to the agent, too:\n%s", env)
	}

	// By hand a worker gets a scope where that is the safer place.
	m.add("ABC-4", "gate-4")
	m.mustSh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
	m.inScope(m.atWork("ABC-4", "gate-4", 20*time.Second), below)
	m.mustSh(fmt.Sprintf("mkdir -p /run/systemd/users; echo NAME=symtester > /run/systemd/users/%d", m.uid))
	m.add("ABC-6", "gate-6")
	m.mustSh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
	if got := m.cgroup(m.atWork("ABC-6", "gate-6", 20*time.Second).pid); strings.Contains(got, "user@") {
		t.Errorf("the worker of a pass by hand stands in %s, which ends with the user's login", got)
	}
	for _, n := range []string{"1", "3", "4", "6"} {
		m.open("gate-" + n)
		m.handedOver("ABC-"+n, 20*time.Second)
	}
	m.until("the user has no more to do", 20*time.Second, func() (bool, string) {
		m.sh("systemctl start " + service)
		v, _ := m.ps()
		return len(v.Running)+len(v.Retrying)+len(v.Held) == 0, fmt.Sprintf("%+v", v)
	})

	const bossHome = "/run/boss"
	boss := *m
	boss.uid = 0
	boss.as = func(command string) string {
		return fmt.Sprintf("cd %s && exec env -i HOME=%[1]s PATH=/usr/bin:/bin bash -c '%s'", bossHome, strings.ReplaceAll(command, "'", `'\''`))
	}
	m.mustSh(fmt.Sprintf(`set -e; umask 077; mkdir -p %[1]s/codex-home; cp -r %[2]s/bin %[1]s; mkdir %[1]s/web-shop
		sed 's|--home %[2]s|--home %[1]s|' %[2]s/web-shop/WORKFLOW.md > %[1]s/web-shop/WORKFLOW.md; chown -R 0:0 %[1]s`, bossHome, userHome))
	boss.key()
	install(service, unit(bossHome, "Environment=HOME="+bossHome))
	install("symphony-web-shop.timer", everySecond(t))
	m.mustSh("systemctl start symphony-web-shop.timer")
	boss.add("ABC-5", "gate-5")
	w5 := boss.atWork("ABC-5", "gate-5", 20*time.Second)
	boss.inScope(w5, "")
	if got := boss.cgroup(w5.pid); strings.Contains(got, "/user") {
		t.Errorf("root's worker stands in %s", got)
	}
	boss.passes(2)
	boss.lives(w5, "two passes more")
	m.mustSh("systemctl stop symphony-web-shop.timer " + service + "; systemctl daemon-reexec")
	boss.lives(w5, "a stop of timer and service, and a daemon-reexec")
	boss.open("gate-5")
	boss.handedOver("ABC-5", 20*time.Second)
	boss.released()
	boss.until("root's processes have ended", 20*time.Second, func() (bool, string) {
		said, code := m.sh("pgrep -a -f ^" + bossHome)
		return code != 0, said
	})
	m.calm()
}

// systemctl and userSystemctl are the command lines that ask the system's manager and the user's.
func systemctl(args string) string { return "systemctl " + args }

func (m *machine) userSystemctl(args string) string { return m.asUser("systemctl --user " + args) }

// refused starts the service, and wants it to start nothing and to say why.
func (m *machine) refused(ctl func(args string) string, service, why string) {
	m.t.Helper()
	before, _ := m.ps()
	if said, code := m.sh(ctl("start " + service)); code == 0 {
		m.t.Errorf("the pass was not refused: %s", said)
	}
	if status := m.mustSh(ctl("show -P ExecMainStatus " + service)); status != "1" {
		m.t.Errorf("exit status %s, want 1", status)
	}
	v, _ := m.ps()
	const code = "workers_would_die"
	if len(v.LastPass.Errors) != 1 || v.LastPass.Errors[0].Code != code || v.Blocked == nil || v.Blocked.Reason != code {
		m.t.Errorf("ps says %+v, blocked %+v; want %s\n%s", v.LastPass.Errors, v.Blocked, code, m.story())
	}
	if len(v.Skipped) != 1 || v.Skipped[0].Reason != "blocked" || !strings.HasPrefix(v.Skipped[0].Message, code+": ") || !strings.Contains(v.Skipped[0].Message, why) {
		m.t.Errorf("skipped: %+v", v.Skipped)
	}
	if len(v.Running) != len(before.Running) || len(v.Ended) != len(before.Ended) {
		m.t.Errorf("something was started, or has ended: %+v, before %+v", v, before)
	}
	if said := m.mustSh("journalctl --sync; journalctl --no-pager -o cat -p err -n 40"); !strings.Contains(said, "symphony: "+code) || !strings.Contains(said, "write KillMode=process into") {
		m.t.Errorf("the journal has no error with a hint:\n%s", said)
	}
}

// unblocked fails if ps shows a block still.
func (m *machine) unblocked() {
	m.t.Helper()
	if v, _ := m.ps(); v.Blocked != nil || len(v.LastPass.Errors) > 0 {
		m.t.Errorf("blocked: %+v, errors %+v", v.Blocked, v.LastPass.Errors)
	}
}
