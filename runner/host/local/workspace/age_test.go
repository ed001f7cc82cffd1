package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What was removed is kept for its time on the monotonic clock: whatever becomes of the wall clock. After a reboot only
// that is left.
func TestTrashAgesWithoutTheWallClock(t *testing.T) {
	const keep, year = 24 * time.Hour, 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		boot       string
		wall, mono time.Duration // since the removal
		due        bool
	}{
		"an hour later":                    {"b1", time.Hour, time.Hour, false},
		"a day later":                      {"b1", keep, keep, true},
		"the clock was set a year on":      {"b1", year, time.Hour, false},
		"and a day has passed":             {"b1", year + keep, keep, true},
		"suspended for two days":           {"b1", 2 * keep, time.Hour, false},
		"set back an hour, a day later":    {"b1", keep - time.Hour, keep, true},
		"set back a year, an hour later":   {"b1", -year, time.Hour, false},
		"set back a year, a day later":     {"b1", -year, keep, true},
		"rebooted, an hour later":          {"b2", time.Hour, time.Minute, false},
		"rebooted, a day later":            {"b2", keep, time.Minute, true},
		"rebooted, the clock a minute off": {"b2", -time.Minute, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t)
			boot, mono := "b1", 50*time.Hour
			r.Trash.Clock = func() (string, time.Duration, error) { return boot, mono, nil }
			ready(t, r, owner("A", "r1"))
			_, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Keep: keep, Now: day})
			check(t, err)
			if boot = c.boot; boot == "b1" {
				mono += c.mono
			} else {
				mono = c.mono
			}
			now := day.Add(c.wall)
			due, err := r.ExpiredTrash(now, keep)
			check(t, err)
			n, _, err := purge(t.Context(), r, Purge{Now: now, Keep: keep})
			check(t, err)
			if (len(due) > 0) != c.due || (n == 1) != c.due {
				t.Errorf("due %v, %d deleted", due, n)
			}
			left, err := os.ReadDir(r.trash())
			check(t, err)
			if want := map[bool]int{true: 0, false: 2}[c.due]; len(left) != want {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// What a clock that was a year ahead has put there, before a reboot, would be kept for that year. It gets its time from
// now on.
func TestTrashFromTheFuture(t *testing.T) {
	const keep, year = 24 * time.Hour, 365 * 24 * time.Hour
	r := newRoot(t)
	boot, mono := "b1", time.Hour
	r.Trash.Clock = func() (string, time.Duration, error) { return boot, mono, nil }
	ready(t, r, owner("A", "r1"))
	_, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Keep: keep, Now: day.Add(year)})
	check(t, err)
	boot, mono = "b2", time.Minute
	for _, step := range []struct {
		after   time.Duration
		due     bool
		deleted int
	}{{0, true, 0}, {time.Hour, false, 0}, {keep - 1, false, 0}, {keep, true, 1}} {
		mono = time.Minute + step.after
		due, err := r.ExpiredTrash(day.Add(step.after), keep)
		check(t, err)
		n, _, err := purge(t.Context(), r, Purge{Now: day.Add(step.after), Keep: keep})
		check(t, err)
		if (len(due) > 0) != step.due || n != step.deleted {
			t.Errorf("after %v: due %v, %d deleted", step.after, due, n)
		}
	}
}

// A removed workspace that is taken back leaves nothing behind.
func TestTrashTakenBack(t *testing.T) {
	r := newRoot(t)
	r.Trash.Clock = func() (string, time.Duration, error) { return "b1", time.Hour, nil }
	ready(t, r, owner("A", "r1"))
	report, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Keep: time.Hour, Now: day})
	check(t, err)
	check(t, os.Rename(report.Trash, filepath.Join(r.Path, "A")))
	_, _, err = purge(t.Context(), r, Purge{Now: day, Keep: time.Hour})
	check(t, err)
	if left, err := os.ReadDir(r.trash()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Of two projects on one root neither empties the other's trash before its time, unless space is short.
func TestTrashOfAnotherProject(t *testing.T) {
	r := newRoot(t)
	r.Trash = Trash{Project: "one", Keep: 24 * time.Hour}
	ready(t, r, owner("A", "r1"))
	_, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Keep: r.Trash.Keep, Now: day})
	check(t, err)
	other := *r
	purged := func(keep, mine, after time.Duration) int {
		t.Helper()
		other.Trash = Trash{Project: "two", Keep: mine}
		due, err := other.ExpiredTrash(day.Add(after), keep)
		check(t, err)
		n, _, err := purge(t.Context(), &other, Purge{Now: day.Add(after), Keep: keep})
		check(t, err)
		if n != len(due) {
			t.Errorf("%d due, %d deleted", len(due), n)
		}
		return n
	}
	if n := purged(0, 0, time.Hour) + purged(time.Minute, time.Minute, 24*time.Hour-1); n != 0 {
		t.Errorf("%d deleted before their time", n)
	}
	if n := purged(time.Hour, time.Hour, 24*time.Hour); n != 1 {
		t.Errorf("%d deleted after their time", n)
	}
	ready(t, r, owner("B", "r1"))
	_, err = r.Remove(t.Context(), owner("B", "r2"), RemoveOptions{Keep: r.Trash.Keep, Now: day})
	check(t, err)
	if n := purged(0, time.Hour, time.Minute); n != 1 {
		t.Errorf("%d deleted for want of space", n)
	}
}
