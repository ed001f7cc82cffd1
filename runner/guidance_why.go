package runner

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
)

// whyEnded says in plain words why the last run on the thread ended. Attempt is that of the new one.
func whyEnded(last *reconcile.Run, issue reconcile.Issue, attempt int, p reconcile.Policy) string {
	if last == nil {
		return "How the last run on it ended is not known any more."
	}
	if back := cameBack(*last, issue, attempt, p); back != "" {
		return back
	}
	switch last.Outcome {
	case reconcile.Succeeded:
		return fmt.Sprintf("The last run ended well after %s, and the issue is still to be worked on.", count(last.TurnsDone, "turn"))
	case reconcile.Canceled:
		return canceledBecause(*last)
	case reconcile.InterruptedRun:
		return interruptedBy(*last)
	case reconcile.Stalled:
		return "The last run was ended because the agent made no progress: " + sentence(last.ErrorText)
	case reconcile.TimedOut:
		return "The last run was ended because the agent fell silent: " + sentence(last.ErrorText)
	case reconcile.Lost:
		return "The last run was lost: the process that supervised it did not live to its end (" + said(last.ErrorText) + "). That was no fault of the work."
	default: // failed
		return failedWith(*last)
	}
}

// cameBack tells of an issue that was handed over, or taken away, and is to be worked on again; "" where it never went.
// A run that succeeded is followed by a continuation, whose attempt is 1, unless the issue was let go in between.
func cameBack(last reconcile.Run, issue reconcile.Issue, attempt int, p reconcile.Policy) string {
	if to := last.HandoffState; to != "" && !p.Active(to) {
		return fmt.Sprintf("In the last run the issue was handed over (state %q). It has come back: it is in state %q now.", to, issue.State)
	}
	if last.Outcome == reconcile.Succeeded && attempt == 0 {
		return fmt.Sprintf("After the last run, which ended well, the issue left the active states. It has come back: it is in state %q now.", issue.State)
	}
	return ""
}

func canceledBecause(last reconcile.Run) string {
	switch last.ErrorCode {
	case reconcile.StopOperator:
		return "An operator stopped the last run, and has now let the work go on."
	case reconcile.StopAll:
		return "An operator stopped all runs, and has now let the work go on."
	case reconcile.StopProject:
		return "The last run was stopped because the workflow named another project for a while."
	}
	return "The last run was stopped because the issue was not to be worked on for a while (" + said(last.ErrorCode) + "). It is again."
}

func interruptedBy(last reconcile.Run) string {
	switch last.ErrorCode {
	case reconcile.CodeRebooted:
		return "The last run was interrupted by a restart of the machine. That was no fault of the work."
	case CodeTerminated:
		return "The last run was interrupted from outside: by a shutdown, or by somebody who ended it. That was no fault of the work."
	}
	return "The last run was interrupted: " + sentence(last.ErrorText) + " That was no fault of the work."
}

func failedWith(last reconcile.Run) string {
	switch codex.Code(last.ErrorCode) {
	case codex.CodePortExit:
		return "In the last run the agent's own program ended unasked: " + sentence(last.ErrorText)
	case codex.CodeTurnFailed:
		return "The last turn failed: " + sentence(last.ErrorText)
	case codex.CodeApprovalRequired, codex.CodeTurnInputRequired:
		return "The last run was ended because the agent asked for what nobody was there to decide: " + sentence(last.ErrorText) + " Find a way without that, or say on the issue what is needed and hand it over."
	default: // told by its code
	}
	text := fmt.Sprintf("The last run failed (%s): %s", said(last.ErrorCode), sentence(last.ErrorText))
	if reconcile.MachineFault(last.ErrorCode) {
		text += " That was no fault of the work."
	}
	return text
}

// cutShort tells of a turn that was not brought to its end: the thread itself does not show the command that it
// was running.
func cutShort(last *reconcile.Run) string {
	if last == nil || last.Turns <= last.TurnsDone {
		return ""
	}
	return "- Its last turn was cut short. A command that was running then was ended with it, and may have done half of its work: its output is not above."
}

// saidLength bounds what is repeated of an error, in bytes.
const saidLength = 400

// said repeats an error's text on one line.
func said(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	text, left := cutAt(text, saidLength)
	switch {
	case text == "":
		return "(nothing more is known)"
	case left > 0:
		return text + " …"
	}
	return text
}

// sentence is what was said with a full stop, where it has no end of its own.
func sentence(text string) string {
	text = said(text)
	if end, _ := utf8.DecodeLastRuneInString(text); strings.ContainsRune(".!?)…", end) {
		return text
	}
	return text + "."
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
