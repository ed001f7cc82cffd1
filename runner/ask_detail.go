package runner

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// requestLimit is how many bytes are kept of what an agent asks: a patch may be of any size.
const requestLimit = 64 << 10

// newQuestion is the request as it is stored: without secrets, and bounded.
func (a *attempt) newQuestion(ask agent.Request) (*question, error) {
	detail, err := a.detailOf(ask)
	if err != nil {
		return nil, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	now, run := a.Now(), a.rec.get()
	q := &question{Request: reconcile.Request{
		IssueID: run.IssueID, Identifier: run.Identifier, RunID: run.ID, ThreadID: ask.ThreadID,
		Kind: reconcile.RequestKind(ask.Kind), Summary: a.summary(ask), Detail: detail, Outside: ask.OutsideSandbox,
		AskedAt: now, ExpiresAt: now.Add(a.Config.AnswerTimeout),
		Deadline: reconcile.Instant{Boot: boot, Mono: proc.Monotonic() + a.Config.AnswerTimeout},
	}}
	if q.Secret() {
		q.seal, q.Detail.SealKey, err = newSeal()
	}
	return q, err
}

// summary is what ps shows. A command is in it as it is and to its end: somebody is to say yes to exactly that.
func (a *attempt) summary(ask agent.Request) string {
	text := ask.Summary
	oneLine := strings.Join(strings.Fields(ask.Command), " ")
	switch {
	case strings.Contains(text, ask.Command):
	case strings.HasPrefix(oneLine, strings.TrimSuffix(text, "…")):
		text = ask.Command // the summary is nothing but its beginning
	default:
		text += "\n" + ask.Command
	}
	return a.Redactor.Text(text)
}

func (a *attempt) detailOf(ask agent.Request) (reconcile.RequestDetail, error) {
	clean, bound := a.Redactor.Text, &bounded{left: requestLimit}
	d := reconcile.RequestDetail{
		Command: clean(ask.Command), Cwd: bound.text(clean(ask.Cwd)), Reason: bound.text(clean(ask.Reason)),
		GrantRoot: bound.text(clean(ask.GrantRoot)), Server: bound.text(clean(ask.Server)),
	}
	for _, q := range ask.Questions {
		asked := reconcile.RequestQuestion{
			ID: q.ID, Header: clean(q.Header), Text: clean(q.Text), Other: q.Other, Secret: q.Secret,
			Optional: q.Optional, Several: q.Several, Type: q.Type,
		}
		for _, o := range q.Options {
			asked.Options = append(asked.Options, reconcile.RequestOption{Label: o.Label, Description: clean(o.Description)})
		}
		d.Questions = append(d.Questions, asked)
	}
	// Nobody can say yes to the rest of a command that was cut, and an option that was would be answered wrongly.
	questions, err := json.Marshal(d.Questions)
	if err != nil {
		return d, fmt.Errorf("questions: %w", err)
	}
	if whole := len(ask.Command) + len(questions) + len(ask.Permissions); whole > requestLimit {
		return d, fmt.Errorf("%d bytes are more than a person would read", whole)
	}
	if len(ask.Permissions) > 0 {
		d.Permissions = a.Redactor.Bytes(ask.Permissions)
	}
	if len(d.Permissions) > 0 && !json.Valid(d.Permissions) { // a number or a word of theirs was a secret
		if d.Permissions, err = json.Marshal(string(d.Permissions)); err != nil {
			return d, fmt.Errorf("permissions: %w", err)
		}
	}
	for _, c := range ask.Changes {
		if bound.cut > 0 {
			bound.cut += len(c.Path) + len(c.Diff)
			continue // the summary names the files
		}
		d.Changes = append(d.Changes, reconcile.RequestChange{
			Path: bound.text(clean(c.Path)), Kind: c.Kind, Diff: bound.text(clean(c.Diff)),
		})
	}
	d.Cut = bound.cut
	return d, nil
}

// bounded cuts texts that are too long together.
type bounded struct{ left, cut int }

func (b *bounded) text(s string) string {
	kept := text.Within(s, b.left)
	b.left -= len(kept)
	b.cut += len(s) - len(kept)
	return kept
}
