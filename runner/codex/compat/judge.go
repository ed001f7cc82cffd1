package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/schema"
)

// printed is a schema as codex prints it: a file for each kind of message, and one for each answer.
type printed struct {
	requests, notifications, served, notices map[string]schema.Schema // params by method
	events                                   []string                 // those of codex/event, in older releases

	dir string
}

// readPrinted reads the four lists of messages that codex prints.
func readPrinted(dir string) (p printed, err error) {
	p.dir = dir
	for _, list := range []struct {
		name string
		into *map[string]schema.Schema
	}{
		{"ClientRequest", &p.requests}, {"ClientNotification", &p.notifications}, {"ServerRequest", &p.served}, {"ServerNotification", &p.notices},
	} {
		data, err := readFile(filepath.Join(dir, list.name+".json"))
		if err != nil {
			return p, err
		}
		s, err := schema.Parse(data)
		if err != nil {
			return p, fmt.Errorf("%s.json: %w", list.name, err)
		}
		if *list.into = methods(s); len(*list.into) == 0 {
			return p, fmt.Errorf("%s.json lists no message", list.name)
		}
	}
	p.events, err = printedEvents(filepath.Join(dir, "EventMsg.json"))
	return p, err
}

// printedEvents are the events that older releases sent beside the notifications; none where there are none any more.
func printedEvents(path string) ([]string, error) {
	data, err := readFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := schema.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	types, _ := s.Member("type")
	return schema.WordsOf(types), nil
}

func methods(s schema.Schema) map[string]schema.Schema {
	out := map[string]schema.Schema{}
	for _, message := range s.Choices() {
		named, _ := message.Member("method")
		params, known := message.Member("params")
		if !known {
			params = []schema.Schema{schema.New(nil)} // of initialized there are none
		}
		for _, method := range schema.WordsOf(named) {
			out[method] = params[0]
		}
	}
	return out
}

// answer is the schema of what a request is answered with: codex names it like the params. ok is false where it was not
// printed.
func (p printed) answer(params schema.Schema) (s schema.Schema, ok bool, err error) {
	name, named := strings.CutSuffix(params.Ref(), "Params")
	if !named {
		return s, false, nil
	}
	for _, sub := range []string{"", "v2", "v1"} {
		data, err := readFile(filepath.Join(p.dir, sub, name+"Response.json"))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			s, err = schema.Parse(data)
		}
		if err != nil {
			return s, false, fmt.Errorf("%sResponse.json: %w", name, err)
		}
		return s, true, nil
	}
	return s, false, nil
}

// judge holds what we say and need to what codex has printed.
func (r *Report) judge(p printed) {
	spoken := codex.Spoken()
	for _, m := range spoken.Requests {
		params, known := p.requests[m.Method]
		if !known {
			r.lacks(m.Without, m.Method)
			continue
		}
		r.says(m, params)
		if answer, ok := r.answer(p, m, params); ok {
			r.reads(m, "the answer to "+m.Method, answer)
		}
	}
	for _, m := range spoken.Notifications {
		if _, known := p.notifications[m.Method]; !known {
			r.lacks(m.Without, m.Method)
		}
	}
	for _, m := range spoken.Served {
		params, known := p.served[m.Method]
		if !known {
			continue // what is not asked is not answered
		}
		r.reads(m, m.Method, params)
		if answer, ok := r.answer(p, m, params); ok && len(m.Says) > 0 {
			r.says(m, answer)
		}
		delete(p.served, m.Method)
	}
	for _, m := range spoken.Notices {
		params, known := p.notices[m.Method]
		if !known && slices.Contains(p.events, m.Formerly) {
			continue
		}
		if !known {
			r.lacks(m.Without, m.Method)
			continue
		}
		r.reads(m, m.Method, params)
	}
	for _, method := range sorted(p.served) {
		r.warn("may ask with %s, which this version of symphony refuses", method)
	}
	r.Allowed = allowed(p)
}

func (r *Report) answer(p printed, m codex.Message, params schema.Schema) (schema.Schema, bool) {
	answer, ok, err := p.answer(params)
	if err != nil {
		r.warn("printed no schema of the answer to %s that can be read: %v", m.Method, err)
	}
	return answer, ok
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// lacks notes something that codex does not know: as a warning where it is known what does not work then.
func (r *Report) lacks(without, what string) { r.fault(without, "does not know "+what) }

func (r *Report) fault(without, fault string) {
	if without != "" {
		r.warn("%s: %s", fault, without)
		return
	}
	r.Missing = append(r.Missing, fault)
}

// says holds the examples of a message to the schema of what they are sent as.
func (r *Report) says(m codex.Message, rule schema.Schema) {
	told := map[string]bool{}
	for _, example := range m.Says {
		value, err := schema.Decode([]byte(example))
		if err != nil {
			panic(fmt.Sprintf("example of %s: %v", m.Method, err)) // a mistake in the table, which its test finds
		}
		problems := rule.Check(value)
		if len(problems) > 0 && fits(rule, m.Instead[example]) {
			continue
		}
		for _, problem := range problems {
			if respelled(value, problem) {
				continue
			}
			fault := faultOf(m.Method, problem)
			if told[fault] {
				continue
			}
			told[fault] = true
			without, spare := spared(m.Spare, problem.At)
			if !spare || without != "" {
				r.fault(without, fault)
			}
		}
	}
}

// fits says whether there is another example, and it is one that codex takes.
func fits(rule schema.Schema, example string) bool {
	value, err := schema.Decode([]byte(example))
	return err == nil && len(rule.Check(value)) == 0
}

// respelled says that codex takes the word in the spelling that it had before, which the session finds.
func respelled(value any, p schema.Problem) bool {
	word, ok := memberAt(value, p.At).(string)
	former := codex.FormerWord(word)
	return ok && p.Kind == schema.Value && former != "" && slices.Contains(strings.Split(p.Want, ", "), former)
}

// spared finds the member of spare that a path names or lies below; of several the nearest.
func spared(spare map[string]string, path string) (without string, ok bool) {
	nearest := ""
	for name, text := range spare {
		rest, below := strings.CutPrefix(path, name)
		if below && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(name) > len(nearest) {
			nearest, without, ok = name, text, true
		}
	}
	return without, ok
}

func faultOf(method string, p schema.Problem) string {
	at := method
	if p.At != "" {
		at += "." + p.At
	}
	switch p.Kind {
	case schema.Unknown:
		return "does not know " + at
	case schema.Missing:
		return "wants " + at + ", which symphony does not send"
	case schema.Value:
		return "allows for " + at + " only " + p.Want
	case schema.Type:
	}
	return "wants " + at + " to be " + p.Want
}

// reads holds the members that we need to the schema of what codex sends.
func (r *Report) reads(m codex.Message, what string, rule schema.Schema) {
	for _, member := range m.Reads {
		rules := rule.Find(member.Path)
		if len(rules) == 0 {
			r.fault(member.Without, fmt.Sprintf("does not send %s.%s", what, member.Path))
			continue
		}
		if member.Type != "" && !takes(rules, member.Type) {
			r.fault(member.Without, fmt.Sprintf("sends %s.%s as %s, not as %s", what, member.Path, typesOf(rules), member.Type))
			continue
		}
		words := schema.WordsOf(rules)
		for _, word := range member.Words {
			if len(words) > 0 && !slices.Contains(words, word) {
				r.fault(member.Without, fmt.Sprintf("does not send %s.%s %q", what, member.Path, word))
			}
		}
	}
}

func takes(rules []schema.Schema, kind string) bool {
	for _, rule := range rules {
		if rule.Takes(kind) {
			return true
		}
	}
	return false
}

func typesOf(rules []schema.Schema) string {
	var names []string
	for _, rule := range rules {
		for _, name := range rule.Types() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " or ")
}
