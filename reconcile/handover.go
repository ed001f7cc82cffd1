package reconcile

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// Handover is an agent's request by its tool hand_over: symphony is to comment on its issue
// and move it, once its commits are verified and delivered. Without a summary and without
// Blocked it is only a verification, for which an operator asked.
type Handover struct {
	RunID string    `json:"run_id"` // of the agent
	At    time.Time `json:"at"`
	// Summary is the agent's report of its work. Instead, Blocked is the agent's request to a
	// person.
	Summary string `json:"summary,omitempty"`
	Blocked string `json:"blocked,omitempty"`
	// NoChange: the agent says that nothing has to be changed. Leave are the branches, stashes
	// and files that it means to leave as they are.
	NoChange bool     `json:"no_change,omitempty"`
	Leave    []string `json:"leave,omitempty"`
	// Notes are sentences for people about the work, such as "The work deletes tests: `a_test.go`."
	Notes []string `json:"notes,omitempty"`
	// to which the issue is moved, unless the workflow names another state by then
	State string `json:"state"`
	// Delivers: the agent's commits must be pushed before. Verifies: verify must pass before.
	// Commented: the comment is posted.
	Delivers  bool `json:"delivers,omitempty"`
	Verifies  bool `json:"verifies,omitempty"`
	Commented bool `json:"commented,omitempty"`
	// CommentID and CommentAt are the id and the time of that comment, by the tracker; empty if
	// its comments can't be read.
	CommentID string    `json:"comment_id,omitempty"`
	CommentAt time.Time `json:"comment_at,omitzero"`
	// Commit is HEAD of a workspace on another machine after the turn, copied to this machine;
	// empty if there is no copy.
	Commit string `json:"commit,omitempty"`
	// Verification is the last result of verify; nil if it was not run yet.
	Verification *Verification `json:"verification,omitempty"`
	// UnverifiedBy is the account whose user hands the issue over although verify did not
	// pass; empty for none.
	UnverifiedBy string `json:"unverified,omitempty"`
}

// Verification is the result of the workflow's verify command in the workspace of an issue.
type Verification struct {
	At     time.Time `json:"at"`               // when it ended
	Commit string    `json:"commit,omitempty"` // of HEAD; empty without a repository
	// Round counts the failures in a row, also over several runs; an operator's retry begins
	// again. If the command passed, it is the count before that.
	Round   int    `json:"round,omitempty"`
	Command string `json:"command"` // its first line
	// Exit is its exit code. 125 to 127: it could not be run, which is no fault of the agent.
	Exit   int    `json:"exit"`
	Late   bool   `json:"late,omitempty"` // it was ended at verify.timeout_ms
	TookMS int64  `json:"took_ms"`
	Output string `json:"output,omitempty"` // the end of it, at most 16 KiB
	// Runs are files that the command may run or obey and that the work changed since its base,
	// such as Makefile or scripts/test.sh.
	Runs []string `json:"runs,omitempty"`
	// InWorkspace: the command ran in the workspace, because there is no commit.
	InWorkspace bool `json:"in_workspace,omitempty"`
	// Offline is the setting that opens the network to the sandbox, if a command failed
	// because it found no network: "agent.network: true".
	Offline string `json:"offline,omitempty"`
}

// The exit codes of a verification whose command can't be run: because symphony could not
// prepare it, by its mode, or because there is no such program.
const (
	ExitNotPrepared   = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Passed reports whether the command succeeded.
func (v *Verification) Passed() bool { return v != nil && v.Exit == 0 && !v.Late }

// Unusable reports whether the command could not be run at all.
func (v *Verification) Unusable() bool {
	return v != nil && !v.Late && v.Exit >= ExitNotPrepared && v.Exit <= exitNotFound
}

// String describes the result in a few words of Markdown, such as "verified 1a2b3c4d5e6f: `go
// test ./...`, 41s".
func (v *Verification) String() string {
	words := "verified"
	end := ""
	switch {
	case v.Late:
		words = "not verified"
		end = ", ended at its time limit, verify.timeout_ms"
	case v.Exit != 0:
		words = "not verified"
		end = fmt.Sprintf(", exit code %d", v.Exit)
	}
	if v.Commit != "" {
		words += fmt.Sprintf(" %.12s", v.Commit)
	}
	if v.Offline != "" && !v.Passed() {
		end += ", without network"
	}
	took := (time.Duration(v.TookMS) * time.Millisecond).Round(time.Second)
	return fmt.Sprintf("%s: `%s`, %s%s", words, strings.ReplaceAll(v.Command, "`", "'"), took, end)
}

// Caveats are sentences in Markdown that limit the proof of the result, such as files that the
// work changed and the command may run. For many results there are none.
func (v *Verification) Caveats() (sentences []string) {
	if len(v.Runs) == 0 {
		return nil
	}
	return []string{"The work changes files that this command may run or obey: " + QuotedNames(v.Runs) + "."}
}

// Verification returns the last result of verify for the issue, as the run knows it; nil if it
// did not run.
func (d *DeliveryResult) Verification() *Verification {
	if d == nil || d.Handover == nil {
		return nil
	}
	return d.Handover.Verification
}

// Asked reports whether an agent asked for the handover. A handover without an agent is only a
// verification, for which an operator asked.
func (h *Handover) Asked() bool { return h != nil && (h.Summary != "" || h.Blocked != "") }

// Marker is the last line of the comment about the hand-over.
func (h *Handover) Marker() string { return CommentMarker + "handover " + h.RunID + " -->" }

// AnsweredAfter is the time after which a comment may answer the agent, by the tracker's clock:
// a millisecond before its own comment, because trackers round times, some to seconds. It is
// zero if the agent made no comment.
func (h *Handover) AnsweredAfter() time.Time {
	if h == nil || h.CommentAt.IsZero() {
		return time.Time{}
	}
	return h.CommentAt.Truncate(time.Millisecond).Add(-time.Millisecond)
}

// AsksHelp reports whether the agent can't go on without a person.
func (h *Handover) AsksHelp() bool { return h != nil && h.Blocked != "" }

// TakesAnything reports whether a user decided to deliver the work although something speaks
// against it.
func (h *Handover) TakesAnything() bool { return h != nil && h.UnverifiedBy != "" }

// Waits reports whether symphony still must finish the handover: the agent asked for it, and
// verify did not fail for it.
func (h *Handover) Waits() bool { return h.Asked() && !h.Refused() }

// About returns the handover of a commit, which a later delivery may have to find; nil for no
// handover.
func (h *Handover) About(commit string) *Handover {
	if h == nil {
		return nil
	}
	next := *h
	next.Commit = commit
	return &next
}

// Refused reports whether verify failed for the handover, and no user decided to hand over
// nevertheless.
func (h *Handover) Refused() bool {
	return h != nil && h.Verification != nil && !h.Verification.Passed() && !h.Verification.Unusable() &&
		h.UnverifiedBy == ""
}

// NeedsVerify reports whether verify must still pass for a commit; with an empty commit, for
// any.
func (h *Handover) NeedsVerify(commit string) bool {
	if !h.Verifies || h.Blocked != "" || h.UnverifiedBy != "" {
		return false
	}
	v := h.Verification
	return !v.Passed() || commit != "" && v.Commit != commit
}

// VerifiedText says in a sentence how a commit that is handed over was verified; empty if
// nothing is to be said about that.
func (h *Handover) VerifiedText(commit string) string {
	switch {
	case h == nil:
	case h.UnverifiedBy != "":
		return "Not verified, as " + h.UnverifiedBy + " has decided."
	case h.Verification.Passed() && (commit == "" || h.Verification.Commit == commit):
		words := "V" + strings.TrimPrefix(h.Verification.String(), "v") + "."
		return strings.Join(append([]string{words}, h.Verification.Caveats()...), " ")
	}
	return ""
}

// withoutRounds returns the handover as if verify had not failed for it before: all rounds
// that the workflow allows are left.
func (h *Handover) withoutRounds() *Handover {
	if !h.Refused() {
		return h
	}
	next := *h
	v := *h.Verification
	next.Verification = &v
	v.Round = 0
	return &next
}

// Delivery is the rest of the work after an issue's runs: their commits are not in the
// repository of the workflow yet, or the issue is not handed over. If it is not due, nothing
// remains.
type Delivery struct {
	Due bool `json:"due,omitempty"` // the workspace may contain commits to push
	// WaitsForAgent: no delivery is tried before an agent works again. Either others pushed to
	// the branch since its last delivery, and the agent merges their commits; or its commits
	// are incomplete, and an operator lets the agent correct them.
	WaitsForAgent bool      `json:"behind,omitempty"`
	Tries         int       `json:"tries,omitempty"`    // how many deliveries failed in a row
	FailedAt      time.Time `json:"failed_at,omitzero"` // the first of them
	Code          string    `json:"code,omitempty"`     // of the last of them
	Message       string    `json:"message,omitempty"`
	// how many of the last ones had this code and message
	Repeats int `json:"repeats,omitempty"`
	// how many a rule refused since the last success; failures of other kinds may lie between them
	Refusals int `json:"refusals,omitempty"`
	// Host and Root are where the workspace is: the host, empty for this machine, and its
	// workspace root. They stay after a delivery.
	Host string `json:"host,omitempty"`
	Root string `json:"root,omitempty"`
	// Handover is the agent's request that symphony did not finish yet, or refused.
	Handover *Handover `json:"handover,omitempty"`
	// Refusal is the last failure of verify, without its output, until verify passes. It stays
	// when the agent works on, which ends the handover: it explains a later hold.
	Refusal *Verification `json:"refusal,omitempty"`
}

// verified returns the delivery after the end of a run in which verify may have ended.
func (d Delivery) verified(r Run) Delivery {
	v := r.Delivery.Verification()
	switch {
	case v == nil:
	case v.Passed() || v.Unusable():
		d.Refusal = nil
	default:
		refusal := *v
		refusal.Output = ""
		d.Refusal = &refusal
	}
	return d
}

// runsOn is the host on which a delivery run works: the host of the workspace, unless nothing
// of it is needed any more.
func (d Delivery) runsOn() string {
	if h := d.Handover; h != nil && !h.Delivers && !h.NeedsVerify("") {
		return ""
	}
	return d.Host
}

// done returns the delivery when nothing remains. A handover that verify refused stays for the
// next agent, and the words of an agent that needs a person for the hold that follows.
func (d Delivery) done() Delivery {
	next := Delivery{Host: d.Host, Root: d.Root, Refusal: d.Refusal}
	if d.Handover.Refused() || d.Handover.AsksHelp() {
		next.Handover = d.Handover
	}
	return next
}

// DeliveryResult is the result of the delivery of a run's commits.
type DeliveryResult struct {
	// nothing remains to be pushed, and the issue was handed over if the agent asked for it
	Done   bool   `json:"done"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// how many were pushed that neither the base nor the last delivery has; 0: there was
	// nothing to push
	Commits int `json:"commits"`
	// PullRequest is the address of the branch's pull request, if the run opened or found it.
	PullRequest string `json:"pull_request"`
	// of a failure; empty if Done is false and no delivery was tried
	Code    string `json:"code"`
	Message string `json:"message"`
	// OthersPushed: nothing was pushed, because others have pushed to the branch meanwhile. The
	// next run's agent merges that.
	OthersPushed bool `json:"behind,omitempty"`
	// Handover is the agent's request. It stays when it is done.
	Handover *Handover `json:"handover,omitempty"`
	// Mend is why the delivery before the run failed, which its agent is to mend.
	Mend string `json:"mend,omitempty"`
}

// Delivered is symphony's last push for an issue.
type Delivered struct {
	URL    string    `json:"-"` // of the repository
	Branch string    `json:"branch"`
	Commit string    `json:"commit"`
	Base   string    `json:"base"`
	At     time.Time `json:"at"`
	// PullRequest is the address of the pull request with the commit, empty if there is none
	// or it is not known yet.
	PullRequest string `json:"pull_request"`
	// Workflow are the paths in the repository of those files that decide what symphony runs
	// for the project and that the commit changes: "ops/WORKFLOW.md, bin/tracker".
	Workflow string `json:"-"`
	// Proof are the files of the commit that its checks may run or obey, as Markdown: "`Makefile`".
	// It is UnknownProof until this machine has looked at what another one has delivered.
	Proof string `json:"-"`
	// Origin is who had begun the branch, if this machine went on from there: "ann on
	// buildhost-2", whose claim said so, or the author of a commit, such as
	// "Ann <ann@example.com>". Empty if this machine has begun it.
	Origin string `json:"origin"`
	// PullID is its Pull.ID, where that is known. It is not stored here, but tells
	// RecordDelivered that only the address changed.
	PullID string `json:"-"`
}

// UnknownProof is the Proof of what another machine has delivered.
const UnknownProof = "not known here, because another machine has delivered the commit"

// OfContent reports whether the last delivery failed because of what the commits contain: only other
// commits can help.
func (d Delivery) OfContent() bool {
	return d.Code == CodeIncomplete || d.RefusedByRule()
}

// RefusedByRule reports whether the last delivery was refused by a rule about commits, which an
// agent is told: it hands over others.
func (d Delivery) RefusedByRule() bool {
	return d.Code == CodeDeliveryRefused || d.Code == CodeBaseReplaced
}

// afterOthersPushed returns the delivery when others pushed to the branch. If the issue was
// handed over, it is handed over again after the merge.
func (d Delivery) afterOthersPushed() Delivery {
	return Delivery{Due: true, WaitsForAgent: true, Host: d.Host, Root: d.Root, Refusal: d.Refusal}
}

// failed returns the delivery after a further failure.
func (d Delivery) failed(code, message string, at time.Time) Delivery {
	if d.Tries == 0 {
		d.FailedAt = at
	}
	d.WaitsForAgent = false
	if d.Code != code || d.Message != message {
		d.Repeats = 0
	}
	d.Repeats++
	d.Due = true
	d.Tries++
	d.Code = code
	d.Message = message
	if d.RefusedByRule() {
		d.Refusals++
	}
	return d
}

// mostQuoted is how many names a line of a comment has.
const mostQuoted = 10

// QuotedNames is a list of names as Markdown.
func QuotedNames(names []string) string {
	quoted := text.Map(names[:min(len(names), mostQuoted)], func(name string) string {
		return "`" + strings.ReplaceAll(text.Visible(name), "`", "'") + "`"
	})
	if more := len(names) - len(quoted); more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, ", ")
}
