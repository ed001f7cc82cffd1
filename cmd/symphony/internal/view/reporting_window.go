package view

import (
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// usualWindow is a night.
const usualWindow = 12 * time.Hour

// window is the time that a report is about: since belongs to it, until does not.
type Window struct {
	Since, Until time.Time
	// present: it reaches up to now, so that what waits and is held now belongs to it.
	Present bool
}

// newWindow reads --since and --until. A day is one of the local clock, whole: as since it begins, as until it ends the time.
func NewWindow(since, until string, now time.Time) (Window, error) {
	o := Window{now.Add(-usualWindow), now, true}
	var err error
	if until != "" {
		if o.Until, err = MomentOf("report", "until", until, now, 1); err != nil {
			return o, err
		}
		o.Until = earlier(o.Until, now)
		o.Since, o.Present = o.Until.Add(-usualWindow), o.Until.Equal(now)
	}
	if since != "" {
		if o.Since, err = MomentOf("report", "since", since, now, 0); err != nil {
			return o, err
		}
	}
	if !o.Since.Before(o.Until) {
		return o, exit.Usage("report: there is no time between %s and %s: --since must be before --until and in the past", term.Rfc3339(o.Since), term.Rfc3339(o.Until))
	}
	return o, nil
}

// earlier: of the time to come nothing is known.
func earlier(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// momentOf reads a time: an age such as 12h or 7d, a day, or the time itself. Of a day it is the beginning, so many days
// later.
func MomentOf(command, flag, text string, now time.Time, days int) (time.Time, error) {
	if age, ok := ageOf(text); ok {
		return now.Add(-age), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		// Made of the date, for not everywhere does every day begin at midnight.
		return time.Date(day.Year(), day.Month(), day.Day()+days, 0, 0, 0, 0, now.Location()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, exit.Usage("%s: --%s wants an age such as 12h or 7d, a day such as 2026-01-31 or a time such as 2026-01-31T18:00:00Z, not %q", command, flag, text)
	}
	return t, nil
}

// mostDays keeps an age within what a duration can hold.
const mostDays = 36500

func ageOf(text string) (time.Duration, bool) {
	if number, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(number, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= mostDays
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}
