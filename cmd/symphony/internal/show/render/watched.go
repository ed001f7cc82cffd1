package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// waitsText says why a pull request waits, and for how long; in a pipe since when.
func waitsText(w *term.Env, now time.Time, v reconcile.Waits) string {
	if v.Since == nil {
		return v.Text
	}
	if w.Piped() {
		return fmt.Sprintf("%s (since %s)", v.Text, text.Rfc3339(*v.Since))
	}
	return fmt.Sprintf("%s (for %s)", v.Text, text.Age(now, *v.Since))
}

// lookErrorText says why the last look at pull requests failed.
func lookErrorText(w *term.Env, now time.Time, e state.LookError) string {
	return fmt.Sprintf("failed: %s: %s (first %s)", e.Code, e.Message, term.AgoText(w, now, e.Since))
}

// mostNamed is how many pull requests the line about the watched ones names.
const mostNamed = 3

// printWatched prints a line about the watched pull requests of a project. It names a pull
// request that may need a person: a check does not report, or the branch was replaced.
func printWatched(w *term.Env, v view.Overview, named bool) {
	line := watchedText(w, v, named)
	if line != "" {
		fmt.Fprintln(w.Stdout, hang(w, "", line))
	}
}

// watchedText is the line about the watched pull requests of a project; empty if nothing is
// watched.
func watchedText(w *term.Env, v view.Overview, named bool) string {
	if len(v.Watched) == 0 {
		return ""
	}
	line := "watches " + text.Plural(len(v.Watched), v.PullWords().Name)
	if named {
		line = v.Project.Name + ": " + line
	}
	var list []string
	for _, r := range v.Watched {
		code := r.WaitsFor.Code
		if code == reconcile.WaitsLate || code == reconcile.WaitsPerson {
			list = append(list, r.Identifier+" waits for "+waitsText(w, v.GeneratedAt, r.WaitsFor))
		}
	}
	if n := len(list); n > mostNamed {
		list = append(list[:mostNamed], fmt.Sprintf("%d more", n-mostNamed))
	}
	if len(list) > 0 {
		line += "; " + strings.Join(list, "; ")
	}
	return text.Visible(line)
}
