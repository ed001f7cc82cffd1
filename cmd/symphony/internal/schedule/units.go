package schedule

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// systemUnits is where root's own units belong.
const systemUnits = "/etc/systemd/system"

// unitMark begins every unit that is ours to rewrite and to remove.
const UnitMark = "# Written by symphony schedule install"

type unitFile struct{ path, text string }

// unitPaths are those of a project's service and timer.
func unitPaths(dir, name string) (service, timer string) {
	return filepath.Join(dir, name+".service"), filepath.Join(dir, name+".timer")
}

// unitDirs are where units of ours may be. Which of a user's own systemd reads depends on the XDG_CONFIG_HOME that it was
// started with, which need not be that of a shell.
func UnitDirs(w *term.Env, system bool, home string) []string {
	if system {
		return []string{systemUnits}
	}
	dirs := []string{filepath.Join(home, ".config", "systemd", "user")}
	if base := w.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) && filepath.Join(base, "systemd", "user") != dirs[0] {
		dirs = append(dirs, filepath.Join(base, "systemd", "user"))
	}
	return dirs
}

// units are service and timer. The service comes first: a timer without one would be refused.
func (s *scheduled) units() []unitFile {
	service, timer := unitPaths(s.dir, s.name())
	return []unitFile{{service, s.service()}, {timer, s.timer()}}
}

func (s *scheduled) header() string {
	return fmt.Sprintf("%s for %q;\n# the next one overwrites what is changed here: a drop-in stays (systemctl edit).\n", UnitMark, s.p.Path)
}

func (s *scheduled) service() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s# Program: %q

[Unit]
Description=A pass of %s
# A pass may be asked for as often as somebody likes.
StartLimitIntervalSec=0

[Service]
Type=oneshot
# Workers get scopes of their own. Where they can't have any, the end of a pass must not be theirs.
KillMode=process
`, s.header(), s.program, s.name())
	if s.system {
		fmt.Fprintf(&b, "User=%s\n", s.who.name)
	}
	for _, v := range s.carried {
		fmt.Fprintf(&b, "Environment=%s\n", UnitWord(v))
	}
	argv := s.command(project.TriggerTimer)
	words := []string{UnitWord(argv[0])} // of the program's path systemd expands no variable
	for _, arg := range argv[1:] {
		words = append(words, strings.ReplaceAll(UnitWord(arg), "$", "$$"))
	}
	fmt.Fprintf(&b, "ExecStart=%s\n", strings.Join(words, " "))
	return b.String()
}

// timer: Persistent makes up for what a machine that was off has missed, and lets systemctl clean take its stamp away.
func (s *scheduled) timer() string {
	return fmt.Sprintf(`%s
[Unit]
Description=Passes of %s, every %s

[Timer]
%s
AccuracySec=1s
Persistent=true

[Install]
WantedBy=timers.target
`, s.header(), s.name(), s.every(), timerLines(s.every()))
}

// every is the interval that a timer can keep to.
func (s *scheduled) every() time.Duration { return max(s.interval, time.Second) }

// timerLines are by the calendar where the interval divides minute, hour or day: such a timer knows what it has missed,
// also while the machine slept. No calendar has every 45 seconds; there the time runs from one pass to the next.
func timerLines(every time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case every%time.Second != 0:
	case every == time.Second:
		return "OnCalendar=*-*-* *:*:*"
	case time.Minute%every == 0:
		return "OnCalendar=*-*-* *:*:" + step(every, time.Minute, time.Second)
	case every%time.Minute == 0 && time.Hour%every == 0:
		return "OnCalendar=*-*-* *:" + step(every, time.Hour, time.Minute) + ":00"
	case every%time.Hour == 0 && day%every == 0:
		return "OnCalendar=*-*-* " + step(every, day, time.Hour) + ":00:00"
	}
	return fmt.Sprintf("OnActiveSec=1s\nOnUnitActiveSec=%dms", every.Milliseconds())
}

func step(every, whole, unit time.Duration) string {
	if every == whole {
		return "00"
	}
	return fmt.Sprintf("00/%d", every/unit)
}

// unitWord writes one word of a line of a unit.
func UnitWord(word string) string {
	word = strings.ReplaceAll(word, "%", "%%")
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:@,%$", r) || r > 0x7f
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}
