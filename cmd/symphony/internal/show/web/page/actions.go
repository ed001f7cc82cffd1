package page

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Forms makes the forms by which the reader of a page acts on a project. Each is drawn by a
// template: "request", "issue-actions" and "project-actions".
type Forms struct {
	Project string // the name by which addresses call it
	Back    string // the page that follows a command: a path of this server
	MayAct  bool   // the reader holds the token; if not, the forms only show the possible commands
}

// Action is the address of a command of the API about the project.
func (f Forms) Action(path ...string) string {
	address := "/api/v1"
	for _, p := range path {
		address += "/" + url.PathEscape(p)
	}
	return address + "?" + url.Values{"project": {f.Project}}.Encode()
}

// Target names an issue or a request in a form about several.
func (f Forms) Target(name string) string {
	return url.PathEscape(f.Project) + "/" + url.PathEscape(name)
}

// Request is a request in full, with the controls to decide it.
func (f Forms) Request(r view.RequestRow) RequestForm { return RequestForm{f, r} }

// RequestForm is the data of the template "request".
type RequestForm struct {
	Forms
	view.RequestRow
}

// Address is the address of a decision: approve, deny or answer.
func (r RequestForm) Address(verb string) string { return r.Action("requests", r.ID, verb) }

// Anchor is the id of the element, unique on the page.
func (r RequestForm) Anchor() string { return "request-" + url.PathEscape(r.Forms.Project+"-"+r.ID) }

// Detail is the whole request.
func (r RequestForm) Detail() reconcile.RequestDetail { return r.RequestRow.Request.Detail }

// IssuePage is the address of its issue; empty for an agent without an issue.
func (r RequestForm) IssuePage() string {
	if r.Forms.Project == view.AgentsProject {
		return ""
	}
	return IssueAddress(r.Forms.Project, r.Identifier)
}

// IsQuestion reports whether it needs an answer, not an approval.
func (r RequestForm) IsQuestion() bool { return r.Kind == reconcile.QuestionRequest }

// Recurs reports whether it can be approved for the session, too: whether its agent may ask
// for the like again.
func (r RequestForm) Recurs() bool { return !r.IsQuestion() && r.Kind != reconcile.DirectoryRequest }

// wants name the kinds of requests in a few words.
var wants = map[reconcile.RequestKind]string{
	reconcile.CommandRequest:     "wants to run a command",
	reconcile.FileChangeRequest:  "wants to change files",
	reconcile.PermissionsRequest: "wants permissions",
	reconcile.DirectoryRequest:   "wants to work in another directory",
}

// Wants names the kind of request.
func (r RequestForm) Wants() string {
	if r.IsQuestion() {
		return "has " + text.Plural(len(r.Detail().Questions), "question")
	}
	return cmp.Or(wants[r.Kind], "asks")
}

// Asks is the summary if it contains more than the rest of the request.
func (r RequestForm) Asks() string {
	isShown := r.Kind == reconcile.CommandRequest || len(r.Detail().Changes) > 0
	if r.IsQuestion() || isShown && !view.AsksMore(r.RequestRow.Request) {
		return ""
	}
	return r.Summary
}

// RowForm returns the commands of an operator about the issue of a row.
func (f Forms) RowForm(r view.Row) IssueForm {
	return IssueForm{
		Forms:       f,
		Identifier:  r.Identifier,
		Status:      r.Status,
		Claimed:     r.Claimed,
		Undelivered: r.Undelivered,
		HeldNext:    r.HeldNext,
	}
}

// IssueForm is the data of the template "issue-actions".
type IssueForm struct {
	Forms
	Identifier  string
	Status      view.Status
	Claimed     bool
	Undelivered bool // some commits of its claim are not delivered
	Refused     bool // verify failed for the work that its agent handed over
	HeldNext    bool // it is held when its run ends
}

// Address is the address of stop, retry, hold, deliver or verify.
func (i IssueForm) Address(verb string) string { return i.Action(i.Identifier, verb) }

// ID names the element of a command, so that no other takes its place while a reader uses it.
func (i IssueForm) ID(verb string) string {
	return url.PathEscape(verb + "-" + i.Project + "-" + i.Identifier)
}

// Can reports whether a command would take effect: stop needs a run, retry an issue that would
// be due, deliver commits whose delivery failed or is kept from starting by the hold of the
// issue, verify a handover that it refused, hold an issue that would otherwise get a run.
func (i IssueForm) Can(verb string) bool {
	is := func(statuses ...view.Status) bool { return slices.Contains(statuses, i.Status) }
	running := is(reconcile.StatusRunning, reconcile.StatusNeedsAnswer)
	switch verb {
	case "stop":
		return running
	case "retry":
		if running {
			return i.HeldNext
		}
		return i.Claimed && is(
			reconcile.StatusHeld,
			reconcile.StatusQueued,
			reconcile.StatusWaiting,
			reconcile.StatusUndelivered,
		)
	case "hold":
		if running {
			return !i.HeldNext
		}
		return is(
			reconcile.StatusQueued,
			reconcile.StatusBlocked,
			reconcile.StatusWaiting,
			reconcile.StatusSkipped,
			view.StatusStuck,
			detail.StatusReady,
		)
	case "deliver":
		return is(reconcile.StatusUndelivered) || i.Undelivered && is(reconcile.StatusHeld)
	case "verify":
		return i.Refused && !running
	}
	return false
}

// SendsBack reports whether the issue can be sent back to an agent: it was handed over.
func (i IssueForm) SendsBack() bool {
	return i.Status == reconcile.StatusHandedOver || i.Status == reconcile.StatusNeedsHelp
}

// Tells reports whether a message reaches an agent: the present or a later run's. An issue
// that needs help is sent back instead.
func (i IssueForm) Tells() bool {
	over := []view.Status{
		reconcile.StatusNeedsHelp,
		reconcile.StatusHandedOver,
		detail.StatusReleased,
		detail.StatusUnknown,
	}
	return !slices.Contains(over, i.Status)
}

// Reviews is the command that brings comments on a diff to an agent; empty if none works on the
// issue, or will.
func (i IssueForm) Reviews() string {
	switch {
	case i.SendsBack():
		return "send-back"
	case i.Tells():
		return "tell"
	}
	return ""
}

// Possible lists the possible commands.
func (i IssueForm) Possible() []string {
	return text.Filter([]string{"stop", "retry", "hold", "deliver", "verify"}, i.Can)
}

// ProjectForm is the data of the template "project-actions".
type ProjectForm struct {
	Forms
	Pauses    bool // it can be paused
	Refreshes bool // a pass can be asked for
}

// ProjectButton is a command about the project at the end of a notice: refresh, resume,
// or retry for all held issues.
type ProjectButton struct {
	Forms
	Verb string
	Held int // of retry
}
