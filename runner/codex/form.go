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

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// form is a form of an MCP server. A form without fields asks for agreement.
type form []field

// field is a member of requestedSchema with its question to the operator.
type field struct {
	agent.Question
	kind string // string, boolean, integer, number, or array
}

// value returns the value that an option of the field stands for.
func (f *field) value(o agent.Option) string {
	if f.kind == "boolean" {
		return strconv.FormatBool(o.Label == "Yes")
	}
	return cmp.Or(o.Description, o.Label)
}

const agreed = "agreed" // the id of the only question of a form without fields

var yesNo = []agent.Option{{Label: "Yes"}, {Label: "No"}}

// readForm reads a form. An error is the reason why it can't be shown to an operator.
func readForm(p *elicitation) (form, error) {
	switch p.Mode {
	case "", "form", "openai/form", "openaiForm":
	case "url":
		return nil, errors.New("it wants to open a web page (" + wire.Short(p.URL, 100) + ")")
	default:
		return nil, fmt.Errorf("it has the unknown mode %q", wire.Short(p.Mode, 40))
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
			return nil, fmt.Errorf("its field %q can't be read", wire.Short(name, 40))
		}
		f.Optional = !slices.Contains(schema.Required, name)
		if f.Optional {
			f.Text += " (optional)"
		}
		out = append(out, f)
	}
	return out, nil
}

// readField reads a field. It is not ok if its type is unknown. Options are in enum, in oneOf
// with titles, or in items of an array.
func readField(name string, raw json.RawMessage) (f field, ok bool) {
	type titled struct{ Const, Title string }
	var w struct {
		Type, Title, Description string
		Enum, EnumNames          []string
		OneOf                    []titled
		Items                    struct {
			Enum  []string
			AnyOf []titled
		}
	}
	if json.Unmarshal(raw, &w) != nil {
		return field{}, false
	}
	f.kind = w.Type
	f.ID = name
	f.Header = cmp.Or(w.Title, name)
	f.Text = cmp.Or(w.Description, w.Title, name)
	choices := slices.Concat(w.OneOf, w.Items.AnyOf)
	for i, value := range slices.Concat(w.Enum, w.Items.Enum) {
		c := titled{Const: value}
		if i < len(w.EnumNames) {
			c.Title = w.EnumNames[i]
		}
		choices = append(choices, c)
	}
	for _, c := range choices {
		o := agent.Option{Label: cmp.Or(c.Title, c.Const)}
		if o.Label != c.Const {
			o.Description = c.Const
		}
		f.Options = append(f.Options, o)
	}
	switch f.kind {
	case "string":
	case "boolean":
		f.Options = yesNo
	case "integer", "number":
		f.Type = f.kind
	case "array":
		f.Several = true
		f.Text += " (one or several)"
	default:
		return field{}, false
	}
	return f, !f.Several || len(f.Options) > 0
}

// questions returns the question of each field.
func (f form) questions() []agent.Question {
	if len(f) == 0 {
		return []agent.Question{{ID: agreed, Text: "Agree?", Options: yesNo}}
	}
	return text.Map(f, func(f field) agent.Question { return f.Question })
}

// content returns the answers with the types of the form. Optional fields without an answer
// are left out.
func (f form) content(given map[string][]string) (object, error) {
	out := object{}
	if len(f) == 0 && !strings.EqualFold(strings.Join(given[agreed], ""), "yes") {
		return nil, errors.New("not agreed to")
	}
	for _, field := range f {
		texts := given[field.ID]
		if len(texts) == 0 && field.Optional {
			continue
		}
		value, err := field.answer(texts)
		if err != nil {
			return nil, err
		}
		out[field.ID] = value
	}
	return out, nil
}

// answer returns the answer to a field, with the field's type.
func (f *field) answer(texts []string) (any, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("no answer to %q", f.ID)
	}
	chosen := f.chosen(texts)
	if len(f.Options) > 0 && len(chosen) != len(texts) || len(chosen) > 1 && !f.Several {
		return nil, fmt.Errorf("the answer to %q is not one of the options", f.ID)
	}
	switch {
	case f.Several:
		return chosen, nil
	case f.kind == "boolean":
		return chosen[0] == "true", nil
	case len(chosen) == 1:
		return chosen[0], nil
	}
	said := strings.Join(texts, " ")
	mistyped := fmt.Errorf("the answer to %q is not of type %s", f.ID, f.kind)
	switch f.kind {
	case "integer":
		n, err := strconv.ParseInt(strings.TrimSpace(said), 10, 64)
		if err != nil {
			return nil, mistyped
		}
		return n, nil
	case "number":
		n, err := strconv.ParseFloat(strings.TrimSpace(said), 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, mistyped
		}
		return n, nil
	}
	return said, nil
}

// chosen returns the values of the options that are named by their labels or values. It leaves
// out a text that names none.
func (f *field) chosen(texts []string) []string {
	var values []string
	for _, text := range texts {
		at := slices.IndexFunc(f.Options, func(o agent.Option) bool {
			return strings.EqualFold(strings.TrimSpace(text), o.Label) || text == f.value(o)
		})
		if at >= 0 {
			values = append(values, f.value(f.Options[at]))
		}
	}
	return values
}
