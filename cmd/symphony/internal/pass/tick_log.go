package pass

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

func LogFormats() []string { return []string{term.TextLog, term.JsonLog} }

// logLevelNames are the values of --log-level, the most talkative first.
func LogLevelNames() []string { return []string{"debug", "info", "warn", "error"} }

// logChoice is what was asked for; both empty where nobody asked.
type LogChoice struct{ Level, Format string }

func (c LogChoice) wanted() bool { return c != LogChoice{} }

func (c LogChoice) check() error {
	if c.Level != "" && !slices.Contains(LogLevelNames(), c.Level) {
		return exit.Usage("tick: --log-level is one of %s, not %q", strings.Join(LogLevelNames(), ", "), c.Level)
	}
	if c.Format != "" && !slices.Contains(LogFormats(), c.Format) {
		return exit.Usage("tick: --log-format is one of %s, not %q", strings.Join(LogFormats(), ", "), c.Format)
	}
	return nil
}

// logger makes the log of a pass, which nobody asked for or somebody did.
func (o TickOptions) logger(w *term.Env) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case o.Log.Level != "":
		level = levelNamed(o.Log.Level)
	case o.Log.wanted() || o.Loop && !o.Json && !o.Quiet:
		level = slog.LevelInfo
	case o.Quiet:
		level = slog.LevelError + 1 // what is wrong is reported once, not logged by every pass
	}
	return term.NewLogAs(w.Stderr, level, o.Log.Format, w.Journal)
}

func levelNamed(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "info":
		return slog.LevelInfo
	case "warn":
		return slog.LevelWarn
	}
	return slog.LevelError
}
