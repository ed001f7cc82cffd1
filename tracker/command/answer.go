package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// record is an object of an answer. Fields that no function asks for are ignored.
type record struct {
	path   string // such as issues[3]; empty for the answer itself
	fields map[string]json.RawMessage
}

// parse reads an answer, which is a single JSON object.
func parse(data []byte) (record, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return record{}, errors.New("it printed nothing")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return record{}, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return object("", raw)
}

// object reads a part of an answer that must be an object, or the answer itself.
func object(path string, raw json.RawMessage) (record, error) {
	r := record{path: path}
	if err := json.Unmarshal(raw, &r.fields); err != nil || r.fields == nil {
		return record{}, typeError(path, "an object", raw)
	}
	return r, nil
}

// typeError is the error of a value at a path that has another type than wanted.
func typeError(path, want string, raw json.RawMessage) error {
	return fmt.Errorf("%s must be %s, is %s", cmp.Or(path, "the answer"), want, kind(raw))
}

// kind describes a value in a sentence.
func kind(raw json.RawMessage) string {
	const longest = 40
	if len(raw) == 0 {
		return "missing"
	}
	return text.Within(strings.ToValidUTF8(string(raw), "?"), longest)
}

// at returns the path of a field.
func (r record) at(name string) string {
	if r.path == "" {
		return name
	}
	return r.path + "." + name
}

// value returns a field, nil if it is absent or null.
func (r record) value(name string) json.RawMessage {
	if raw := r.fields[name]; string(raw) != "null" {
		return raw
	}
	return nil
}

// list returns the elements of a field that must be a list, each with its path.
func (r record) list(name string) ([]json.RawMessage, error) {
	raw, given := r.fields[name]
	if !given {
		return nil, fmt.Errorf("%s is missing", r.at(name))
	}
	var elements []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil || elements == nil {
		return nil, typeError(r.at(name), "a list", raw)
	}
	return elements, nil
}

// reader reads the fields of a record and keeps the first error.
type reader struct {
	record
	err error
}

// fail keeps an error, unless an earlier error is kept already or err is nil.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// need reads a string that must be there and must not be blank.
func (r *reader) need(name string) string {
	s := r.text(name)
	if s == nil {
		r.fail(fmt.Errorf("%s is missing", r.at(name)))
		return ""
	}
	if strings.TrimSpace(*s) == "" {
		r.fail(fmt.Errorf("%s is empty", r.at(name)))
	}
	return strings.TrimSpace(*s)
}

// decode reads a field, nil if there is none. want says in words which type it must have.
func decode[T any](r *reader, name, want string) *T {
	raw := r.value(name)
	if raw == nil {
		return nil
	}
	var v *T
	if json.Unmarshal(raw, &v) != nil {
		r.fail(typeError(r.at(name), want, raw))
		return nil
	}
	return v
}

// text reads a string, nil if there is none.
func (r *reader) text(name string) *string { return decode[string](r, name, "a string") }

// or reads a string with a default.
func (r *reader) or(name, standard string) string {
	s := strings.TrimSpace(text.OrEmpty(r.text(name)))
	if s == "" {
		return standard
	}
	return s
}

// boolean reads true or false; false if there is neither.
func (r *reader) boolean(name string) bool {
	return text.OrEmpty(decode[bool](r, name, "true or false"))
}

// integer reads a whole number, which may be written as 2.0.
func (r *reader) integer(name string) *int {
	f := decode[float64](r, name, "a whole number")
	if f == nil {
		return nil
	}
	if *f != math.Trunc(*f) || math.Abs(*f) > math.MaxInt32 {
		r.fail(typeError(r.at(name), "a whole number", r.value(name)))
		return nil
	}
	return new(int(*f))
}

// time reads a time of RFC 3339.
func (r *reader) time(name string) *time.Time {
	s := r.text(name)
	if s == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil {
		r.fail(typeError(r.at(name), "a time such as 2026-01-31T09:30:00Z", r.value(name)))
		return nil
	}
	t = t.UTC()
	return &t
}

// each reads a list of objects that may be absent.
func (r *reader) each(name string, read func(*reader)) {
	if r.value(name) == nil {
		return
	}
	list, err := r.list(name)
	r.fail(err)
	for i, raw := range list {
		element, err := object(fmt.Sprintf("%s[%d]", r.at(name), i), raw)
		if err != nil {
			r.fail(err)
			continue
		}
		sub := &reader{record: element}
		read(sub)
		r.fail(sub.err)
	}
}

// labels reads the labels, in lower case, each once.
func (r *reader) labels() []string {
	labels := []string{}
	if r.value("labels") == nil {
		return labels
	}
	list, err := r.list("labels")
	r.fail(err)
	for i, raw := range list {
		var s *string
		if json.Unmarshal(raw, &s) != nil || s == nil {
			r.fail(typeError(fmt.Sprintf("%s[%d]", r.at("labels"), i), "a string", raw))
			break
		}
		labels = append(labels, strings.ToLower(*s))
	}
	return text.Unique(labels)
}

// issue reads an issue. After an error only ID and Identifier are set, as far as they could be
// read.
func issue(path string, raw json.RawMessage) (reconcile.Issue, error) {
	fields, err := object(path, raw)
	if err != nil {
		return reconcile.Issue{}, err
	}
	r := &reader{record: fields}
	i := reconcile.Issue{ID: r.need("id")}
	i.Identifier = r.or("identifier", i.ID)
	i.Title = r.need("title")
	i.State = r.need("state")
	i.Description = r.text("description")
	i.BranchName = r.text("branch_name")
	i.URL = r.text("url")
	i.Priority = r.integer("priority")
	i.Labels = r.labels()
	i.BlockedBy = []reconcile.BlockerRef{}
	r.each("blocked_by", func(b *reader) {
		id := b.need("id")
		identifier := b.or("identifier", id)
		i.BlockedBy = append(i.BlockedBy, reconcile.BlockerRef{
			ID:         &id,
			Identifier: &identifier,
			State:      b.text("state"),
		})
	})
	if raw := r.value("assignee"); raw != nil {
		fields, err := object(r.at("assignee"), raw)
		a := &reader{record: fields, err: err}
		i.Assignee = &reconcile.Assignee{
			ID:    a.or("id", ""),
			Email: a.or("email", ""),
			IsMe:  a.boolean("is_me"),
		}
		r.fail(a.err)
	}
	i.CreatedAt = r.time("created_at")
	i.UpdatedAt = r.time("updated_at")
	i.LastCommentAt = r.time("last_comment_at")
	if r.err != nil {
		return reconcile.Issue{ID: i.ID, Identifier: i.Identifier}, r.err
	}
	return i, nil
}
