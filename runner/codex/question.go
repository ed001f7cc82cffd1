package codex

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
)

// serveQuestions answers item/tool/requestUserInput.
func (s *Session) serveQuestions(in *incoming) {
	nothing := object{"answers": object{}}
	r := newRequest(in.params, agent.RequestQuestion, "")
	texts := make([]string, 0, len(in.Questions))
	for _, q := range in.Questions {
		text := cmp.Or(q.Question, q.Header)
		texts = append(texts, text)
		r.Questions = append(r.Questions, agent.Question{
			ID: q.ID, Header: q.Header, Text: text, Options: q.Options, Other: q.IsOther, Secret: q.IsSecret,
		})
	}
	text := cmp.Or(strings.Join(texts, " / "), "a question without text")
	r.Summary = oneLine(text, summaryLength)
	switch {
	case s.o.OnQuestion != agent.QuestionAsk:
		s.reply(in, agent.EventTurnInputRequired, text, nothing)
		s.failTurn(agent.CodeTurnInputRequired, "the agent asks a person: "+text)
	case len(r.Questions) == 0:
		s.reply(in, agent.EventQuestionDeclined, "a request without questions was answered with nothing", nothing)
	default:
		s.askQuestions(in, r, nothing, func(given map[string][]string) (object, error) {
			answers := object{}
			for _, q := range r.Questions {
				if texts := given[q.ID]; len(texts) > 0 {
					answers[q.ID] = object{"answers": texts}
				}
			}
			return object{"answers": answers}, nil
		})
	}
}

// serveElicitation answers mcpServer/elicitation/request: a form of an MCP server, or codex's own question whether a tool
// of the server may run.
func (s *Session) serveElicitation(in *incoming) {
	f, err := readForm(in.params)
	if tool, ok := toolRequest(in.params); ok && err == nil && len(f) == 0 {
		s.serveApproval(in, tool, toolAnswers)
		return
	}
	asks := s.o.OnQuestion == agent.QuestionAsk
	if !asks || err != nil {
		line := "declined"
		if asks {
			line += ", " + err.Error()
		}
		s.reply(in, agent.EventQuestionDeclined, line+": "+join("MCP server "+in.ServerName+" asks a person", in.Message), toolAnswers.denied)
		return
	}
	r := newRequest(in.params, agent.RequestQuestion, oneLine("MCP server "+in.ServerName+": "+cmp.Or(in.Message, "a form"), summaryLength))
	r.Server, r.Reason, r.Questions = in.ServerName, oneLine(in.Message, summaryLength), f.questions()
	s.askQuestions(in, r, toolAnswers.denied, func(given map[string][]string) (object, error) {
		content, err := f.content(given)
		return object{"action": "accept", "content": content, "_meta": nil}, err
	})
}

// askQuestions passes questions to a person. nothing is the answer that answers none; give makes one of those given.
func (s *Session) askQuestions(in *incoming, r agent.Request, nothing object, give func(map[string][]string) (object, error)) {
	lead := "asks a person"
	if r.Server != "" {
		lead = "MCP server " + r.Server + " asks a person"
	}
	asked := make([]string, 0, len(r.Questions))
	for _, q := range r.Questions {
		labels := make([]string, 0, len(q.Options))
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		if len(labels) > 0 {
			q.Text += " (" + strings.Join(labels, " | ") + ")"
		}
		asked = append(asked, q.Text)
	}
	line := join(join(lead, r.Reason), strings.Join(asked, " / "))
	s.askPerson(in, r, agent.EventQuestionAsked, line, func(d agent.Decision) (name, line string, answer object) {
		var told []string // what was asked and answered, without secrets
		for _, q := range r.Questions {
			if texts := d.Answers[q.ID]; len(texts) > 0 && q.Secret {
				told = append(told, q.Text+" → (not shown)")
			} else if len(texts) > 0 {
				told = append(told, q.Text+" → "+strings.Join(texts, ", "))
			}
		}
		if d.Expired {
			return agent.EventRequestExpired, "no answer in time: " + r.Summary, nothing
		}
		if len(told) == 0 {
			return agent.EventQuestionDeclined, join("not answered"+by(d)+": "+r.Summary, d.Reason), nothing
		}
		answer, err := give(d.Answers)
		if err != nil {
			return agent.EventQuestionDeclined, "declined, " + err.Error() + ": " + r.Summary, nothing
		}
		return agent.EventQuestionAnswered, "answered" + by(d) + ": " + strings.Join(told, " / "), answer
	})
}

// form is a form of an MCP server. One without fields is agreed to or not.
type form []field

// field is one member of requestedSchema, as a person is asked it.
type field struct {
	agent.Question
	kind    string   // string, boolean, integer, number, or array
	choices []choice // what the options stand for
}

type choice struct {
	Value string `json:"const"`
	Title string
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
		Type       string
		Properties map[string]json.RawMessage
		Required   []string
	}
	if json.Unmarshal(p.RequestedSchema, &schema) != nil || schema.Type != "object" {
		return nil, errors.New("its form can't be read")
	}
	var out form
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		f, ok := readField(name, schema.Properties[name])
		if !ok {
			return nil, fmt.Errorf("its field %q can't be read", oneLine(name, 40))
		}
		if f.Optional = !slices.Contains(schema.Required, name); f.Optional {
			f.Text += " (optional)"
		}
		out = append(out, f)
	}
	return out, nil
}

// readField reads a field. Its options are in enum, in oneOf with titles, or for a list in items.
func readField(name string, raw json.RawMessage) (f field, ok bool) {
	var w struct {
		Type, Title, Description string
		Enum, EnumNames          []string
		OneOf                    []choice
		Items                    struct {
			Enum  []string
			AnyOf []choice
		}
	}
	if json.Unmarshal(raw, &w) != nil {
		return field{}, false
	}
	f.kind, f.ID, f.Header, f.Text = w.Type, name, cmp.Or(w.Title, name), cmp.Or(w.Description, w.Title, name)
	f.choices = slices.Concat(w.OneOf, w.Items.AnyOf)
	for i, value := range slices.Concat(w.Enum, w.Items.Enum) {
		c := choice{Value: value}
		if i < len(w.EnumNames) {
			c.Title = w.EnumNames[i]
		}
		f.choices = append(f.choices, c)
	}
	switch f.kind {
	case "string":
	case "boolean":
		f.Options, f.choices = yesNo, []choice{{"true", "Yes"}, {"false", "No"}}
		return f, true
	case "integer", "number":
		f.Type = f.kind
	case "array":
		f.Several = true
		f.Text += " (one or several)"
	default:
		return field{}, false
	}
	for i, c := range f.choices {
		f.choices[i].Title = cmp.Or(c.Title, c.Value)
		o := agent.Option{Label: f.choices[i].Title}
		if o.Label != c.Value {
			o.Description = c.Value
		}
		f.Options = append(f.Options, o)
	}
	return f, !f.Several || len(f.choices) > 0
}

const agreed = "agreed" // the id of the one question of a form without fields

var yesNo = []agent.Option{{Label: "Yes"}, {Label: "No"}}

func (f form) questions() []agent.Question {
	if len(f) == 0 {
		return []agent.Question{{ID: agreed, Text: "Agree?", Options: yesNo}}
	}
	out := make([]agent.Question, 0, len(f))
	for i := range f {
		out = append(out, f[i].Question)
	}
	return out
}

// content gives the answers the types of the form. A field without an answer is left out.
func (f form) content(given map[string][]string) (object, error) {
	out := object{}
	if len(f) == 0 && !strings.EqualFold(strings.Join(given[agreed], ""), "yes") {
		return nil, errors.New("not agreed to")
	}
	for i := range f {
		texts := given[f[i].ID]
		if len(texts) == 0 && f[i].Optional {
			continue
		}
		value, err := f[i].value(texts)
		if err != nil {
			return nil, err
		}
		out[f[i].ID] = value
	}
	return out, nil
}

// value reads the answer to one field.
func (f *field) value(texts []string) (any, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("no answer to %q", f.ID)
	}
	text := strings.TrimSpace(strings.Join(texts, " "))
	switch f.kind {
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
		value, err := f.choose(text)
		return value == "true", err
	case "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	case "number":
		if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n, nil
		}
	default:
		if len(f.choices) > 0 {
			return f.choose(text)
		}
		return strings.Join(texts, " "), nil
	}
	return nil, fmt.Errorf("the answer to %q is no %s", f.ID, f.kind)
}

// choose finds an option by its label or its value.
func (f *field) choose(text string) (string, error) {
	for _, c := range f.choices {
		if strings.EqualFold(text, c.Title) || text == c.Value {
			return c.Value, nil
		}
	}
	return "", fmt.Errorf("the answer to %q is none of those on offer", f.ID)
}
