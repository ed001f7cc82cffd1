package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"pgregory.net/rapid"
)

// The calendar of a timer has every interval that divides minute, hour or day; all others count from pass to pass.
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
		if got := timerLines(every); got != want {
			t.Errorf("%s: %s, want %s", every, got, want)
		}
	}
}

func TestUnitWord(t *testing.T) {
	for word, want := range map[string]string{
		"/home/ann/web-shop/WORKFLOW.md": "/home/ann/web-shop/WORKFLOW.md",
		"/home/ann/Straße/W.md":          "/home/ann/Straße/W.md",
		"a b":                            `"a b"`,
		"100%":                           "100%%",
		`it's`:                           `"it's"`,
		`a"b\c`:                          `"a\"b\\c"`,
		"":                               `""`,
		"#x;":                            `"#x;"`,
	} {
		if got := UnitWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// Whatever a crontab holds: our line comes into it once, and with its going every byte is as before.
func TestWithLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{
			"* * * * * x", "", "# c", "A=b # symphony-other", "#* * * * * x # symphony-a", "\t", "* * * * * x # symphony-a ", "é%\\%",
		})).Draw(t, "lines")
		before := ""
		if len(lines) > 0 {
			before = strings.Join(lines, "\n") + "\n"
		}
		mark := cronMark("symphony-a")
		once, was := withLine(before, "* * * * * ours"+mark, mark)
		if was != "" || strings.Count(once, "ours") != 1 {
			t.Fatalf("added: %q, was %q", once, was)
		}
		if again, was := withLine(once, "* * * * * ours"+mark, mark); again != once || was != "* * * * * ours"+mark {
			t.Fatalf("added again: %q, was %q", again, was)
		}
		twice := once + rapid.SampledFrom([]string{"", "* * * * * ours" + mark + "\n"}).Draw(t, "copied") // by an editor
		other, _ := withLine(twice, "* * * * * other"+mark, mark)
		if other != strings.Replace(once, "ours", "other", 1) {
			t.Fatalf("changed: %q", other)
		}
		if after, was := withLine(other, "", mark); after != before || was != "* * * * * other"+mark {
			t.Fatalf("removed: %q, was %q; want %q", after, was, before)
		}
	})
}

// A crontab without a newline at its end gets one; else our line would be a part of its last.
func TestWithLineAfterNoNewline(t *testing.T) {
	if got, _ := withLine("a", "b # x", " # x"); got != "a\nb # x\n" {
		t.Errorf("%q", got)
	}
}

func TestSystemdTimes(t *testing.T) {
	want := time.Date(2026, 11, 20, 18, 17, 30, 0, time.UTC)
	for text, want := range map[string]time.Time{"Fri 2026-11-20 18:17:30 UTC": want, "": {}, "n/a": {}, "0": {}} {
		if got := systemdTime(text); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]time.Duration{
		"10h 20min 26.488399s": 10*time.Hour + 20*time.Minute + 26488399*time.Microsecond,
		"1w 2d 5ms 7us":        9*24*time.Hour + 5*time.Millisecond + 7*time.Microsecond,
		"1month 1y":            730*time.Hour + 30*time.Minute + 365*24*time.Hour + 6*time.Hour,
	} {
		if got, ok := systemdSpan(text); !ok || (got-want).Abs() > time.Microsecond {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "0", "infinity", "5", "3 apples", "-1s x"} {
		if got, ok := systemdSpan(text); ok {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// Programs that will be gone are refused, wherever go run and go test have made them.
func TestTemporaryProgram(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	p := &project.Project{Env: &term.Env{Environ: []string{"TMPDIR=/var/scratch"}}}
	for program, gone := range map[string]bool{
		"/home/ann/bin/symphony":                               false,
		"/usr/local/bin/symphony":                              false,
		"/home/ann/go-build/symphony":                          true, // GOCACHE without anything else
		"/home/ann/my-go-builds/symphony":                      false,
		"/tmp/symphony":                                        true,
		"/tmpfs/symphony":                                      false,
		"/var/tmp/x/symphony":                                  true,
		"/dev/shm/symphony":                                    true,
		"/var/scratch/go-build1/b001/exe/symphony":             true,
		"/home/ann/.cache/go-build/4b/" + hash + "-d/symphony": true,
		"/home/ann/cache/4b/" + hash + "-d/symphony":           true,
		"": true,
	} {
		err := (&scheduled{caller: p, program: program}).temporary()
		if gone != (err != nil) || gone && exit.From(err).Code != "temporary_program" {
			t.Errorf("%s: %v", program, err)
		}
	}
}
