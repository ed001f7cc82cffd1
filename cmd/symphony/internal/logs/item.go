package logs

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/agent"
)

// duration is how long a command took.
func duration(i *agent.Item) string {
	if !i.Ended || i.ExitCode == nil || i.DurationMS == nil {
		return ""
	}
	d := time.Duration(*i.DurationMS) * time.Millisecond
	if d < time.Second {
		return " (" + term.Duration(d) + ")"
	}
	return fmt.Sprintf(" (%s)", d.Round(100*time.Millisecond))
}

// outputLines are the end of a command's output, of a successful command only where everything is shown.
func outputLines(i *agent.Item, limits lineLimits) []string {
	if i.ExitCode != nil && *i.ExitCode == 0 && limits != whole {
		return nil
	}
	return lastLines(i.Output, limits.output)
}

// changeLines are the files of a change, each with the beginning of its diff.
func changeLines(i *agent.Item, most int) (lines []string) {
	for _, c := range i.Changes {
		lines = append(lines, strings.TrimSpace(c.Kind+" "+c.Path)+changedLines(c.Diff))
		lines = append(lines, firstLines(asDiff(c.Kind, c.Diff), most)...)
	}
	return lines
}

// asDiff makes a diff of the text of a file that is added or deleted, which codex sends as it is.
func asDiff(kind, diff string) string {
	sign := map[string]string{"add": "+", "delete": "-"}[kind]
	if sign == "" || diff == "" || hasHunks(diff) {
		return diff
	}
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	return sign + strings.Join(lines, "\n"+sign)
}

func hasHunks(diff string) bool {
	return strings.HasPrefix(diff, "@@") || strings.Contains(diff, "\n@@")
}

// changedLines says how many lines a diff adds and removes.
func changedLines(diff string) string {
	if !hasHunks(diff) {
		return ""
	}
	added, removed, inHunk := 0, 0, false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "@@"):
			inHunk = true // the names of the files come before
		case inHunk && strings.HasPrefix(line, "+"):
			added++
		case inHunk && strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return fmt.Sprintf(" +%d -%d", added, removed)
}
