package mcpserver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const maxFormDiffs = 4 << 10 // bytes of diffs in a form

// formOf returns the form that asks a person about a request. Its message has all that the person approves.
func formOf(r reconcile.Request) *mcp.ElicitParams {
	form := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	add := func(name string, optional bool, s *jsonschema.Schema) {
		form.Properties[name] = s
		form.PropertyOrder = append(form.PropertyOrder, name)
		if !optional {
			form.Required = append(form.Required, name)
		}
	}
	if r.Kind != reconcile.QuestionRequest {
		add("decision", false, &jsonschema.Schema{Type: "string", Title: "Decision", Enum: decisions()})
		add("reason", true, &jsonschema.Schema{Type: "string", Title: "Reason of a denial"})
	}
	for i, q := range r.Detail.Questions {
		add(answerName(i), q.Optional, questionSchema(q))
	}
	return &mcp.ElicitParams{Mode: "form", Message: message(r), RequestedSchema: form, Meta: mcp.Meta{"symphony/request": newRequestState(r)}}
}

func questionSchema(q reconcile.RequestQuestion) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string", Title: text.Visible(q.Header), Description: text.Visible(q.Text)}
	if len(q.Options) == 0 {
		if q.Type != "" {
			s.Type = q.Type
		}
		return s
	}
	if !q.Other && !q.Several {
		s.Enum = text.Map(q.Options, func(o reconcile.RequestOption) any { return o.Label })
		return s
	}
	labels := text.Map(q.Options, func(o reconcile.RequestOption) string { return o.Label })
	s.Description += "\nOptions: " + text.Visible(strings.Join(labels, ", "))
	if q.Several {
		s.Description += ". Separate several by commas."
	}
	return s
}

// message is the text of a form.
func message(r reconcile.Request) string {
	d := r.Detail
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, text.Visible(value))
		}
	}
	fmt.Fprintf(&b, "%s: agent %s asks", methods[r.Kind], r.Identifier)
	if r.Outside {
		b.WriteString(", outside the sandbox")
	}
	b.WriteString("\n")
	if r.Kind != reconcile.CommandRequest || view.AsksMore(r) {
		line("Summary", r.Summary)
	}
	line("Command", d.Command)
	line("Directory", d.Cwd)
	line("Reason", d.Reason)
	line("Wants to write below", d.GrantRoot)
	line("MCP server", d.Server)
	line("Permissions", string(d.Permissions))
	for _, q := range d.Questions {
		line("Question", q.Text)
	}
	var diffs strings.Builder
	for _, c := range d.Changes {
		line("File", fmt.Sprintf("%s (%s)", c.Path, c.Kind))
		diffs.WriteString(c.Diff)
		if !strings.HasSuffix(c.Diff, "\n") {
			diffs.WriteString("\n")
		}
	}
	shown := text.Within(diffs.String(), maxFormDiffs)
	for l := range strings.Lines(shown) {
		b.WriteString(text.Visible(strings.TrimSuffix(l, "\n")) + "\n")
	}
	if cut := diffs.Len() - len(shown) + d.Cut; cut > 0 {
		fmt.Fprintf(&b, "… %d more bytes of the change\n", cut)
	}
	line("Conversation", r.ThreadID)
	line("Call", d.CallID)
	fmt.Fprintf(&b, "Without a decision it is denied at %s.", r.ExpiresAt.UTC().Format(time.TimeOnly+" MST"))
	return b.String()
}

// decisionOf turns the content of a form of formOf into a decision. Error: invalid_argument.
func decisionOf(r reconcile.Request, content map[string]any) (d requests.Decision, err error) {
	if r.Kind == reconcile.QuestionRequest {
		d.How = reconcile.DecideAnswer
		for i := range r.Detail.Questions {
			text := ""
			if given := content[answerName(i)]; given != nil {
				text = strings.TrimSpace(fmt.Sprint(given))
			}
			d.Texts = append(d.Texts, text)
		}
		return d, nil
	}
	how, _ := content["decision"].(string)
	d.Reason, _ = content["reason"].(string)
	if d.How = reconcile.RequestDecision(how); !slices.Contains(decisions(), any(how)) {
		return d, reconcile.NewError(agents.CodeInvalid, fmt.Sprintf("the form of %s has no decision", r.ID()), howToDecide(r))
	}
	return d, nil
}

// decisions are the values of the form for an approval.
func decisions() []any {
	return []any{string(reconcile.DecideApprove), string(reconcile.DecideForSession), string(reconcile.DecideDeny)}
}

func answerName(i int) string { return fmt.Sprintf("answer%d", i+1) }
