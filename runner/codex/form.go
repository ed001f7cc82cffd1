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
)

// serveElicitation answers mcpServer/elicitation/request: a form of an MCP server's, or codex's own question whether
// a tool of the server may run.
func (s *Session) serveElicitation(m *message, p *params, e Event) {
	if tool, ok := p.toolApproval(); ok {
		s.serveApproval(m, e, tool, toolVerdicts())
		return
	}
	declined := object{"action": "decline", "content": nil, "_meta": nil}
	e.Name = EventQuestionDeclined
	if s.o.OnQuestion != QuestionAsk {
		e.Message = oneLine("declined: "+e.Message, messageLength)
		s.reply(m, e, declined)
		return
	}
	f, err := readForm(p)
	if err != nil {
		e.Message = oneLine("declined, "+err.Error()+": "+e.Message, messageLength)
		s.reply(m, e, declined)
		return
	}
	a := p.ask(AskQuestion, "MCP server "+p.ServerName+": "+cmp.Or(p.Message, "a form"))
	a.Server, a.Reason, a.Questions = p.ServerName, oneLine(p.Message, summaryLength), f.questions()
	e.Name, e.Message = EventQuestionAsked, oneLine(a.questionsText(), messageLength)
	s.askPerson(m, e, a, func(d Decision) (name, message string, answer object) {
		if name, message, ok := a.unanswered(d); ok {
			return name, message, declined
		}
		content, err := f.content(d.Answers)
		if err != nil {
			return EventQuestionDeclined, "declined, " + err.Error() + ": " + a.Summary, declined
		}
		return EventQuestionAnswered, a.answeredText(d), object{"action": "accept", "content": content, "_meta": nil}
	})
}

// toolApproval reads the request by which codex asks whether a tool of an MCP server may run. It comes as a form
// without fields, and only its _meta tells.
func (p *params) toolApproval() (Ask, bool) {
	var meta struct {
		Kind   string          `json:"codex_approval_kind"`
		Tool   string          `json:"tool_name"`
		Params json.RawMessage `json:"tool_params"`
	}
	if json.Unmarshal(p.Meta, &meta) != nil || meta.Kind != "mcp_tool_call" {
		return Ask{}, false
	}
	if f, err := readForm(p); err != nil || !f.bare {
		return Ask{}, false // a server's own form, whatever mark it carries
	}
	a := p.ask(AskPermissions, "")
	a.Summary = whole(p.ServerName + "/" + meta.Tool + " " + string(meta.Params))
	a.Server, a.Permissions, a.Reason = p.ServerName, p.Meta, oneLine(p.Message, summaryLength)
	a.OutsideSandbox = true // an MCP server has none
	return a, true
}

// toolVerdicts answer a toolApproval. "always" is not offered: it would be written into codex's configuration.
func toolVerdicts() verdicts {
	session := object{"action": "accept", "content": object{}, "_meta": object{"persist": "session"}}
	return verdicts{
		once: object{"action": "accept", "content": object{}, "_meta": nil}, session: session, policy: session,
		denied: func(string) object { return object{"action": "decline", "content": nil, "_meta": nil} },
		ended:  object{"action": "cancel", "content": nil, "_meta": nil},
	}
}

// form is an MCP server's form: fields of simple types.
type form struct {
	fields []field
	// bare: without fields, the form itself is agreed to or not.
	bare bool
}

// field is one member of requestedSchema.
type field struct {
	name     string
	required bool
	schema   fieldSchema
}

// fieldSchema holds all shapes of a field: enum, or oneOf with titles, or an array of one of these in items.
type fieldSchema struct {
	Type        string    `json:"type"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Enum        []string  `json:"enum"`
	EnumNames   []string  `json:"enumNames"`
	OneOf       []titled  `json:"oneOf"`
	Items       itemShape `json:"items"`
}

type itemShape struct {
	Enum  []string `json:"enum"`
	AnyOf []titled `json:"anyOf"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// readForm reads a form; an error says why no person can be asked it.
func readForm(p *params) (form, error) {
	switch p.Mode {
	case "", "form", "openai/form", "openaiForm":
	case "url":
		return form{}, errors.New("it wants a web page opened (" + oneLine(p.URL, 100) + ")")
	default:
		return form{}, fmt.Errorf("no form: mode %q", oneLine(p.Mode, 40))
	}
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(p.Schema, &schema) != nil || schema.Type != "object" {
		return form{}, errors.New("its form can't be read")
	}
	out := form{bare: len(schema.Properties) == 0}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		f := field{name: name, required: slices.Contains(schema.Required, name)}
		if json.Unmarshal(schema.Properties[name], &f.schema) != nil || !f.known() {
			return form{}, fmt.Errorf("its field %q can't be read", oneLine(name, 40))
		}
		out.fields = append(out.fields, f)
	}
	return out, nil
}

func (f *field) known() bool {
	switch f.schema.Type {
	case "string", "boolean", "number", "integer":
		return true
	case "array":
		return len(f.choices()) > 0
	}
	return false
}

// choices are the values on offer, with what they are called.
func (f *field) choices() []titled {
	named := slices.Concat(f.schema.OneOf, f.schema.Items.AnyOf)
	for i, value := range slices.Concat(f.schema.Enum, f.schema.Items.Enum) {
		c := titled{Const: value}
		if i < len(f.schema.EnumNames) {
			c.Title = f.schema.EnumNames[i]
		}
		named = append(named, c)
	}
	for i := range named {
		named[i].Title = cmp.Or(named[i].Title, named[i].Const)
	}
	return named
}

const (
	yes = "Yes"
	no  = "No"
	// agreed is the id of the one question of a bare form.
	agreed = "agreed"
)

func yesNo() []Option { return []Option{{Label: yes}, {Label: no}} }

// questions are the form's fields as a person is asked them.
func (f *form) questions() []Question {
	if f.bare {
		return []Question{{ID: agreed, Text: "Agree?", Options: yesNo()}}
	}
	out := make([]Question, 0, len(f.fields))
	for i := range f.fields {
		out = append(out, f.fields[i].question())
	}
	return out
}

func (f *field) question() Question {
	q := Question{ID: f.name, Header: cmp.Or(f.schema.Title, f.name), Text: cmp.Or(f.schema.Description, f.schema.Title, f.name)}
	switch f.schema.Type {
	case "array":
		q.Several = true
		q.Text += " (one or several)"
	case "boolean":
		q.Options = yesNo()
	case "integer", "number":
		q.Type = f.schema.Type
	}
	if !f.required {
		q.Optional = true
		q.Text += " (optional)"
	}
	for _, c := range f.choices() {
		o := Option{Label: c.Title}
		if c.Title != c.Const {
			o.Description = c.Const
		}
		q.Options = append(q.Options, o)
	}
	return q
}

// content gives the answers the types of the form; a field that nobody answered is left out.
func (f *form) content(answers map[string][]string) (object, error) {
	out := object{}
	if f.bare {
		if !strings.EqualFold(strings.Join(answers[agreed], ""), yes) {
			return nil, errors.New("not agreed to")
		}
		return out, nil
	}
	for i := range f.fields {
		field := &f.fields[i]
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
	if f.schema.Type == "array" {
		values := make([]string, 0, len(texts))
		for _, text := range texts {
			value, err := f.choice(text)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return values, nil
	}
	text := strings.TrimSpace(strings.Join(texts, " "))
	wrong := fmt.Errorf("the answer to %q is no %s", f.name, f.schema.Type)
	switch f.schema.Type {
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
		if n := json.Number(text); json.Valid([]byte(text)) && n.String() != "" {
			if _, err := n.Float64(); err == nil {
				return n, nil
			}
		}
		return nil, wrong
	}
	if len(f.choices()) > 0 {
		return f.choice(text)
	}
	return strings.Join(texts, " "), nil
}

// choice reads an answer out of those on offer, by label or by value.
func (f *field) choice(text string) (string, error) {
	for _, c := range f.choices() {
		if strings.EqualFold(text, c.Title) || text == c.Const {
			return c.Const, nil
		}
	}
	return "", fmt.Errorf("the answer to %q is none of those on offer", f.name)
}
