package reconcile

import (
	"fmt"
	"strings"
	"time"
)

// Waits says why a watched pull request waits, such as for "checks, which are at work" since
// 10:05.
type Waits struct {
	// Code is rework, hold, person, quiet, late_check, checks, review, merge,
	// symphony, forge or merge_refused.
	Code string `json:"code"`
	// Text names the reason in a line, without the time: `the check "sign", which has not
	// reported`.
	Text string `json:"text"`
	// Since is when that began; null where it is not known.
	Since *time.Time `json:"since"`
}

// The codes.
const (
	WaitsRework = "rework"     // an agent works on the causes for which the issue came back
	WaitsHold   = "hold"       // the issue is held, and an operator must end that
	WaitsPerson = "person"     // a person replaced the branch
	WaitsQuiet  = "quiet"      // two minutes without a further review
	WaitsLate   = "late_check" // a check did not report for an hour
	WaitsChecks = "checks"     // checks are at work
	WaitsReview = "review"     // nothing keeps it from a review
	WaitsMerge  = "merge"      // a reviewer approved it
	// symphony merges it, with the next pass or once its checks have ended
	WaitsSymphony = "symphony"
	WaitsForge    = "forge"         // symphony asked the forge to merge it
	WaitsRefused  = "merge_refused" // symphony could not merge it
)

func newWaits(code, text string, since time.Time) *Waits {
	w := &Waits{Code: code, Text: text}
	if !since.IsZero() {
		since = since.UTC()
		w.Since = &since
	}
	return w
}

// WaitsFor returns why an open pull request waits; nil if it was not read yet, or if nothing
// more is expected from it.
func (w *Watch) WaitsFor(f Feedback, now time.Time) *Waits {
	if w.Ended || w.Pull.State != pullOpen {
		return nil
	}
	if w.Rework != nil {
		return newWaits(WaitsRework, w.Rework.String(), w.Rework.At)
	}
	if w.Claim == Held && w.Held != "" {
		return newWaits(WaitsHold, "the end of the issue's hold", time.Time{})
	}
	if differs := w.Differs(); differs != "" {
		text := "a person: " + differs
		if w.OtherBase() {
			text += "; symphony retry " + w.Identifier + " accepts that base"
		}
		return newWaits(WaitsPerson, text, time.Time{})
	}
	if w.Pull.Head != w.Delivered.Commit && w.pushKnown() && !w.Pushed.Builds {
		const replaced = "a person: the branch was replaced by commit %.12s, which does not contain what was delivered"
		return newWaits(WaitsPerson, fmt.Sprintf(replaced, w.Pull.Head), w.HeadAt)
	}
	if r := w.unquiet(f, now); r != nil {
		return newWaits(WaitsQuiet, fmt.Sprintf("two quiet minutes after the review by %s", r.Author), r.At)
	}
	if name, since := w.Late(now); name != "" {
		return newWaits(WaitsLate, fmt.Sprintf("the check %q, which has not reported", name), since)
	}
	if w.pending() {
		return newWaits(WaitsChecks, "checks, which are at work", w.checksSince())
	}
	if waits := w.waitsForMerge(f, now); waits != nil {
		return waits
	}
	return w.waitsForPerson()
}

// waitsForPerson returns the wait for a person, of a pull request without other reasons to
// wait.
func (w *Watch) waitsForPerson() *Waits {
	if w.Pull.verdict() == reviewApproved {
		return newWaits(WaitsMerge, "a merge", w.HeadAt)
	}
	return newWaits(WaitsReview, "a review", w.HeadAt)
}

// unquiet is the newest review that is less than two minutes old and will bring the issue
// back; nil if there is none.
func (w *Watch) unquiet(f Feedback, now time.Time) (newest *Review) {
	for _, r := range w.unanswered(f) {
		if now.Sub(r.At) < reviewQuiet && (newest == nil || r.At.After(newest.At)) {
			newest = &r
		}
	}
	return newest
}

// named names the first of some checks.
func named(names []string) string {
	if n := len(names); n > namedCauses {
		return fmt.Sprintf("%s, %d more", strings.Join(names[:namedCauses], ", "), n-namedCauses)
	}
	return strings.Join(names, ", ")
}
