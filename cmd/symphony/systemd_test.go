//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor/checktest"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
)

// userUnits is the folder of the user's units.
const userUnits = ".config/systemd/user/"

// readmeUnit returns a unit of docs/scheduling.md with changes: old text, new text, ...
func readmeUnit(t *testing.T, file string, changes ...string) string {
	t.Helper()
	text := between(
		t,
		document(t, "docs/scheduling.md"),
		"`~/.config/systemd/user/"+file+"`:\n\n```ini\n",
		"```",
	)
	return replaced(t, text, changes...)
}

// userctl runs systemctl --user as the user.
func (m *machine) userctl(args string) string {
	m.t.Helper()
	return m.mustSh(m.userSystemctl(args))
}

// bootSystemd starts a machine with a systemd.
func bootSystemd(t *testing.T, uid int) *machine {
	t.Helper()
	boot := os.Getenv("SYMPHONY_WITH_SYSTEMD")
	if boot == "" {
		t.Skip("set SYMPHONY_WITH_SYSTEMD to a program that boots a systemd to run this test")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can boot a systemd")
	}
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		t.Skip("systemd is not installed")
	}
	// A test waits dozens of times, each time for at most test.Patience. The machine must
	// outlive all of that.
	life := 5 * test.Patience()
	m := bootMachine(t, uid, boot, "-t", strconv.Itoa(int(life.Seconds())))
	m.key()
	return m
}

// anyRate removes the limit on how often a service may start.
var anyRate = []string{"[Unit]\n", "[Unit]\nStartLimitIntervalSec=0\n"}

// everySecond returns the timer of docs/scheduling.md with an interval of one second.
func everySecond(t *testing.T) string {
	return readmeUnit(
		t,
		"symphony-web-shop.timer",
		"OnCalendar=minutely",
		"OnActiveSec=0\nOnUnitActiveSec=1s",
		"AccuracySec=5s",
		"AccuracySec=10ms",
	)
}

// startUserManager starts the user manager, as logind does for a user with lingering enabled.
func (m *machine) startUserManager() {
	m.t.Helper()
	m.mustSh(fmt.Sprintf(`set -e
		install -d -m 700 -o %[1]d -g %[1]d /run/user/%[1]d
		mkdir -p /run/systemd/system/user@.service.d
		printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%%%i\n' > /run/systemd/system/user@.service.d/runtime.conf
		systemctl daemon-reload
		systemctl start user@%[1]d.service || { journalctl -n 40; exit 1; }`, m.uid))
}

// passes waits for n more passes, all started by the timer and without an error.
func (m *machine) passes(n int) {
	m.t.Helper()
	before, ok := m.ps()
	if !ok {
		m.t.Fatal("no pass has run yet")
	}
	m.until(fmt.Sprintf("%d more passes", n), func() (bool, string) {
		v, ok := m.ps()
		if !ok {
			return false, ""
		}
		if v.LastPass.ID > before.LastPass.ID &&
			(v.LastPass.Trigger != "timer" || len(v.LastPass.Errors) > 0) {
			m.t.Fatalf("the pass failed or was not started by the timer: %+v", *v.LastPass)
		}
		return v.LastPass.ID >= before.LastPass.ID+int64(n), fmt.Sprintf("%+v", *v.LastPass)
	})
}

// TestSystemd runs the timer of docs/scheduling.md on a real systemd, in the user's manager.
// Workers, each in its own scope, outlive the service, a stop of the timer and systemd's
// re-execution.
func TestSystemd(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	m := bootSystemd(t, systemdUID)
	// Workers that systemd-run starts need a slot, too. A slot that is not passed on, or not
	// released, would block all work.
	m.mustSh(m.as("echo SYMPHONY_MAX_AGENTS=1 >> " + m.envFile("web-shop")))
	m.write(userUnits+"symphony-web-shop.service", readmeUnit(t, "symphony-web-shop.service", anyRate...))
	m.write(userUnits+"symphony-web-shop.timer", everySecond(t))
	m.startUserManager()

	m.add("ABC-1", "")
	m.userctl("enable --now symphony-web-shop.timer")
	m.handedOver("ABC-1")
	m.released()

	m.add("ABC-2", "gate-2")
	w := m.atWork("ABC-2", "gate-2")
	m.inScope(w, m.userManager())
	m.passes(3) // so the service has exited more than once while the worker was alive
	m.lives(w, "three more passes")
	check := checktest.New(2*time.Second, 2*time.Second, time.Now)
	m.watchedBy(check)
	m.checkIs(check, "up")
	m.userctl("stop symphony-web-shop.timer")
	m.userctl("stop symphony-web-shop.service")
	m.lives(w, "a stop of timer and service")
	m.silent(t, check)
	m.mustSh("systemctl daemon-reexec")
	m.lives(w, "a daemon-reexec")
	m.userctl("daemon-reexec")
	m.until("the user's systemd runs again", func() (bool, string) {
		said, code := m.sh(m.asUser("systemctl --user is-active basic.target"))
		return code == 0, said
	})
	m.lives(w, "a daemon-reexec of the user's systemd")
	m.userctl("start symphony-web-shop.timer")
	m.passes(2)
	m.lives(w, "the timer's start")
	m.checkIs(check, "up")

	m.sliceStops(w)
	m.ownPass()
	m.calm()
	m.loopUnit()
	m.mustSh("journalctl --sync")
	said, _ := m.sh("journalctl --no-pager -o cat | grep -i -e 'left-over process' -e 'remains running'")
	test.Equal(t, "the warnings of systemd", said, "")
	test.Equal(
		t,
		"the last result of the service",
		m.userctl("show -P Result symphony-web-shop.service"),
		"success",
	)
}

// loopUnit runs the loop of docs/scheduling.md, which systemd waits for and stops.
func (m *machine) loopUnit() {
	m.t.Helper()
	m.write(userUnits+"symphony-loop.service", readmeUnit(m.t, "symphony-loop.service"))
	m.userctl("daemon-reload")
	before, _ := m.ps()
	m.userctl("start symphony-loop.service")
	m.until("a pass of the loop", func() (bool, string) {
		v, _ := m.ps()
		return v.LastPass.ID > before.LastPass.ID &&
			v.LastPass.Trigger == "loop", fmt.Sprintf("%+v", *v.LastPass)
	})
	m.userctl("stop symphony-loop.service")
	test.Equal(m.t, "the result of the loop", m.userctl("show -P Result symphony-loop.service"), "success")
}

// sliceStops stops the slice of the scopes: workers end as interrupted, without a failure, and
// the next pass resumes their threads.
func (m *machine) sliceStops(w machineWorker) {
	m.t.Helper()
	w.thread = m.threadOf(w.run)
	m.userctl("stop symphony.slice")
	next := m.atWork("ABC-2", "gate-2")
	v, _ := m.ps()
	i := slices.IndexFunc(v.Ended, func(r view.RunRow) bool { return r.RunID == w.run })
	if outcomes(v, "ABC-2") != "interrupted" || i < 0 ||
		!strings.HasPrefix(*v.Ended[i].Error, "terminated: ") {
		m.t.Errorf(
			"after its scope was stopped the run is %+v, want interrupted, terminated\n%s",
			v.Ended,
			m.story(),
		)
	}
	next.thread = m.threadOf(next.run)
	if next.run == w.run || next.thread != w.thread || next.attempt != 0 {
		m.t.Errorf("the next run is %+v, want the thread of %+v and no failure\n%s", next, w, m.story())
	}
	m.inScope(next, m.userManager())
}

// threadOf waits until a run's thread is known.
func (m *machine) threadOf(run string) (thread string) {
	m.t.Helper()
	m.until(run+" has a thread", func() (bool, string) {
		v, _ := m.ps()
		for _, r := range v.Running {
			if r.RunID == run && r.ThreadID != nil {
				thread = *r.ThreadID
			}
		}
		return thread != "", fmt.Sprintf("%+v", v)
	})
	return thread
}

// ownPass checks that a worker's own pass settles its run and starts the next issue without
// the timer.
func (m *machine) ownPass() {
	m.t.Helper()
	m.userctl("stop symphony-web-shop.timer")
	v, _ := m.ps()
	m.atWork("ABC-2", "gate-2")
	m.add("ABC-3", "gate-3")
	m.finish("ABC-2", "gate-2")
	next := m.atWork("ABC-3", "gate-3") // the timer's schedule counts as alive for minutes
	m.inScope(next, m.userManager())
	if after, _ := m.ps(); after.LastPass.Trigger != "worker" || after.LastPass.ID <= v.LastPass.ID {
		m.t.Errorf("the last pass is %+v, want one of a worker", *after.LastPass)
	}
	m.finish("ABC-3", "gate-3")
	m.calm()
	v, _ = m.ps()
	for issue, want := range map[string]string{
		"ABC-1": "succeeded",
		"ABC-2": "succeeded interrupted",
		"ABC-3": "succeeded",
	} {
		test.Equal(m.t, "runs of "+issue+", newest first", outcomes(v, issue), want)
	}
}

// TestSystemdSystemUnits runs the units of docs/scheduling.md in the system manager. Passes of
// a user start no workers that would end with the service, unless there is KillMode=process or
// a user manager. Workers of root get scopes at once.
func TestSystemdSystemUnits(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	m := bootSystemd(t, systemUnitsUID)
	install := func(file, text string) {
		t.Helper()
		m.mustSh("cat > /run/systemd/system/" + file + " <<'EOF'\n" + text + "EOF\nsystemctl daemon-reload")
	}
	const service = "symphony-web-shop.service"
	unit := func(home string, lines ...string) string {
		return readmeUnit(
			t,
			service,
			append(
				anyRate,
				"%h",
				home,
				"[Service]\n",
				"[Service]\n"+strings.Join(append(lines, ""), "\n"),
			)...)
	}
	install(service, unit(userHome, "User=symtester"))

	// A pass that the user runs manually is not in a service.
	m.add("ABC-1", "gate-1")
	m.mustSh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
	w := m.atWork("ABC-1", "gate-1")

	// A pass that waits for its runs is not refused, because its service, for instance a CI
	// job, lasts as long.
	m.add("ABC-7", "")
	const inService = "systemd-run --quiet --wait -p User=symtester -p WorkingDirectory=" + userProject + " -p Environment=HOME=" + userHome
	m.mustSh(inService + " --unit=ci-job " + userHome + "/bin/symphony tick --wait")
	m.handedOver("ABC-7")
	// The worker's own pass ends with the job, possibly before it has settled the run.
	m.until("ABC-7's run is settled", func() (bool, string) {
		m.sh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
		v, ok := m.ps()
		return ok && len(v.Running) == 1, fmt.Sprintf("%+v", v)
	})
	m.unblocked()

	m.add("ABC-2", "gate-2")
	m.refused(service)
	m.lives(w, "a refused pass")

	// doctor in such a service reports the problem, too.
	said, _ := m.sh(inService + " --pipe --unit=doctor " + userHome + "/bin/symphony doctor")
	m.wants(
		said,
		"workers: workers_would_die: a worker would end with doctor.service (KillMode=control-group)",
	)
	said, _ = m.sh(m.asUser("bin/symphony doctor -w web-shop/WORKFLOW.md"))
	m.wants(said, "workers: outlive their pass")

	install(service, unit(userHome, "User=symtester", "KillMode=process"))
	m.mustSh("systemctl start " + service)
	w2 := m.atWork("ABC-2", "gate-2")
	m.unblocked()
	m.mustSh("systemctl start " + service)
	m.lives(w2, "another pass")
	if got := m.cgroup(w2.pid); !strings.HasSuffix(got, "/"+service) {
		t.Errorf("the worker is in the control group %q, want that of %s", got, service)
	}
	m.finish("ABC-2", "gate-2")
	m.ended(w2)

	install(service, unit(userHome, "User=symtester"))
	m.add("ABC-3", "gate-3")
	m.refused(service)
	m.startUserManager()
	m.mustSh("systemctl start " + service)
	w3 := m.atWork("ABC-3", "gate-3")
	m.unblocked()
	m.inScope(w3, m.userManager())
	env := m.mustSh(fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ", w3.command))
	test.Lacks(
		t,
		"the environment of the agent, which must not lead to the user manager",
		env,
		"XDG_RUNTIME_DIR",
	)

	// The worker of a manual pass gets a scope unless the scope would end with the login.
	m.add("ABC-4", "gate-4")
	m.mustSh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
	m.inScope(m.atWork("ABC-4", "gate-4"), m.userManager())
	m.mustSh(fmt.Sprintf("mkdir -p /run/systemd/users; echo NAME=symtester > /run/systemd/users/%d", m.uid))
	m.add("ABC-6", "gate-6")
	m.mustSh(m.asUser("bin/symphony tick -w web-shop/WORKFLOW.md"))
	test.Lacks(
		t,
		"the control group, which would end with the user's login",
		m.cgroup(m.atWork("ABC-6", "gate-6").pid),
		"user@",
	)
	for _, n := range []string{"1", "3", "4", "6"} {
		m.finish("ABC-"+n, "gate-"+n)
	}
	m.until("no work of the user is left", func() (bool, string) {
		m.sh("systemctl start " + service)
		v, _ := m.ps()
		return len(v.Running)+len(v.Retrying)+len(v.Held) == 0, fmt.Sprintf("%+v", v)
	})

	const bossHome = "/run/boss"
	boss := *m
	boss.uid = 0
	boss.as = func(command string) string {
		return fmt.Sprintf(
			"cd %s && exec env -i HOME=%[1]s PATH=/usr/bin:/bin bash -c '%s'",
			bossHome,
			strings.ReplaceAll(command, "'", `'\''`),
		)
	}
	m.mustSh(
		fmt.Sprintf(`set -e; umask 077; mkdir -p %[1]s/codex-home; cp -r %[2]s/bin %[1]s; mkdir %[1]s/web-shop
		sed 's|--home %[2]s|--home %[1]s|' %[2]s/web-shop/WORKFLOW.md > %[1]s/web-shop/WORKFLOW.md; chown -R 0:0 %[1]s`, bossHome, userHome),
	)
	boss.key()
	install(service, unit(bossHome, "Environment=HOME="+bossHome))
	install("symphony-web-shop.timer", everySecond(t))
	m.mustSh("systemctl start symphony-web-shop.timer")
	boss.add("ABC-5", "gate-5")
	w5 := boss.atWork("ABC-5", "gate-5")
	boss.inScope(w5, "")
	test.Lacks(t, "the control group of root's worker", boss.cgroup(w5.pid), "/user")
	boss.passes(2)
	boss.lives(w5, "two more passes")
	m.mustSh("systemctl stop symphony-web-shop.timer " + service + "; systemctl daemon-reexec")
	boss.lives(w5, "a stop of timer and service, and a daemon-reexec")
	boss.finish("ABC-5", "gate-5")
	boss.released()
	boss.until("root's processes have ended", func() (bool, string) {
		said, code := m.sh("pgrep -a -f ^" + bossHome)
		return code != 0, said
	})
	m.calm()
}

// userSystemctl returns the command line of a call to the user manager.
func (m *machine) userSystemctl(args string) string { return m.asUser("systemctl --user " + args) }

// refused starts the service, whose pass must start nothing and say why.
func (m *machine) refused(service string) {
	m.t.Helper()
	before, _ := m.ps()
	if said, code := m.sh("systemctl start " + service); code == 0 {
		m.t.Errorf("the pass was not refused: %s", said)
	}
	test.Equal(m.t, "the exit status", m.mustSh("systemctl show -P ExecMainStatus "+service), "1")
	v, _ := m.ps()
	const code = "workers_would_die"
	if len(v.LastPass.Errors) != 1 || v.LastPass.Errors[0].Code != code || v.ProjectBlock == nil ||
		v.ProjectBlock.Reason != code {
		m.t.Errorf(
			"ps prints %+v, blocked %+v; want %s\n%s",
			v.LastPass.Errors,
			v.ProjectBlock,
			code,
			m.story(),
		)
	}
	if len(v.Skipped) != 1 || v.Skipped[0].Reason != "blocked" ||
		!strings.HasPrefix(v.Skipped[0].Message, code+": ") ||
		!strings.Contains(v.Skipped[0].Message, "KillMode=control-group") {
		m.t.Errorf("skipped: %+v", v.Skipped)
	}
	if len(v.Running) != len(before.Running) || len(v.Ended) != len(before.Ended) {
		m.t.Errorf("the refused pass changed the runs: %+v, before %+v", v, before)
	}
	m.wants(
		m.mustSh("journalctl --sync; journalctl --no-pager -o cat -p err -n 40"),
		"symphony: "+code,
		"write KillMode=process into",
	)
}

// unblocked fails if ps still shows a block.
func (m *machine) unblocked() {
	m.t.Helper()
	if v, _ := m.ps(); v.ProjectBlock != nil || len(v.LastPass.Errors) > 0 {
		m.t.Errorf("blocked: %+v, errors %+v", v.ProjectBlock, v.LastPass.Errors)
	}
}

// takeAll is an agent that takes 400 MB of memory, and survives it.
const takeAll = "```agent\n" +
	"sh head -c 400000000 /dev/zero | tail > /dev/null || echo refused > memory\n" +
	"sh git add . && git commit -qm Take\n" +
	"tool hand_over {\"summary\":\"I took.\"}\n" +
	"```\n"

// TestSystemdLimits: a scope of systemd limits the memory of an agent.
func TestSystemdLimits(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	if !canSandbox() {
		t.Skip("bubblewrap can make no sandbox here")
	}
	m := bootSystemd(t, limitsUID)
	m.write("bin/fake-acp", string(test.Must(os.ReadFile(test.Must(exec.LookPath("fake-acp"))))))
	m.write("bin/claude-agent-acp", "#!/bin/sh\nexec fake-acp --home ~/sessions "+
		"--name @agentclientprotocol/claude-agent-acp --version 0.101.0\n")
	m.write("take.agent", takeAll)
	m.as = func(command string) string {
		return "cd /run/limits/shop && env -i HOME=/run/limits PATH=/run/limits/bin:/usr/bin:/bin bash -c '" +
			strings.ReplaceAll(command, "'", `'\''`) + "'"
	}
	// the namespaces of a sandbox give root no right to enter the home of another account
	m.mustSh("mkdir -p /run/limits/shop && cp -r " + userHome + "/bin /run/limits")
	m.mustSh(m.as(`set -e
		echo PATH=$PATH > ~/.bash_profile
		git config --global user.name A
		git config --global user.email a@example.com
		git init -q -b main .
		git commit -q --allow-empty -m Begin
		symphony init --tracker file --agent claude
		rm issues/task-1*
		sed -i "s/^agent:/agent:\n  max_memory_bytes: 209715200/" WORKFLOW.md
		symphony issues new Take --body-file /run/symtester/take.agent`))
	said, _ := m.sh(m.as("symphony doctor"))
	if strings.Contains(said, "systemd does not keep limits") {
		t.Skip("the kernel gives this systemd no controllers of cgroups")
	}
	m.wants(said, "+ limits: 4096 processes and 200.0 MiB of memory for each agent, by systemd")
	m.mustSh(m.as("symphony run TASK-1"))
	test.Equal(t, "memory", m.mustSh(m.as("git show symphony/TASK-1:memory")), "refused")
}
