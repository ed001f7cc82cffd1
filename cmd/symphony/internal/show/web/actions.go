package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// actions answers the requests that change something, by the functions of symphony's own
// commands. A form of a page carries the member back and is answered with a redirect to that
// page, which shows the result; programs get the JSON of the command.
type actions struct {
	source   source
	access   *access
	commands *commands
}

func (s actions) routes() []route {
	list := []route{
		{"POST", "/api/v1/refresh", needActing, s.refresh},
		{"POST", "/api/v1/pause", needActing, s.command(aboutProject(reconcile.VerbPause))},
		{"POST", "/api/v1/resume", needActing, s.command(aboutProject(reconcile.VerbResume))},
		{"POST", severalPath, needActing, s.command(s.several)},
	}
	for _, o := range operate.Orders {
		list = append(list, route{"POST", "/api/v1/{identifier}/" + o.Name, needActing, s.command(s.orderFor(o))})
	}
	return list
}

// command returns the handler of a command. build may return the order also with its error,
// for the notice about it.
func (s actions) command(
	build func(*http.Request, parameters) (order, error),
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := readParameters(r)
		if err != nil {
			return s.answerOrder(w, r, p.Back, nil, outcome{}, err)
		}
		o, err := build(r, p)
		if err != nil {
			return s.answerOrder(w, r, p.Back, o, outcome{}, err)
		}
		target, err := o.project(s.source, r)
		if err != nil {
			return s.answerOrder(w, r, p.Back, o, outcome{}, err)
		}
		patient(w)
		done, err := s.commands.run(r.Context(), target, o)
		return s.answerOrder(w, r, p.Back, o, done, err)
	}
}

// answerOrder sends a browser back to its page, with a notice of the outcome, and answers a
// program. The order is nil if the request could not be read.
func (s actions) answerOrder(
	w http.ResponseWriter,
	r *http.Request,
	back string,
	o order,
	done outcome,
	err error,
) error {
	if o != nil {
		err = exit.ForCommand(err, string(o.verb()))
	}
	if back != "" {
		s.goBack(w, r, back, noticeOf(o, done, err))
		return nil
	}
	if err != nil {
		return err
	}
	if done.pending {
		return answerWith(w, http.StatusAccepted, done.document)
	}
	return answerWith(w, http.StatusOK, done.document)
}

// patient gives the answer the time that a command may take.
func patient(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	end := time.Now().Add(slotPatience + commandPatience + writePatience)
	// only tests have writers without deadlines
	_ = errors.Join(c.SetReadDeadline(end), c.SetWriteDeadline(end))
}

func aboutProject(verb reconcile.Verb) func(*http.Request, parameters) (order, error) {
	return func(*http.Request, parameters) (order, error) {
		return commandOrder{command: operate.Change{Verb: verb}}, nil
	}
}

// orderFor returns the function that reads a request for an order about an issue, or about a request
// of its agent.
func (s actions) orderFor(o operate.Order) func(*http.Request, parameters) (order, error) {
	return func(r *http.Request, p parameters) (order, error) {
		name := r.PathValue("identifier")
		given := commandOrder{command: o.Command(p.arguments()).About(name), name: name}
		switch {
		case o.TakesText && len(p.Texts) > 0 && len(p.Choices) > 0:
			return given, badRequest("texts and choices cannot be combined; a text may be the label of an option")
		case o.TakesText && len(p.Texts)+len(p.Choices) == 0:
			return given, badRequest("the text is missing: give texts, or the numbers of the options of a question as choices")
		case o.Name == "stop":
			return given, s.source.checkRuns(r, r.URL.Query().Get("project"), name)
		}
		return given, nil
	}
}

// arguments are the arguments of an order.
func (p parameters) arguments() operate.Arguments {
	return operate.Arguments{
		Texts:      p.Texts,
		Becomes:    p.Becomes,
		Choices:    p.Choices,
		Reason:     p.Reason,
		ForSession: p.ForSession,
	}
}

// checkRuns refuses to stop an issue that was handed over, which would hold it: a page may be
// older than the end of the run. It also refuses if there was no time to find that out.
func (s source) checkRuns(r *http.Request, project, issue string) error {
	v, err := s.issue(r.Context(), project, issue, 0)
	if err != nil && exit.From(err).Code == "snapshot_timeout" {
		return err
	}
	if err != nil || v.Status != reconcile.StatusHandedOver {
		return nil //nolint:nilerr // the operation itself reports the error
	}
	return reconcile.NewError(
		"handed_over",
		issue+" was handed over: nothing is running",
		"hold it, if no later run may start",
	)
}

// severalPath is the path for a verb about several issues or requests.
const severalPath = "/api/v1/several"

// mostTargets is how many of them a request may name. Each takes up to 50 ms, and a command at
// most commandPatience.
const mostTargets = 500

// several returns the order to do the same about several issues or requests.
func (s actions) several(r *http.Request, p parameters) (order, error) {
	chosen, known := operate.OrderOf(string(p.Verb))
	if !known || !chosen.Several {
		several := text.Filter(operate.Orders, func(o operate.Order) bool { return o.Several })
		names := text.Map(several, func(o operate.Order) string { return o.Name })
		return nil, badRequest("verb must be one of " + strings.Join(names, ", "))
	}
	o := severalOrder{command: chosen.Command(p.arguments())}
	if len(p.Targets) == 0 {
		return o, badRequest("there are no targets to " + string(p.Verb))
	}
	if len(p.Targets) > mostTargets {
		return o, badRequest(
			fmt.Sprintf("%d targets in one request; the limit is %d", len(p.Targets), mostTargets),
		)
	}
	for _, t := range p.Targets {
		target, err := s.targetOf(r, o.command, t)
		if err != nil {
			return o, err
		}
		o.targets = append(o.targets, target)
	}
	return o, nil
}

// targetOf finds a target of a command about several.
func (s actions) targetOf(r *http.Request, c operate.Command, t targetRef) (operate.Target, error) {
	issue := issueOf(c, t.Name)
	project := cmp.Or(t.Project, r.URL.Query().Get("project"))
	p, err := s.source.projectOf(r.Context(), project, issue)
	if err != nil {
		return operate.Target{}, err
	}
	own := wiring.NewProject(p.Env.Silent(), p.Path, p.StateDir)
	owner, isAgent := agents.ProjectOf(r.Context(), own, t.Name)
	if isAgent && !decides(c) {
		return operate.Target{}, badRequest(t.Name + " is an agent without an issue")
	}
	if c.Name() == reconcile.VerbStop {
		if err := s.source.checkRuns(r, project, issue); err != nil {
			return operate.Target{}, err
		}
	}
	return operate.Target{Project: owner, Name: t.Name}, nil
}

// refreshed is the answer of POST /api/v1/refresh (specification 13.7).
type refreshed struct {
	Queued bool `json:"queued"`
	// a pass that is yet to begin serves this request, too
	Coalesced   bool      `json:"coalesced"`
	RequestedAt time.Time `json:"requested_at"`
	Operations  []string  `json:"operations"`
}

// refresh answers POST /api/v1/refresh: it asks for a pass of the project, or of each project,
// and does not wait for it.
func (s actions) refresh(w http.ResponseWriter, r *http.Request) error {
	p, err := readParameters(r)
	if err != nil {
		return s.answerRefresh(w, r, p.Back, refreshed{}, err)
	}
	projects, err := s.source.named(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return s.answerRefresh(w, r, p.Back, refreshed{}, err)
	}
	out := refreshed{
		Queued:      true,
		Coalesced:   len(projects) > 0,
		RequestedAt: s.source.env.Now().UTC(),
		Operations:  []string{"poll", "reconcile"},
	}
	for _, target := range projects {
		coalesced, err := s.commands.refresh(context.WithoutCancel(r.Context()), target.Project)
		if err != nil {
			return s.answerRefresh(w, r, p.Back, refreshed{}, err)
		}
		out.Coalesced = out.Coalesced && coalesced
	}
	return s.answerRefresh(w, r, p.Back, out, nil)
}

// answerRefresh is answerOrder for a pass.
func (s actions) answerRefresh(
	w http.ResponseWriter,
	r *http.Request,
	back string,
	out refreshed,
	err error,
) error {
	if back != "" {
		begun := outcome{lines: []string{"a pass begins"}}
		s.goBack(w, r, back, noticeOf(passOrder{}, begun, err))
		return nil
	}
	if err != nil {
		return err
	}
	return answerWith(w, http.StatusAccepted, out)
}

// parameters are the content of a request besides its address.
type parameters struct {
	Reason     string   `json:"reason"`
	ForSession bool     `json:"for_session"`
	Texts      []string `json:"texts"`
	Text       *string  `json:"text"` // one more of Texts, by its name in a form
	Becomes    string   `json:"becomes"`
	Choices    []int    `json:"choices"`

	Verb    reconcile.Verb `json:"verb"` // these two at severalPath only
	Targets []targetRef    `json:"targets"`

	Back string `json:"-"` // the page to return to; empty for a program
}

// targetRef names an issue or a request, and its project if the server shows several.
type targetRef struct {
	Project string `json:"project"`
	Name    string `json:"name"`
}

// readParameters reads the body: the JSON of a program, or the form of a page, which names the
// page to return to, and where answer-N and text-N belong to the question with the index N.
func readParameters(r *http.Request) (p parameters, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case kind == "application/json":
		if err := p.readJSON(r.Body); err != nil {
			return p, err
		}
	case kind == "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return p, badBody(err)
		}
		if !r.PostForm.Has("back") {
			return p, badRequest("the body must be JSON, with the header Content-Type: application/json")
		}
		p.Back = backTo(r)
		p.readForm(r.PostForm)
	case kind != "" || r.ContentLength != 0: // -1 if the length is not known
		return p, badRequest("the body must be JSON or a form, not " + cmp.Or(kind, "of an unknown type"))
	}
	if len(p.Reason) > reconcile.MaxMessage {
		return p, badRequest(fmt.Sprintf("the reason has %d bytes; the limit is %d", len(p.Reason), reconcile.MaxMessage))
	}
	if strings.Contains(fmt.Sprint(r.URL.Path, p.Reason, p.Texts, p.Targets), "\x00") {
		return p, badRequest("a text contains a NUL")
	}
	return p, nil
}

// readJSON reads the JSON of a program. An empty body has no fields.
func (p *parameters) readJSON(body io.Reader) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(p)
	if errors.Is(err, io.EOF) {
		return nil
	}
	// the errors of package json name our types
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badRequest(fmt.Sprintf("%s has the wrong type: %s", cmp.Or(wrong.Field, "the body"), wrong.Value))
	}
	if err != nil {
		return badBody(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body goes on after its JSON object")
	}
	if p.Text != nil {
		p.Texts = append(p.Texts, *p.Text)
	}
	return nil
}

// readForm reads a form of a page.
func (p *parameters) readForm(form url.Values) {
	p.Reason = form.Get("reason")
	p.Texts = form["text"]
	p.Becomes = form.Get("becomes")
	p.ForSession = form.Get("for_session") == "true"
	p.Verb = reconcile.Verb(form.Get("verb"))
	marked := "issue"
	if o, known := operate.OrderOf(string(p.Verb)); known && o.AboutRequest {
		marked = "request"
	}
	for _, v := range form[marked] {
		project, name, _ := strings.Cut(v, "/")
		project, _ = url.PathUnescape(project) // the page escaped it
		name, _ = url.PathUnescape(name)
		p.Targets = append(p.Targets, targetRef{Project: project, Name: name})
	}
	questions, _ := strconv.Atoi(form.Get("questions"))
	for i := range min(questions, len(form)) { // a field for each question
		at := "-" + strconv.Itoa(i)
		given := form["answer"+at]
		if own := form.Get("text" + at); strings.TrimSpace(own) != "" {
			given = append(given, own)
		}
		p.Texts = append(p.Texts, strings.ReplaceAll(strings.Join(given, ", "), "\r\n", "\n"))
	}
}

func badRequest(message string) error {
	return reconcile.NewError("usage", message, seeAPI)
}

// badBody is the error for a body that can't be read.
func badBody(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return reconcile.NewError(
			"body_too_large",
			fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit),
			"send less",
		)
	}
	return badRequest("the body: " + strings.TrimPrefix(err.Error(), "json: "))
}

const (
	shownLines = 12 // of an outcome
	noteKept   = 60 // seconds that a browser keeps the name of a notice
)

// noticeOf is the notice of an order on the next page. The order is nil if the request could
// not be read.
func noticeOf(o order, done outcome, err error) page.Notice {
	command := "symphony"
	if o != nil {
		command = o.String()
	}
	n := page.Notice{
		Command: command,
		Lines:   done.shown(),
		Failed:  err != nil || done.pending || done.failed,
	}
	if err != nil {
		e := exit.From(err)
		n.Lines = outcome{lines: []string{e.Error(), e.Hint}}.shown()
	}
	if len(n.Lines) > shownLines {
		n.Lines = append(n.Lines[:shownLines], "…")
	}
	return n
}

// goBack sends the browser back to the page of the form, with a notice. The notice stays here:
// the browser gets a random name of it in a cookie, so that no other site can make a notice,
// and it is shown once.
func (s actions) goBack(w http.ResponseWriter, r *http.Request, back string, n page.Notice) {
	setCookie(w, s.access.noteCookie(), s.commands.leave(n), noteKept)
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// notice takes the notice that the browser's last command left; nil if there is none.
func (s actions) notice(w http.ResponseWriter, r *http.Request) *page.Notice {
	c, err := r.Cookie(s.access.noteCookie())
	if err != nil {
		return nil
	}
	setCookie(w, s.access.noteCookie(), "", -1)
	return s.commands.take(c.Value)
}

func (a *access) noteCookie() string { return a.cookie + "_note" }
