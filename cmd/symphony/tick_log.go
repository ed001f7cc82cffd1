package main

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

func logFormats() []string { return []string{term.TextLog, term.JsonLog} }

// logLevelNames are the values of --log-level, the most talkative first.
func logLevelNames() []string { return []string{"debug", "info", "warn", "error"} }

// logChoice is what was asked for; both empty where nobody asked.
type logChoice struct{ level, format string }

func (c logChoice) wanted() bool { return c != logChoice{} }

func (c logChoice) check() error {
	if c.level != "" && !slices.Contains(logLevelNames(), c.level) {
		return exit.Usage("tick: --log-level is one of %s, not %q", strings.Join(logLevelNames(), ", "), c.level)
	}
	if c.format != "" && !slices.Contains(logFormats(), c.format) {
		return exit.Usage("tick: --log-format is one of %s, not %q", strings.Join(logFormats(), ", "), c.format)
	}
	return nil
}

// logger makes the log of a pass, which nobody asked for or somebody did.
func (o tickOptions) logger(w *term.Env) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case o.log.level != "":
		level = levelNamed(o.log.level)
	case o.log.wanted() || o.loop && !o.json && !o.quiet:
		level = slog.LevelInfo
	case o.quiet:
		level = slog.LevelError + 1 // what is wrong is reported once, not logged by every pass
	}
	return term.NewLogAs(w.Stderr, level, o.log.format, w.Journal)
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
