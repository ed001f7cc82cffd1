package jiratest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var token = regexp.MustCompile(`\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|!=|[()=,~]|[^\s()=,~!"']+)`)

// query compiles JQL of the forms that the tests use: comparisons by =, !=, IN and ~ with AND, OR
// and parentheses, and at the end an ORDER BY, which is not looked at.
func (s *Server) query(jql string) (func(*issue) bool, error) {
	q := &parser{s: s}
	rest := jql
	for strings.TrimSpace(rest) != "" {
		at := token.FindStringSubmatchIndex(rest)
		if at == nil || at[0] != 0 {
			return nil, fmt.Errorf("error in the JQL Query: %q is not understood", rest)
		}
		q.tokens = append(q.tokens, rest[at[2]:at[3]])
		rest = rest[at[1]:]
	}
	if len(q.tokens) == 0 || q.is("ORDER") {
		return nil, errors.New("unbounded JQL queries are not allowed here")
	}
	fits, err := q.either()
	if err != nil {
		return nil, err
	}
	if len(q.tokens) > 0 && !q.is("ORDER") {
		return nil, fmt.Errorf("error in the JQL Query: Expecting end of query but got '%s'", q.tokens[0])
	}
	return fits, nil
}

type parser struct {
	s      *Server
	tokens []string
}

// is reports whether the next token is a word.
func (q *parser) is(word string) bool {
	return len(q.tokens) > 0 && strings.EqualFold(q.tokens[0], word)
}

// takes removes the next token if it is a word.
func (q *parser) takes(word string) bool {
	if !q.is(word) {
		return false
	}
	q.tokens = q.tokens[1:]
	return true
}

// next removes the next token and returns it without quotes.
func (q *parser) next() string {
	if len(q.tokens) == 0 {
		return ""
	}
	word := q.tokens[0]
	q.tokens = q.tokens[1:]
	return strings.Trim(word, `"'`)
}

func (q *parser) either() (func(*issue) bool, error) {
	left, err := q.both()
	if err != nil || !q.takes("OR") {
		return left, err
	}
	right, err := q.either()
	return func(i *issue) bool { return left(i) || right(i) }, err
}

func (q *parser) both() (func(*issue) bool, error) {
	left, err := q.one()
	if err != nil || !q.takes("AND") {
		return left, err
	}
	right, err := q.both()
	return func(i *issue) bool { return left(i) && right(i) }, err
}

func (q *parser) one() (func(*issue) bool, error) {
	if q.takes("(") {
		inner, err := q.either()
		if err == nil && !q.takes(")") {
			err = errors.New("error in the JQL Query: Expecting ')'")
		}
		return inner, err
	}
	name := strings.ToLower(q.next())
	sign := strings.ToLower(q.next())
	var values []string
	switch sign {
	case "=", "!=", "~":
		values = []string{q.next()}
	case "in":
		if !q.takes("(") {
			return nil, errors.New("error in the JQL Query: Expecting '('")
		}
		for !q.takes(")") {
			if len(q.tokens) == 0 {
				return nil, errors.New("error in the JQL Query: Expecting ')'")
			}
			values = append(values, q.next())
			q.takes(",")
		}
	default:
		return nil, fmt.Errorf("error in the JQL Query: Expecting operator but got '%s'", sign)
	}
	for _, v := range values {
		if name == "status" && !q.s.hasStatus(v) {
			return nil, fmt.Errorf("the value '%s' does not exist for the field 'status'", v)
		}
	}
	of, known := q.s.columns()[name]
	if !known {
		return nil, fmt.Errorf("field '%s' does not exist or you do not have permission to view it", name)
	}
	if name == "project" {
		for at, v := range values {
			values[at] = q.s.renewed(v, q.s.Project)
		}
	}
	return func(i *issue) bool {
		found := slices.ContainsFunc(of(i), func(have string) bool {
			return slices.ContainsFunc(values, func(v string) bool {
				if sign == "~" {
					return strings.Contains(strings.ToLower(have), strings.ToLower(v))
				}
				return strings.EqualFold(have, v)
			})
		})
		return found != (sign == "!=")
	}, nil
}

func (s *Server) hasStatus(name string) bool {
	return slices.ContainsFunc(s.statuses, func(have Status) bool {
		return have.ID == name || strings.EqualFold(have.Name, name)
	})
}

// columns are the fields of the index, each with its values for an issue.
func (s *Server) columns() map[string]func(*issue) []string {
	of := func(i *issue) indexed {
		if old, has := s.indexed[i.id]; has && s.lag {
			return old
		}
		if s.lag { // it is newer than the index
			return indexed{}
		}
		return indexed{status: i.status.ID, project: i.project}
	}
	byID := func(id string) Status {
		at := slices.IndexFunc(s.statuses, func(have Status) bool { return have.ID == id })
		if at < 0 {
			return Status{}
		}
		return s.statuses[at]
	}
	return map[string]func(*issue) []string{
		"project":        func(i *issue) []string { return []string{of(i).project} },
		"status":         func(i *issue) []string { return []string{of(i).status, byID(of(i).status).Name} },
		"statuscategory": func(i *issue) []string { return []string{byID(of(i).status).Category} },
		"labels":         func(i *issue) []string { return i.labels },
		"summary":        func(i *issue) []string { return []string{i.summary} },
	}
}
