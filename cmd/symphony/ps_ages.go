package main

import (
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// ago is relative on a terminal, exact in a pipe.
func agoText(w *term.Env, now, t time.Time) string {
	if w.Width == 0 {
		return rfc3339(t)
	}
	return age(now, t) + " ago"
}

func sinceText(w *term.Env, now, t time.Time) string {
	if w.Width == 0 {
		return rfc3339(t)
	}
	return age(now, t)
}

// lasted is short on a terminal, in a pipe exact: seconds.
func lastedText(w *term.Env, d time.Duration) string {
	if w.Width == 0 {
		return fmt.Sprintf("%.3f", max(d, 0).Seconds())
	}
	return duration(d)
}

func age(now, t time.Time) string { return duration(now.Sub(t)) }

// duration is short: 41s, 3m, 2h05m, 4d.
func duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
