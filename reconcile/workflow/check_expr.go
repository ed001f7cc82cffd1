package workflow

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a word in an expression.
type tokenKind int

const (
	endToken   tokenKind = iota
	nameToken            // issue
	fieldToken           // .title, without the dot
	namedToken           // truncate:, without the colon
	valueToken           // a literal
	markToken            // operators, brackets, commas, pipes
)

type token struct {
	kind tokenKind
	text string
	// quoted: a literal string, whose text is then without quotes.
	quoted bool
}

// expr reads one expression, looking for names. The library has parsed it, so that its syntax is correct.
type expr struct {
	c    *checker
	line int
	rem  string
	peek *token
}

func (c *checker) scan(args string, line int) *expr { return &expr{c: c, line: line, rem: args} }

func (e *expr) next() token {
	if e.peek != nil {
		t := *e.peek
		e.peek = nil
		return t
	}
	e.rem = strings.TrimLeftFunc(e.rem, unicode.IsSpace)
	if e.rem == "" {
		return token{}
	}
	switch first := e.rem[0]; {
	case first == '\'' || first == '"':
		return e.stringToken(first)
	case first == '.' && nameLength(e.rem[1:]) > 0:
		n := nameLength(e.rem[1:])
		return e.take(fieldToken, 1, 1+n)
	case nameLength(e.rem) > 0:
		n := nameLength(e.rem)
		switch text := e.rem[:n]; {
		case strings.HasPrefix(e.rem[n:], ":"):
			t := e.take(namedToken, 0, n)
			e.rem = e.rem[1:]
			return t
		case slices.Contains([]string{"and", "or", "contains", "in"}, text):
			return e.take(markToken, 0, n)
		case slices.Contains([]string{"true", "false", "nil"}, text):
			return e.take(valueToken, 0, n)
		}
		return e.take(nameToken, 0, n)
	case first >= '0' && first <= '9' || first == '-':
		return e.take(valueToken, 0, numberLength(e.rem))
	}
	for _, mark := range []string{"==", "!=", ">=", "<=", ".."} {
		if strings.HasPrefix(e.rem, mark) {
			return e.take(markToken, 0, len(mark))
		}
	}
	_, size := utf8.DecodeRuneInString(e.rem)
	return e.take(markToken, 0, size)
}

func (e *expr) take(kind tokenKind, from, to int) token {
	t := token{kind: kind, text: e.rem[from:to]}
	e.rem = e.rem[to:]
	return t
}

func (e *expr) stringToken(quote byte) token {
	for i := 1; i < len(e.rem); i++ {
		switch {
		case e.rem[i] == '\\' && quote == '"':
			i++
		case e.rem[i] == quote:
			t := token{kind: valueToken, text: e.rem[1:i], quoted: true}
			e.rem = e.rem[i+1:]
			return t
		}
	}
	t := token{kind: valueToken, text: e.rem[1:], quoted: true}
	e.rem = ""
	return t
}

// nameLength is the length of the name at the beginning: letters, digits, _ and -, and one ? at its end.
func nameLength(text string) int {
	for i, r := range text {
		switch {
		case r == '_' || unicode.IsLetter(r):
		case i > 0 && (r == '-' || unicode.IsDigit(r) || unicode.IsMark(r)):
		case i > 0 && r == '?':
			return i + 1
		default:
			return i
		}
	}
	return len(text)
}

func numberLength(text string) int {
	n := 1
	for n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n] == '.' && n+1 < len(text) && text[n+1] >= '0' && text[n+1] <= '9') {
		n++
	}
	return n
}

func (e *expr) ahead() token {
	if e.peek == nil {
		t := e.next()
		e.peek = &t
	}
	return *e.peek
}

// accept takes the next token if it is this mark.
func (e *expr) accept(mark string) bool {
	if t := e.ahead(); t.kind == markToken && t.text == mark {
		e.next()
		return true
	}
	return false
}

// rest reads the remainder of a tag: modifiers of a loop, further values of a when.
func (e *expr) rest() {
	for e.ahead().kind != endToken {
		switch t := e.ahead(); {
		case t.kind == namedToken, t.kind == markToken, t.kind == fieldToken:
			e.next()
		case t.kind == nameToken && t.text == "reversed":
			e.next()
		default:
			e.condition()
		}
	}
}

// condition reads values joined by operators, and gives the shape of the first if it stands alone.
func (e *expr) condition() *shape {
	first := e.filtered()
	for t := e.ahead(); t.kind == markToken && slices.Contains(operators(), t.text); t = e.ahead() {
		e.next()
		e.filtered()
		first = plain()
	}
	return first
}

func operators() []string { return []string{"==", "!=", "<", ">", "<=", ">=", "contains", "and", "or"} }

// filtered reads a value with its filters.
func (e *expr) filtered() *shape {
	s := e.value()
	for e.accept("|") {
		t := e.next()
		known := e.c.filters[t.text]
		if !known {
			e.unknown("filter", t.text, slices.Sorted(maps.Keys(e.c.filters)))
		}
		var argument token
		if t.kind == namedToken {
			argument = e.arguments()
		}
		s = e.apply(t.text, s, argument)
	}
	return s
}

// arguments reads the arguments of a filter and gives the first if it is a literal string.
func (e *expr) arguments() (first token) {
	for i := 0; ; i++ {
		if t := e.ahead(); t.kind == namedToken {
			e.next()
		} else if i == 0 && t.quoted {
			first = t
		}
		e.value()
		if !e.accept(",") {
			return first
		}
	}
}

// apply is the shape of a filtered value; nil where it could be anything.
func (e *expr) apply(filter string, s *shape, argument token) *shape {
	if s == nil {
		return nil
	}
	if slices.Contains([]string{"map", "where", "sort", "sort_natural"}, filter) && s.list && argument.quoted && s.items != nil && s.items.fields != nil {
		if _, ok := s.items.fields[argument.text]; !ok {
			e.unknown("field", argument.text, slices.Sorted(maps.Keys(s.items.fields)))
		}
	}
	switch filter {
	case "sort", "sort_natural", "reverse", "uniq", "compact", "where", "slice":
		return s
	case "first", "last":
		if s.list {
			return s.items
		}
	}
	return nil
}

// value reads a literal, a variable with its fields and indexes, a range or a condition in brackets.
func (e *expr) value() *shape {
	var s *shape
	path := ""
	switch t := e.next(); {
	case t.kind == valueToken:
		s = plain()
	case t.kind == markToken && t.text == "(":
		s = e.condition()
		if e.accept("..") {
			e.value()
			s = listOf(plain())
		}
		e.accept(")")
	case t.kind == nameToken || t.kind == namedToken:
		path = t.text
		known := false
		if s, known = e.c.lookup(path); !known {
			e.unknown("variable", path, e.c.names())
		}
	}
	for {
		switch t := e.ahead(); {
		case t.kind == fieldToken:
			e.next()
			s = e.member(s, path, t.text)
			path += "." + t.text
		case e.accept("["):
			s = e.index(s, path)
			path += "[…]"
		default:
			return s
		}
	}
}

// index reads brackets after a value.
func (e *expr) index(s *shape, path string) *shape {
	t := e.ahead()
	e.condition()
	e.accept("]")
	switch {
	case s == nil:
		return nil
	case t.quoted && s.fields != nil:
		return e.member(s, path, t.text)
	case s.list:
		return s.items
	}
	return nil
}

// member is the field of a value. An unknown one is reported.
func (e *expr) member(s *shape, path, name string) *shape {
	if s == nil {
		return nil
	}
	known := []string{"size"}
	if s.list {
		if known = append(known, "first", "last"); name == "first" || name == "last" {
			return s.items
		}
	}
	if field, ok := s.fields[name]; ok {
		return field
	}
	if name == "size" {
		return plain()
	}
	known = slices.AppendSeq(known, maps.Keys(s.fields))
	slices.Sort(known)
	message := "unknown variable " + path + "." + name
	if near := nearest(name, known); near != "" {
		message += "; did you mean " + path + "." + near + "?"
	}
	e.c.report(e.line, "%s", message)
	return nil
}

// unknown reports a name that does not exist, with the nearest that does.
func (e *expr) unknown(what, name string, known []string) {
	message := "unknown " + what + " " + name
	switch near := nearest(name, known); {
	case name == "blank" || name == "empty":
		message += "; write {% if x %}, {% if x == nil %} or {% if x == \"\" %} instead"
	case near != "":
		message += "; did you mean " + near + "?"
	}
	e.c.report(e.line, "%s", message)
}
