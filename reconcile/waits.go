package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Waits says why a watched pull request waits, such as for "checks, which are at work" since
// 10:05.
type Waits struct {
	// Code is rework, hold, person, quiet, late_check, checks, review, review_or_merge, merge,
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
	// it is red, and the agent answered that without a commit
	WaitsReviewOrMerge = "review_or_merge"
	WaitsMerge         = "merge" // a reviewer approved it
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
	code := WaitsReview
	text := "a review"
	answered := w.answered()
	if len(answered) > 0 {
		code = WaitsReviewOrMerge
		text = "a review or a merge"
	}
	if w.Pull.verdict() == reviewApproved {
		code = WaitsMerge
		text = "a merge"
	}
	if len(answered) > 0 {
		text += fmt.Sprintf("; %s, which was answered without a commit", strings.Join(answered, ", "))
	} else if known := w.knownFailures(); len(known.OfBase) > 0 {
		text += "; red like its base: " + named(known.OfBase)
	}
	return newWaits(code, text, w.HeadAt)
}

// answered lists the faults of the newest commit that are left although the issue came back
// for them: "lint failed".
func (w *Watch) answered() (list []string) {
	var failed []string
	known := w.knownFailures()
	for _, c := range w.Pull.Checks.all() {
		if c.State == CheckFailure && slices.Contains(known.Told, c.Name) {
			failed = append(failed, c.Name)
		}
	}
	if len(failed) > 0 {
		list = append(list, named(failed)+" failed")
	}
	if w.Pull.Mergeable == pullConflicts && w.handled("conflict "+w.Pull.Head) {
		list = append(list, "it conflicts with its base")
	}
	return list
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
