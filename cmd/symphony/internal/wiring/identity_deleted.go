package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// RestoreFile says how the file of an issue comes back that is gone from the folder of the issues:
// from a folder below, into which somebody has moved it, or by a command of git, if git has it. state
// is the last one of the issue, which may be newer than the committed one; empty to leave it out.
func RestoreFile(ctx context.Context, p *Project, cfg *workflow.Config, identifier, state string) string {
	moved := movedFile(cfg.Tracker.Folder, identifier)
	if moved != "" {
		return fmt.Sprintf("it is in a folder below, where no issue is read: mv %s %s",
			text.ShellQuote(filepath.Join(cfg.Tracker.Folder, moved)), text.ShellQuote(cfg.Tracker.Folder))
	}
	name := deletedFile(ctx, p, cfg.Tracker.Folder, identifier)
	if name == "" {
		return "restore the file, from git or a backup"
	}
	folder := text.ShellQuote(cfg.Tracker.Folder)
	command := fmt.Sprintf("git -C %s checkout HEAD -- %s brings the file back", folder, text.ShellQuote(name))
	if state != "" {
		command += ", as it was committed: then write status: " + state + " into it"
	}
	return command
}

// IsDeleted reports whether an error of the tracker says that the file of an issue was deleted from the
// folder of the issues.
func IsDeleted(cfg *workflow.Config, err error) bool {
	return cfg.Tracker.Folder != "" && errors.Is(err, reconcile.ErrGone)
}

// deletedFile returns the name of an issue's file in the last commit that is no longer in the
// folder, such as "A-1.md" or "task-1 - Mend the door.md"; empty if git has none.
func deletedFile(ctx context.Context, p *Project, folder, identifier string) string {
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	said, err := gitcmd.Ask(ctx, folder, p.Environ(),
		"diff", "-z", "--name-only", "--relative", "--diff-filter=D", "HEAD", "--", ".")
	if err != nil { // no repository, or no commit
		return ""
	}
	return text.First(strings.Split(said, "\x00"), func(name string) bool {
		return name == filepath.Base(name) && isFileOf(name, identifier)
	})
}

// movedFile returns the place of an issue's file in a folder below that of the issues, such as
// done/A-1.md; empty if there is none.
func movedFile(folder, identifier string) string {
	below, _ := fs.Glob(os.DirFS(folder), "*/*.md") // the pattern is right
	return text.First(below, func(name string) bool { return isFileOf(name, identifier) })
}

// isFileOf reports whether a file has the name of an issue's, as A-1.md and "A-1 - Mend the door.md" are
// for A-1.
func isFileOf(path, identifier string) bool {
	id, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".md"), " ")
	return strings.EqualFold(id, identifier)
}
