package page

import (
	"cmp"
	"net/url"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
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

// Address is the address of a decision: approve, deny, or tell with an answer.
func (r RequestForm) Address(verb string) string { return r.Action(r.ID, verb) }

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

// RowForm returns the orders about the issue of a row.
func (f Forms) RowForm(r view.Row) IssueForm {
	return IssueForm{Forms: f, Identifier: r.Identifier, Row: operate.RowOf(r)}
}

// IssueForm is the data of the template "issue-actions".
type IssueForm struct {
	Forms
	Identifier string
	operate.Row
}

// Address is the address of an order, such as retry.
func (i IssueForm) Address(order string) string { return i.Action(i.Identifier, order) }

// ID names the element of an order, so that no other takes its place while a reader uses it.
func (i IssueForm) ID(order string) string {
	return url.PathEscape(order + "-" + i.Project + "-" + i.Identifier)
}

// Can reports whether an order would take effect.
func (i IssueForm) Can(order string) bool {
	o, known := operate.OrderOf(order)
	return known && o.Possible(i.Row)
}

// Buttons lists the orders that would take effect and need no text.
func (i IssueForm) Buttons() []string {
	orders := text.Filter(i.Possible(), func(o operate.Order) bool { return !o.TakesText })
	return text.Map(orders, func(o operate.Order) string { return o.Name })
}

// Asks reports whether its agent waits for an answer: a text would answer it.
func (i IssueForm) Asks() bool { return i.Status == reconcile.StatusNeedsAnswer }

// ProjectForm is the data of the template "project-actions".
type ProjectForm struct {
	Forms
	Pauses    bool // it can be paused
	Refreshes bool // a pass can be asked for
}

// ProjectButton is a command about the project at the end of a notice: refresh or resume.
type ProjectButton struct {
	Forms
	Verb string
}
