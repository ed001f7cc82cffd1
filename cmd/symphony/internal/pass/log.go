package pass

import (
	"context"
	"log/slog"
)

// logPass writes what a pass did into its log: each action and the sum of it, and at the level debug also who was skipped.
// Errors and warnings are logged where they are told.
func (r Result) logPass(ctx context.Context, log *slog.Logger) {
	if r.Holder != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "locked", slog.Int("pid", r.Holder.PID), slog.String("trigger", r.Holder.Trigger))
		return
	}
	of := []slog.Attr{slog.Int64("pass_id", r.Pass.ID)}
	if r.dryRun {
		of = []slog.Attr{slog.Bool("dry_run", true)}
	}
	for _, a := range r.Applied {
		attrs := append(of[:1:1], a.LogValue().Group()...)
		if a.Err != nil {
			attrs = append(attrs, slog.String("error", a.Err.Error()))
			log.LogAttrs(ctx, slog.LevelWarn, "action not done", attrs...)
			continue
		}
		log.LogAttrs(ctx, slog.LevelInfo, "action", attrs...)
	}
	for _, s := range r.Skips {
		log.LogAttrs(ctx, slog.LevelDebug, "skip", append(of[:1:1], slog.String("issue_id", s.IssueID),
			slog.String("issue_identifier", s.Identifier), slog.String("reason", s.Reason), slog.String("message", s.Message))...)
	}
	log.LogAttrs(ctx, slog.LevelInfo, "pass", append(of[:1:1],
		slog.String("trigger", r.Pass.Trigger), slog.Int64("duration_ms", r.Pass.Duration.Milliseconds()),
		slog.Int("running", r.Running), slog.Int("retrying", r.Retrying), slog.Int("held", r.Held),
		slog.Int("skipped", len(r.Skips)), slog.Int("errors", len(r.Errors)))...)
}
