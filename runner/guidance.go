package runner

import (
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// What a turn is told that is not the first of its thread (specification 7.1): never the first prompt again, which
// stands in the thread already, but where the work is and what is new. All of it is text made of values, so that
// it can be read as a whole in a golden file.

// guidanceTitle begins every one.
const guidanceTitle = "Continuation guidance:"

const handOverLine = "- When everything asked for is done, hand the issue over as the task describes. If something outside the workspace is missing, say so on the issue and hand it over."

// continuation is the text of a later turn of a run.
func continuation(issue reconcile.Issue, turn, maxTurns int, n news) string {
	return paragraphs(guidanceTitle, listed(
		fmt.Sprintf("- This is continuation turn #%d of %d in this run. The task is the one this thread began with; its text is above and not repeated.", turn, maxTurns),
		fmt.Sprintf("- %s is still in state %q. Look at the workspace as it is now and go on from there; do not begin again.", issue.Identifier, issue.State),
		handOverLine,
	), n.text())
}

// resumption is the text of a run's first turn on the thread of an earlier run. Last is that run, nil where nothing of
// it is kept. Meanwhile says that another thread has worked on the issue since.
func resumption(issue reconcile.Issue, attempt int, last *reconcile.Run, p reconcile.Policy, meanwhile bool, n news) string {
	since := ""
	if meanwhile {
		since = "- Since then another thread has worked on the issue, in another home of codex's. What you don't know of in the workspace is its work."
	}
	return paragraphs(guidanceTitle, listed(
		"- A new run goes on with this thread. The task is the one it began with; its text is above and not repeated.",
		"- "+whyEnded(last, issue, attempt, p),
		cutShort(last),
		since,
		"- The workspace is as it was left. Look at it as it is now and go on from there; do not begin again.",
		fmt.Sprintf("- %s is in state %q.", issue.Identifier, issue.State),
		fmt.Sprintf("- Attempt: %d", attempt),
		handOverLine,
	), n.text())
}

// What a new thread is told of the earlier ones.
const (
	earlierWork   = "Note: an earlier thread worked on this issue in this workspace, and can't be gone on with. What it did is there: look at the workspace as it is now before you begin."
	workElsewhere = "Note: an earlier thread worked on this issue in this workspace. It can't be gone on with now, because it is in another home of codex's than the one in use. What it did is there: look at the workspace as it is now before you begin."
)

// freshStart is the text of a new thread's first turn: the prompt as the workflow has it. Where an earlier thread has
// worked in the workspace a note says so. Told is what people have written that the prompt does not hold.
func freshStart(prompt, note, told string) string {
	if note == "" && told == "" {
		return prompt
	}
	return paragraphs(strings.TrimRight(prompt, "\n"), note, told)
}

// listed joins those that say something.
func listed(list ...string) string { return joined("\n", list) }

// paragraphs joins those that say something.
func paragraphs(list ...string) string { return joined("\n\n", list) }

func joined(with string, list []string) string {
	var some []string
	for _, s := range list {
		if s != "" {
			some = append(some, s)
		}
	}
	return strings.Join(some, with)
}
