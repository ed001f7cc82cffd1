package page

import (
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
)

// terminalCommand is a command for a terminal that the page does not offer.
type terminalCommand struct{ Purpose, Line string }

// inFull is a command of symphony as it can be typed in any folder.
func inFull(p view.ProjectRow, line string) string {
	if p.WorkflowPath != "" {
		line += " -w " + text.ShellQuote(p.WorkflowPath)
	}
	return "symphony " + line
}

// projectCommands answer questions about a project that the overview leaves open.
func projectCommands(p view.ProjectRow) (list []terminalCommand) {
	for _, c := range []terminalCommand{
		{"What would the next pass do?", "tick --dry-run"},
		{"Stop everything now", "stop --all"},
		{"Is the schedule alive?", "schedule status"},
		{"What would break under cron?", "doctor --all"},
		{"Is WORKFLOW.md right?", "check"},
		{"Remove what finished issues have left", "prune"},
	} {
		list = append(list, terminalCommand{c.Purpose, inFull(p, c.Line)})
	}
	remove := strings.Join([]string{
		inFull(p, "stop --all"),
		inFull(p, "schedule remove"),
		"symphony projects remove " + text.ShellQuote(p.StateDir) + " --workspaces",
	}, " && ")
	return append(
		list,
		terminalCommand{
			"Remove symphony from this project (after the last project, remove the program too)",
			remove,
		},
	)
}
