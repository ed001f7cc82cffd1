package mcpserver

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const maxFormDiffs = 4 << 10 // bytes of diffs in a form

// formOf returns the form that asks a person about a request. Its message contains everything
// that the person approves by accepting the form: only questions get fields.
func formOf(r reconcile.Request) *mcp.ElicitParams {
	form := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	add := func(name string, optional bool, s *jsonschema.Schema) {
		form.Properties[name] = s
		form.PropertyOrder = append(form.PropertyOrder, name)
		if !optional {
			form.Required = append(form.Required, name)
		}
	}
	for i, q := range r.Detail.Questions {
		add(answerName(i), q.Optional, questionSchema(q))
	}
	return &mcp.ElicitParams{
		Mode:            "form",
		Message:         formText(r),
		RequestedSchema: form,
		Meta:            mcp.Meta{"symphony/request": newRequestState(r, true)},
	}
}

func questionSchema(q reconcile.RequestQuestion) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:        "string",
		Title:       text.Visible(q.Header),
		Description: text.Visible(q.Text),
	}
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

// formText is the text of a form.
func formText(r reconcile.Request) string {
	d := r.Detail
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, text.Visible(value))
		}
	}
	// Some hosts show three lines until the person unfolds the rest.
	if r.Kind == reconcile.CommandRequest && !view.AsksMore(r) {
		line("Command", r.Summary)
	} else {
		line("Summary", r.Summary)
	}
	line("Reason", cmp.Or(d.Reason, "none is given"))
	where := "asks"
	if r.Outside {
		where = "asks, outside the sandbox"
	}
	fmt.Fprintf(
		&b,
		"%s: agent %s %s. Without a decision it is denied at %s.\n",
		methods[r.Kind],
		r.Identifier,
		where,
		r.ExpiresAt.UTC().Format(time.TimeOnly+" MST"),
	)
	if d.Command != r.Summary {
		line("Command", d.Command)
	}
	line("Directory", d.Cwd)
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
	return strings.TrimSuffix(b.String(), "\n")
}

// decisionOf turns a form of formOf that was accepted into a decision.
func decisionOf(r reconcile.Request, content map[string]any) requests.Decision {
	if r.Kind != reconcile.QuestionRequest {
		return requests.Approval(false)
	}
	d := requests.Decision{How: reconcile.DecideAnswer}
	for i := range r.Detail.Questions {
		d.Texts = append(d.Texts, answerText(content[answerName(i)]))
	}
	return d
}

// answerText is an answer as an operator would type it: 1000000 for the number 1e6, empty for
// a field without a value.
func answerText(given any) string {
	switch given := given.(type) {
	case nil:
		return ""
	case float64: // as numbers of JSON arrive
		return strconv.FormatFloat(given, 'f', -1, 64)
	}
	return strings.TrimSpace(fmt.Sprint(given))
}

func answerName(i int) string { return fmt.Sprintf("answer%d", i+1) }
