package codex

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
)

// serveQuestions answers item/tool/requestUserInput.
func (s *Session) serveQuestions(in *incoming) {
	nothing := object{"answers": object{}}
	if s.o.OnQuestion != agent.QuestionAsk {
		s.reply(in, agent.EventTurnInputRequired, in.event.Message, nothing)
		s.failTurn(&agent.Error{Code: agent.CodeTurnInputRequired, Message: oneLine("the agent asks a person: "+in.event.Message, errorLength)})
		return
	}
	r := newRequest(in.params, agent.RequestQuestion, oneLine(describeQuestions(in.params), summaryLength))
	for _, q := range in.Questions {
		r.Questions = append(r.Questions, agent.Question{
			ID: q.ID, Header: q.Header, Text: cmp.Or(q.Question, q.Header), Options: q.Options, Other: q.IsOther, Secret: q.IsSecret,
		})
	}
	if len(r.Questions) == 0 {
		s.reply(in, agent.EventQuestionDeclined, "a request without questions was answered with nothing", nothing)
		return
	}
	s.askPerson(in, r, agent.EventQuestionAsked, questionsText(&r), func(d agent.Decision) (string, string, object) {
		if name, line, ok := unanswered(&r, d); ok {
			return name, line, nothing
		}
		given := object{}
		for _, q := range r.Questions {
			if texts := d.Answers[q.ID]; len(texts) > 0 {
				given[q.ID] = object{"answers": texts}
			}
		}
		return agent.EventQuestionAnswered, answeredText(&r, d), object{"answers": given}
	})
}

// unanswered is the event for a decision that answers none of the questions.
func unanswered(r *agent.Request, d agent.Decision) (name, line string, ok bool) {
	switch {
	case d.Expired:
		return agent.EventRequestExpired, "no answer in time: " + r.Summary, true
	case !slices.ContainsFunc(r.Questions, func(q agent.Question) bool { return len(d.Answers[q.ID]) > 0 }):
		return agent.EventQuestionDeclined, join("not answered"+by(d)+": "+r.Summary, d.Reason), true
	}
	return "", "", false
}

// questionsText is what is asked, with the options.
func questionsText(r *agent.Request) string {
	parts := make([]string, 0, len(r.Questions))
	for _, q := range r.Questions {
		labels := make([]string, 0, len(q.Options))
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		part := q.Text
		if len(labels) > 0 {
			part += " (" + strings.Join(labels, " | ") + ")"
		}
		parts = append(parts, part)
	}
	lead := "asks a person"
	if r.Server != "" {
		lead = "MCP server " + r.Server + " asks a person"
	}
	return join(join(lead, r.Reason), strings.Join(parts, " / "))
}

// answeredText is what was asked and answered, without secrets.
func answeredText(r *agent.Request, d agent.Decision) string {
	var parts []string
	for _, q := range r.Questions {
		texts := d.Answers[q.ID]
		switch {
		case len(texts) == 0:
		case q.Secret:
			parts = append(parts, q.Text+" → (not shown)")
		default:
			parts = append(parts, q.Text+" → "+strings.Join(texts, ", "))
		}
	}
	return "answered" + by(d) + ": " + strings.Join(parts, " / ")
}

// serveElicitation answers mcpServer/elicitation/request: a form of an MCP server, or codex's own question whether a tool
// of the server may run.
func (s *Session) serveElicitation(in *incoming) {
	declined := object{"action": "decline", "content": nil, "_meta": nil}
	f, err := readForm(in.params)
	if tool, ok := toolRequest(in.params); ok && err == nil && len(f) == 0 {
		s.serveApproval(in, tool, toolAnswers)
		return
	}
	if s.o.OnQuestion != agent.QuestionAsk || err != nil {
		line := "declined"
		if err != nil && s.o.OnQuestion == agent.QuestionAsk {
			line += ", " + err.Error()
		}
		s.reply(in, agent.EventQuestionDeclined, line+": "+in.event.Message, declined)
		return
	}
	r := newRequest(in.params, agent.RequestQuestion, oneLine("MCP server "+in.ServerName+": "+cmp.Or(in.Message, "a form"), summaryLength))
	r.Server, r.Reason, r.Questions = in.ServerName, oneLine(in.Message, summaryLength), f.questions()
	s.askPerson(in, r, agent.EventQuestionAsked, questionsText(&r), func(d agent.Decision) (string, string, object) {
		if name, line, ok := unanswered(&r, d); ok {
			return name, line, declined
		}
		content, err := f.content(d.Answers)
		if err != nil {
			return agent.EventQuestionDeclined, "declined, " + err.Error() + ": " + r.Summary, declined
		}
		return agent.EventQuestionAnswered, answeredText(&r, d), object{"action": "accept", "content": content, "_meta": nil}
	})
}

// toolRequest reads codex's question whether a tool of an MCP server may run. Only _meta tells it from a form.
func toolRequest(p *params) (agent.Request, bool) {
	var meta struct {
		Kind   string          `json:"codex_approval_kind"`
		Tool   string          `json:"tool_name"`
		Params json.RawMessage `json:"tool_params"`
	}
	unmarshal(p.Meta, &meta)
	r := newRequest(p, agent.RequestPermissions, uncut(p.ServerName+"/"+meta.Tool+" "+string(meta.Params)))
	r.Server, r.Permissions, r.Reason = p.ServerName, p.Meta, oneLine(p.Message, summaryLength)
	r.OutsideSandbox = true // MCP servers run outside
	return r, meta.Kind == "mcp_tool_call"
}

// form is a form of an MCP server. One without fields is agreed to or not.
type form []field

// field is one member of requestedSchema. The options are in enum, in oneOf with titles, or for a list in items.
type field struct {
	name     string
	required bool

	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []string `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []choice `json:"oneOf"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []choice `json:"anyOf"`
	} `json:"items"`
}

type choice struct {
	Value string `json:"const"`
	Title string `json:"title"`
}

// readForm reads a form; an error says why no person can be asked.
func readForm(p *params) (form, error) {
	switch p.Mode {
	case "", "form", "openai/form", "openaiForm":
	case "url":
		return nil, errors.New("it wants a web page opened (" + oneLine(p.URL, 100) + ")")
	default:
		return nil, fmt.Errorf("no form: mode %q", oneLine(p.Mode, 40))
	}
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(p.Schema, &schema) != nil || schema.Type != "object" {
		return nil, errors.New("its form can't be read")
	}
	var out form
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		f := field{name: name, required: slices.Contains(schema.Required, name)}
		err := json.Unmarshal(schema.Properties[name], &f)
		known := slices.Contains([]string{"string", "boolean", "number", "integer"}, f.Type) || f.Type == "array" && len(f.choices()) > 0
		if err != nil || !known {
			return nil, fmt.Errorf("its field %q can't be read", oneLine(name, 40))
		}
		out = append(out, f)
	}
	return out, nil
}

// choices are the options, each with a title.
func (f *field) choices() []choice {
	all := slices.Concat(f.OneOf, f.Items.AnyOf)
	for i, value := range slices.Concat(f.Enum, f.Items.Enum) {
		c := choice{Value: value}
		if i < len(f.EnumNames) {
			c.Title = f.EnumNames[i]
		}
		all = append(all, c)
	}
	for i := range all {
		all[i].Title = cmp.Or(all[i].Title, all[i].Value)
	}
	return all
}

const (
	yes    = "Yes"
	agreed = "agreed" // the id of the one question of a form without fields
)

func yesNo() []agent.Option { return []agent.Option{{Label: yes}, {Label: "No"}} }

// questions are the form's fields as a person is asked them.
func (f form) questions() []agent.Question {
	if len(f) == 0 {
		return []agent.Question{{ID: agreed, Text: "Agree?", Options: yesNo()}}
	}
	out := make([]agent.Question, 0, len(f))
	for i := range f {
		out = append(out, f[i].question())
	}
	return out
}

func (f *field) question() agent.Question {
	q := agent.Question{ID: f.name, Header: cmp.Or(f.Title, f.name), Text: cmp.Or(f.Description, f.Title, f.name)}
	switch f.Type {
	case "array":
		q.Several = true
		q.Text += " (one or several)"
	case "boolean":
		q.Options = yesNo()
	case "integer", "number":
		q.Type = f.Type
	}
	if !f.required {
		q.Optional = true
		q.Text += " (optional)"
	}
	for _, c := range f.choices() {
		o := agent.Option{Label: c.Title}
		if c.Title != c.Value {
			o.Description = c.Value
		}
		q.Options = append(q.Options, o)
	}
	return q
}

// content gives the answers the types of the form. A field without an answer is left out.
func (f form) content(answers map[string][]string) (object, error) {
	out := object{}
	if len(f) == 0 && !strings.EqualFold(strings.Join(answers[agreed], ""), yes) {
		return nil, errors.New("not agreed to")
	}
	for i := range f {
		field := &f[i]
		texts := answers[field.name]
		if len(texts) == 0 {
			if field.required {
				return nil, fmt.Errorf("no answer to %q", field.name)
			}
			continue
		}
		value, err := field.value(texts)
		if err != nil {
			return nil, err
		}
		out[field.name] = value
	}
	return out, nil
}

// value reads the answer to one field.
func (f *field) value(texts []string) (any, error) {
	text := strings.TrimSpace(strings.Join(texts, " "))
	wrong := fmt.Errorf("the answer to %q is no %s", f.name, f.Type)
	switch f.Type {
	case "array":
		values := make([]string, 0, len(texts))
		for _, text := range texts {
			value, err := f.choose(text)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return values, nil
	case "boolean":
		switch strings.ToLower(text) {
		case "yes", "y", "true":
			return true, nil
		case "no", "n", "false":
			return false, nil
		}
		return nil, wrong
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, wrong
		}
		return n, nil
	case "number":
		n := json.Number(text)
		if _, err := n.Float64(); err != nil || !json.Valid([]byte(text)) {
			return nil, wrong
		}
		return n, nil
	}
	if len(f.choices()) > 0 {
		return f.choose(text)
	}
	return strings.Join(texts, " "), nil
}

// choose finds an option by its label or its value.
func (f *field) choose(text string) (string, error) {
	for _, c := range f.choices() {
		if strings.EqualFold(text, c.Title) || text == c.Value {
			return c.Value, nil
		}
	}
	return "", fmt.Errorf("the answer to %q is none of those on offer", f.name)
}
