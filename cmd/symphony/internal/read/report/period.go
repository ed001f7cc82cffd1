package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
)

// usualPeriod is how far back a report reaches without --since: a night.
const usualPeriod = 12 * time.Hour

// Period is the time of a report. Since is part of it, Until is not.
type Period struct{ Since, Until time.Time }

// ParsePeriod reads --since and --until of report.
func ParsePeriod(since, until string, now time.Time) (Period, error) {
	p := Period{Since: now.Add(-usualPeriod), Until: now}
	if until != "" {
		end, err := ParseTime("report", "until", until, now, 1)
		if err != nil {
			return p, err
		}
		if end.Before(now) {
			p = Period{Since: end.Add(-usualPeriod), Until: end}
		}
	}
	if since != "" {
		begin, err := ParseTime("report", "since", since, now, 0)
		if err != nil {
			return p, err
		}
		p.Since = begin
	}
	if !p.Since.Before(p.Until) {
		return p, exit.Usage(
			"report: there is no time between %s and %s: --since must be before --until and in the past",
			text.Rfc3339(p.Since),
			text.Rfc3339(p.Until),
		)
	}
	return p, nil
}

// ParseTime reads the value of a flag: an age such as 12h or 7d, a time, or a day of the local
// clock such as 2026-01-31, friday or yesterday. With daysAfter 0 the day means its beginning,
// with 1 its end.
func ParseTime(command, flag, value string, now time.Time, daysAfter int) (time.Time, error) {
	age, isAge := parseAge(value)
	if isAge {
		return now.Add(-age), nil
	}
	day, isDay := parseDay(value, now)
	if isDay {
		// time.Date also knows the zones in which a day of summer time begins at one o'clock.
		return time.Date(day.Year(), day.Month(), day.Day()+daysAfter, 0, 0, 0, 0, now.Location()), nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, exit.Usage("%s: --%s needs an age such as 12h or 7d, a day such as 2026-01-31, friday or "+
			"yesterday, or a time such as 2026-01-31T18:00:00Z, not %q", command, flag, value)
	}
	return t, nil
}

// parseDay reads a date, today, yesterday, or the name of a weekday, which means the last one:
// on a Friday, friday is a week ago.
func parseDay(value string, now time.Time) (time.Time, bool) {
	date, err := time.Parse(time.DateOnly, value)
	if err == nil {
		return date, true
	}
	name := strings.ToLower(value)
	switch name {
	case "today":
		return now, true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	}
	for ago := 1; ago <= 7; ago++ {
		day := now.AddDate(0, 0, -ago)
		if strings.ToLower(day.Weekday().String()) == name {
			return day, true
		}
	}
	return time.Time{}, false
}

// parseAge reads a duration, of which whole days may be a part: 12h, 7d, 2d12h. It is at most a
// century, which a Duration can hold.
func parseAge(text string) (time.Duration, bool) {
	var days time.Duration
	number, rest, hasDays := strings.Cut(text, "d")
	if hasDays {
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || n > 36500 {
			return 0, false
		}
		days = time.Duration(n) * 24 * time.Hour
		if rest == "" {
			return days, true
		}
	} else {
		rest = text
	}
	d, err := time.ParseDuration(rest)
	return days + d, err == nil && d >= 0 && d <= 24*time.Hour*36500
}
