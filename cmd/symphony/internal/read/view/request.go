package view

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// RequestRow is a request of an agent that waits for an operator's answer.
type RequestRow struct {
	Project    string                `json:"project"`
	ID         string                `json:"id"`
	Identifier string                `json:"issue_identifier"`
	IssueURL   *string               `json:"issue_url"`
	Title      string                `json:"title"` // of the issue; empty where it is not known
	RunID      string                `json:"run_id"`
	Kind       reconcile.RequestKind `json:"kind"`
	Summary    string                `json:"summary"`
	// Options are the labels of the first question, which --choice counts; Questions are all
	// of them.
	Options   []string   `json:"options"`
	Questions []Question `json:"questions"`
	Outside   bool       `json:"outside_sandbox"`
	AskedAt   time.Time  `json:"asked_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	InTracker bool       `json:"in_tracker"` // a comment on the issue asks for it, too
	// Detail is the exact subject of the approval.
	Detail RequestDetail `json:"detail"`

	Request reconcile.Request `json:"-"`
	// Workflow is named in the commands that answer the request, unless it is empty.
	Workflow string `json:"-"`
}

// RequestDetail is the command or the change that an agent wants to be approved. Fields that
// do not belong to its kind are empty.
type RequestDetail struct {
	Reason  string                    `json:"reason"` // in the agent's words
	Command string                    `json:"command"`
	Cwd     string                    `json:"cwd"`
	Changes []reconcile.RequestChange `json:"changes"`
	// a directory in which the agent wants to write
	GrantRoot   string          `json:"grant_root"`
	Permissions json.RawMessage `json:"permissions"`
	Server      string          `json:"server"`    // the MCP server that asks
	Cut         int             `json:"cut_bytes"` // of all this, because it was too long
}

// Question is a question of a request. Other is set where a text beside the options is
// accepted.
type Question struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Other    bool     `json:"other"`
	Secret   bool     `json:"secret"`
}

// RequestRow is the row of a request of the project.
func (f *Facts) RequestRow(r reconcile.Request) RequestRow {
	row := newRequestRow(r, f.Name, expiry(r, f.Now, f.Instant))
	row.InTracker = f.comments[r.Attention().Key].ID != ""
	return row
}

// expiry is when a request expires. It takes the time that is left from the monotonic clock,
// so that a stepped wall clock changes nothing.
func expiry(r reconcile.Request, now time.Time, at reconcile.Instant) time.Time {
	expires := now.Add(r.Left(now, at))
	if expires.Sub(r.ExpiresAt).Abs() < time.Second {
		return r.ExpiresAt
	}
	return expires
}

// newRequestRow is the row of a request, without what the project's tracker knows of it.
func newRequestRow(r reconcile.Request, project string, expires time.Time) RequestRow {
	d := r.Detail
	row := RequestRow{
		Project:    project,
		ID:         r.ID(),
		Identifier: r.Identifier,
		RunID:      r.RunID,
		Kind:       r.Kind,
		Summary:    r.Summary,
		Options:    []string{},
		Questions:  []Question{},
		Outside:    r.Outside,
		AskedAt:    r.AskedAt,
		ExpiresAt:  expires.Truncate(time.Millisecond),
		Request:    r,
		Detail: RequestDetail{
			Reason:      d.Reason,
			Command:     d.Command,
			Cwd:         d.Cwd,
			Changes:     append([]reconcile.RequestChange{}, d.Changes...),
			GrantRoot:   d.GrantRoot,
			Permissions: d.Permissions,
			Server:      d.Server,
			Cut:         d.Cut,
		},
	}
	for i, q := range r.Detail.Questions {
		labels := text.Map(q.Options, func(o reconcile.RequestOption) string { return o.Label })
		if i == 0 {
			row.Options = labels
		}
		row.Questions = append(row.Questions, Question{
			Question: q.Text,
			Options:  labels,
			Other:    q.Other || len(labels) == 0,
			Secret:   q.Secret,
		})
	}
	return row
}

// AgentsProject is the name that pages and addresses have in place of a project's for agents
// without an issue.
const AgentsProject = "agents"

// RequestRows are the unanswered requests of a state directory that is not a project's. Their
// rows name it like a project.
func RequestRows(ctx context.Context, p *wiring.Project, db *state.DB, name string) ([]RequestRow, error) {
	open, err := OpenRequests(ctx, p, db)
	if err != nil {
		return nil, err
	}
	at, err := Instant()
	if err != nil {
		return nil, err
	}
	now := p.Env.Now()
	return text.Map(open, func(r reconcile.Request) RequestRow {
		return newRequestRow(r, name, expiry(r, now, at))
	}), nil
}

// HowToAnswer explains how to answer the request.
func (r RequestRow) HowToAnswer() string {
	commands := decidedBy(r.Request)
	if r.Workflow != "" {
		for i := range commands {
			commands[i].Flags = "-w " + text.ShellQuote(r.Workflow)
		}
	}
	how := either(commands)
	if r.InTracker {
		how += " | a comment on the issue"
	}
	return how
}

// HowToAnswer is the command that answers a request, or the two of which one decides it.
func HowToAnswer(r reconcile.Request) string {
	return either(decidedBy(r))
}

// either returns commands of which one is carried out.
func either(commands []reconcile.CommandLine) string {
	return strings.Join(text.Map(commands, reconcile.CommandLine.String), " | ")
}

// decidedBy returns the commands of which one decides a request.
func decidedBy(r reconcile.Request) []reconcile.CommandLine {
	if r.Kind != reconcile.QuestionRequest {
		return []reconcile.CommandLine{
			reconcile.CommandFor("approve", r.ID()),
			reconcile.CommandFor("deny", r.ID()),
		}
	}
	if r.Secret() { // it is typed at a terminal, and not on the command line
		return []reconcile.CommandLine{{Verb: "tell", Name: r.ID()}}
	}
	answer := " --choice N"
	isFree := func(q reconcile.RequestQuestion) bool { return len(q.Options) == 0 }
	if slices.ContainsFunc(r.Detail.Questions, isFree) {
		answer = ` "TEXT"`
	}
	return []reconcile.CommandLine{{
		Verb: "tell",
		Name: r.ID(),
		Rest: strings.TrimSpace(strings.Repeat(answer, len(r.Detail.Questions))),
	}}
}

// AsksMore reports whether the summary contains more than the rest of a request: that a
// command uses the network, for instance, or needs permissions, where a symlink leads, or
// which files a patch changes whose end was not stored.
func AsksMore(r reconcile.Request) bool {
	if r.Kind != reconcile.CommandRequest {
		return r.Detail.Cut > 0 || strings.Contains(r.Summary, reconcile.LeadsTo)
	}
	return strings.Join(strings.Fields(r.Summary), " ") != strings.Join(strings.Fields(r.Detail.Command), " ")
}

// BlockedSession is a session that waits for a person, with the names of the specification's
// reference.
type BlockedSession struct {
	IssueHead
	State         string     `json:"state"`
	Error         string     `json:"error"`       // the first request of the agent
	WorkerHost    *string    `json:"worker_host"` // null for this machine
	WorkspacePath *string    `json:"workspace_path"`
	SessionID     *string    `json:"session_id"`
	BlockedAt     time.Time  `json:"blocked_at"`
	LastEvent     *string    `json:"last_event"`
	LastMessage   string     `json:"last_message"`
	LastEventAt   *time.Time `json:"last_event_at"`
}

// blockedSessions are the sessions of the open requests.
func (v Overview) blockedSessions() []BlockedSession {
	list := []BlockedSession{}
	for _, r := range v.Running {
		request := v.requestOf(r.RunID)
		if request == nil {
			continue
		}
		list = append(list, BlockedSession{
			IssueHead:     r.IssueHead,
			State:         r.State,
			Error:         request.Summary,
			WorkerHost:    r.Host,
			WorkspacePath: r.WorkspacePath,
			SessionID:     r.SessionID,
			BlockedAt:     request.AskedAt,
			LastEvent:     r.LastEvent,
			LastMessage:   r.LastMessage,
			LastEventAt:   r.LastEventAt,
		})
	}
	return list
}

// requestOf returns the first open request of a run, or nil.
func (v Overview) requestOf(runID string) *RequestRow {
	i := slices.IndexFunc(v.Requests, func(q RequestRow) bool { return q.RunID == runID })
	if i < 0 {
		return nil
	}
	return &v.Requests[i]
}
