package schedule

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"pgregory.net/rapid"
)

// Intervals that divide a minute, an hour or a day become a calendar; all others run from pass
// to pass.
func TestTimerLines(t *testing.T) {
	const since = "OnActiveSec=1s\nOnUnitActiveSec="
	for every, want := range map[time.Duration]string{
		time.Second:             "OnCalendar=*-*-* *:*:*",
		2 * time.Second:         "OnCalendar=*-*-* *:*:00/2",
		30 * time.Second:        "OnCalendar=*-*-* *:*:00/30",
		time.Minute:             "OnCalendar=*-*-* *:*:00",
		5 * time.Minute:         "OnCalendar=*-*-* *:00/5:00",
		time.Hour:               "OnCalendar=*-*-* *:00:00",
		6 * time.Hour:           "OnCalendar=*-*-* 00/6:00:00",
		24 * time.Hour:          "OnCalendar=*-*-* 00:00:00",
		45 * time.Second:        since + "45000ms",
		90 * time.Second:        since + "90000ms",
		7 * time.Minute:         since + "420000ms",
		5 * time.Hour:           since + "18000000ms",
		48 * time.Hour:          since + "172800000ms",
		1500 * time.Millisecond: since + "1500ms",
		59 * time.Second:        since + "59000ms",
	} {
		test.Equal(t, every.String(), timerLines(every), want)
	}
}

// Whatever a crontab contains, our line is added once, and after its removal every other byte
// is unchanged.
func TestWithLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{
			"* * * * * x",
			"",
			"# c",
			"A=b # symphony-other",
			"#* * * * * x # symphony-a",
			"\t",
			"* * * * * x # symphony-a ",
			"é%\\%",
		})).Draw(t, "lines")
		before := ""
		if len(lines) > 0 {
			before = strings.Join(lines, "\n") + "\n"
		}
		const mark = " # symphony-a"
		once, was := withLine(before, "* * * * * ours"+mark, mark)
		if was != "" || strings.Count(once, "ours") != 1 {
			t.Fatalf("added: %q, was %q", once, was)
		}
		if again, was := withLine(once, "* * * * * ours"+mark, mark); again != once ||
			was != "* * * * * ours"+mark {
			t.Fatalf("added again: %q, was %q", again, was)
		}
		// duplicated in an editor
		twice := once + rapid.SampledFrom([]string{"", "* * * * * ours" + mark + "\n"}).Draw(t, "copied")
		other, _ := withLine(twice, "* * * * * other"+mark, mark)
		if other != strings.Replace(once, "ours", "other", 1) {
			t.Fatalf("changed: %q", other)
		}
		if after, was := withLine(other, "", mark); after != before || was != "* * * * * other"+mark {
			t.Fatalf("removed: %q, was %q; want %q", after, was, before)
		}
	})
}

type willing struct{ scheduler }

func (willing) refuse(context.Context, time.Duration) error { return nil }

// Temporary programs are refused, wherever go run and go test build them.
func TestRefuseTemporaryProgram(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	p := &wiring.Project{Env: &environ.Env{
		Home:    "/var/tmp/ann",
		Environ: []string{"TMPDIR=/var/tmp/ann/scratch"},
	}}
	for program, gone := range map[string]bool{
		"/home/ann/bin/symphony":  false,
		"/usr/local/bin/symphony": false,
		// GOCACHE without anything else
		"/home/ann/go-build/symphony":                          true,
		"/home/ann/my-go-builds/symphony":                      false,
		"/tmp/symphony":                                        true,
		"/tmpfs/symphony":                                      false,
		"/var/tmp/x/symphony":                                  true,
		"/dev/shm/symphony":                                    true,
		"/var/tmp/ann/bin/symphony":                            false, // of the home directory
		"/var/tmp/ann/scratch/go-build1/b001/exe/symphony":     true,
		"/home/ann/.cache/go-build/4b/" + hash + "-d/symphony": true,
		"/home/ann/cache/4b/" + hash + "-d/symphony":           true,
		"": true,
	} {
		err := (&plan{caller: p, program: program}).installable(t.Context(), willing{}, 0)
		if gone != (err != nil) || gone && exit.From(err).Code != "schedule_failed" {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// A timer that has just been installed has not failed: its first pass is still to come.
func TestJudge(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	soon := now.Add(16 * time.Second)
	before := now.Add(-time.Minute)
	dead := "not active: no new run starts until you run symphony tick"
	for name, c := range map[string]struct {
		out  Status
		want string
	}{
		"installed just now": {Status{Timers: []TimerStatus{{
			Enabled: true,
			Active:  true,
			Next:    &soon,
		}}}, "installed, first pass"},
		"stopped": {Status{Timers: []TimerStatus{{Enabled: true, Next: &soon}}}, dead},
		"came, and no more": {Status{Timers: []TimerStatus{{
			Enabled: true,
			Active:  true,
			Next:    &soon,
			Last:    &before,
		}}}, dead},
		"overdue": {Status{Timers: []TimerStatus{{
			Enabled: true,
			Active:  true,
			Next:    &before,
		}}}, dead},
		"passes come": {Status{
			Alive:  true,
			Timers: []TimerStatus{{Enabled: true, Active: true, Next: &soon}},
		}, "active"},
		"none":          {Status{}, dead},
		"none any more": {Status{FirstPass: &soon}, dead},
		"not known": {
			Status{FirstPass: &soon, Problems: []string{"crontab -l: not allowed"}},
			"installed, first pass at the latest",
		},
		"a line of cron": {Status{Cron: &CronStatus{}}, "not active yet: no pass has come"},
	} {
		got := c.out.Judge(now)
		test.Equal(t, name, got.Text, c.want)
		test.Equal(t, name+" is dead", got.Dead, strings.HasPrefix(c.want, "not active"))
	}
}

// Passes that somebody's own schedule runs without --trigger count as run by hand, so that the
// problem names the flag.
func TestJudgeByHand(t *testing.T) {
	for name, c := range map[string]struct {
		out  Status
		want string
	}{
		"none": {Status{}, "no schedule is installed"},
		"a pass": {
			Status{LastPass: &wiring.LastPassRow{Trigger: wiring.TriggerManual}},
			"of your own needs symphony tick --trigger cron",
		},
	} {
		test.Contains(t, name, c.out.Judge(time.Now()).Problem, c.want)
	}
}

// The units of the packages are those that install writes, for the project in the folder that
// is the instance.
func TestPackagedUnits(t *testing.T) {
	p := &wiring.Project{Path: "%f/WORKFLOW.md"}
	s := &plan{p: p, program: "/usr/bin/symphony", every: 30 * time.Second}
	values := map[string]any{
		"Name":    "%f",
		"Command": s.command(wiring.TriggerTimer),
		"Every":   s.every,
	}
	body := func(text string) string { return text[strings.Index(text, "\n[Unit]"):] }
	for _, kind := range []string{".service", ".timer"} {
		var want strings.Builder
		test.OK(t, templates().ExecuteTemplate(&want, "symphony"+kind, values))
		got := test.Must(os.ReadFile("../../../../../scripts/package/units/symphony@" + kind))
		test.Equal(t, kind, body(string(got)), body(strings.ReplaceAll(want.String(), "%%f", "%f")))
	}
}

// A project whose timer is that of the package is not removed, and gets no second schedule.
func TestPackagedTimer(t *testing.T) {
	home := t.TempDir()
	p := &wiring.Project{
		Env:  &environ.Env{Home: home, Environ: []string{"HOME=" + home}},
		Path: home + "/wéb shop-1/WORKFLOW.md",
	}
	what, _ := Running(t.Context(), p, "")
	test.Equal(t, "before", what, "")
	test.OK(t, os.Symlink(filepath.Dir(p.Path), home+"/link"))
	unit := test.Must(filepath.Abs("../../../../../scripts/package/units/symphony@.timer"))
	wants := filepath.Join(home, ".config/systemd/user/timers.target.wants")
	test.OK(t, os.MkdirAll(wants, 0o700))
	for _, folder := range []string{home + "/link", filepath.Dir(p.Path)} {
		out, err := exec.Command("systemd-escape", "--path", "--template=symphony@.timer", folder).Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("systemd-escape is not installed")
		}
		name := strings.TrimSpace(string(out))
		link := filepath.Join(wants, name)
		test.OK(t, errors.Join(err, os.RemoveAll(wants), os.Mkdir(wants, 0o700), os.Symlink(unit, link)))
		what, hint := Running(t.Context(), p, "")
		test.Equal(t, "what runs passes", what, name)
		test.Equal(t, "the next step", hint, "systemctl --user disable --now "+text.ShellQuote(name))
	}
	other := wiring.NewProject(p.Env, filepath.Join(filepath.Dir(p.Path), "other.md"), "")
	what, _ = Running(t.Context(), other, "")
	test.Equal(t, "what runs passes of another file there", what, "")
	err := (&plan{caller: p, program: "/usr/bin/symphony"}).installable(t.Context(), willing{}, 0)
	if exit.From(err).Code != "schedule_failed" {
		t.Error(err)
	}
}

// A unit that can't be read is not taken for a missing one.
func TestUnreadableUnit(t *testing.T) {
	home := t.TempDir()
	p := &wiring.Project{
		Env:      &environ.Env{Home: home, Environ: []string{"HOME=" + home}, Now: time.Now},
		Path:     home + "/WORKFLOW.md",
		StateDir: home + "/state",
	}
	unit := newTimer(&plan{caller: p, p: p}, false).list[1].path
	test.OK(t, os.MkdirAll(unit, 0o700)) // a directory can't be read as a file
	_, err := Remove(t.Context(), p, Options{})
	test.Equal(t, "code", exit.From(err).Code, "schedule_failed")
	status, err := ReadStatus(t.Context(), p)
	test.OK(t, err)
	if len(status.Problems) != 1 || !strings.Contains(status.Problems[0], unit) {
		t.Errorf("problems: %q", status.Problems)
	}
}

// Units of the machine run passes as the account that they name. That may be the account that
// removes them, whose state then records the removal.
func TestAccountOfRemovedSchedule(t *testing.T) {
	for _, c := range []struct {
		has  Options
		want string
	}{
		{Options{}, ""},
		{Options{Cron: true}, ""},
		{Options{System: true, RunAs: "ann"}, ", as ann"},
		{Options{System: true, RunAs: "root"}, ""},
	} {
		test.Equal(t, "the account", c.has.asOther("root"), c.want)
	}
}

// Without systemd nothing but the machine's own service command starts cron.
func TestStartCron(t *testing.T) {
	root := t.TempDir()
	test.Equal(t, "without a daemon", startCron(root), "install one, such as cron or cronie")
	test.OK(t, os.MkdirAll(filepath.Join(root, "usr/sbin"), 0o755))
	test.OK(t, os.WriteFile(filepath.Join(root, "usr/sbin/crond"), nil, 0o755))
	test.Equal(
		t,
		"without systemd",
		startCron(root),
		"start it as root: service crond start",
	)
	test.OK(t, os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755))
	test.Equal(t, "with systemd", startCron(root), "systemctl enable --now crond")
}
