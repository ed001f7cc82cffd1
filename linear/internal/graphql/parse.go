// Package graphql parses GraphQL requests: documents of operations and fragments, without a schema. It accepts exactly
// what the specification of October 2021 calls an executable document, so that it and a server never read the same text
// as different operations. A schema validates nothing here; the server does that.
package graphql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Document is a parsed request.
type Document struct {
	Operations []Operation
	Fragments  map[string][]Selection
}

// Operation is a query, mutation or subscription.
type Operation struct {
	Type       string // query, mutation or subscription
	Name       string // empty where it has none
	Defaults   map[string]any
	Selections []Selection
}

// Selection is one entry of a selection set: a field, an inline fragment (no Name, no Spread) or a fragment spread.
type Selection struct {
	Name       string
	Alias      string // the key of the answer; Name where the document gives none
	Spread     string // the fragment's name
	Arguments  map[string]any
	Directives map[string]map[string]any
	Selections []Selection
	// Body is the place, in bytes, behind the brace that opens Selections; 0 where there is none.
	Body int
}

// Variable and Enum are values of arguments, beside string, float64, bool, nil, []any and map[string]any.
type (
	Variable string
	Enum     string
)

// Parse reads a document of at most maxTokens tokens.
func Parse(text string, maxTokens int) (doc Document, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case syntaxError:
			err = e
		default:
			panic(e)
		}
	}()
	p := &parser{text: text, left: maxTokens}
	doc.Fragments = map[string][]Selection{}
	for p.next(); p.kind != endOfText; {
		if p.token == "fragment" {
			p.fragment(doc.Fragments)
		} else {
			doc.Operations = append(doc.Operations, p.operation())
		}
	}
	return doc, nil
}

// Fields lists the fields that selections ask for, those of fragments included. A fragment that contains itself is
// entered once.
func (d Document) Fields(selections []Selection) []Selection {
	var fields []Selection
	var entered []string
	var collect func([]Selection)
	collect = func(list []Selection) {
		for _, s := range list {
			switch {
			case s.Name != "":
				fields = append(fields, s)
			case s.Spread == "":
				collect(s.Selections)
			case !slices.Contains(entered, s.Spread):
				entered = append(entered, s.Spread)
				collect(d.Fragments[s.Spread])
			}
		}
	}
	collect(selections)
	return fields
}

type syntaxError string

func (e syntaxError) Error() string { return string(e) }

type kind int

const (
	endOfText kind = iota
	punctuator
	name
	number
	text
)

// parser stands on one token. Methods panic with a syntaxError, which Parse returns.
type parser struct {
	text  string
	at    int // behind the token
	left  int // tokens that may still come
	kind  kind
	token string // the token as it is written; of a text, its value
}

func (p *parser) fail(format string, args ...any) {
	line := 1 + strings.Count(p.text[:min(p.at, len(p.text))], "\n")
	panic(syntaxError(fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)))
}

func (p *parser) unexpected() {
	if p.kind == endOfText {
		p.fail("the query ends too early")
	}
	p.fail("unexpected %q", p.token)
}

// next reads the next token.
func (p *parser) next() {
	p.skipIgnored()
	if p.left--; p.left < 0 {
		p.fail("the query has too many tokens")
	}
	if p.at == len(p.text) {
		p.kind, p.token = endOfText, ""
		return
	}
	start, c := p.at, p.text[p.at]
	switch {
	case c == '"':
		p.kind, p.token = text, p.readText()
		return
	case strings.HasPrefix(p.text[start:], "..."):
		p.kind, p.at = punctuator, start+3
	case strings.IndexByte("!$&()[]{}:=@|", c) >= 0:
		p.kind, p.at = punctuator, start+1
	case letter(c):
		for p.at < len(p.text) && (letter(p.text[p.at]) || digit(p.text[p.at])) {
			p.at++
		}
		p.kind = name
	case digit(c) || c == '-':
		p.readNumber()
		p.kind = number
	default:
		r, _ := utf8.DecodeRuneInString(p.text[start:])
		p.fail("unexpected character %q", r)
	}
	p.token = p.text[start:p.at]
}

// skipIgnored passes over blanks, commas, comments and byte order marks.
func (p *parser) skipIgnored() {
	const mark = "\ufeff"
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case strings.IndexByte(" \t\r\n,", c) >= 0:
			p.at++
		case strings.HasPrefix(p.text[p.at:], mark):
			p.at += len(mark)
		case c == '#':
			end := strings.IndexAny(p.text[p.at:], "\r\n") // either ends a comment
			if end < 0 {
				end = len(p.text) - p.at
			}
			p.at += end
		default:
			return
		}
	}
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// readNumber reads what JSON calls a number, too.
func (p *parser) readNumber() {
	start := p.at
	for p.at < len(p.text) && (letter(p.text[p.at]) || digit(p.text[p.at]) || strings.IndexByte("+-.", p.text[p.at]) >= 0) {
		p.at++
	}
	if !json.Valid([]byte(p.text[start:p.at])) {
		p.fail("%q is no number", p.text[start:p.at])
	}
}

// readText reads a text and gives its value. That of a block text keeps its indentation.
func (p *parser) readText() string {
	const quotes = `"""`
	if strings.HasPrefix(p.text[p.at:], quotes) {
		p.at += len(quotes)
		var b strings.Builder
		for {
			end := strings.Index(p.text[p.at:], quotes)
			if end < 0 {
				p.fail("a text is not closed")
			}
			part := p.text[p.at : p.at+end]
			p.at += end + len(quotes)
			escaped, more := strings.CutSuffix(part, `\`)
			b.WriteString(escaped)
			if !more {
				return b.String()
			}
			b.WriteString(quotes)
		}
	}
	start := p.at
	for p.at++; p.at < len(p.text) && p.text[p.at] != '"'; p.at++ {
		switch p.text[p.at] {
		case '\n', '\r':
			p.fail("a text is not closed on its line")
		case '\\':
			p.at++
		}
	}
	if p.at >= len(p.text) {
		p.fail("a text is not closed")
	}
	p.at++
	// The escapes are those of JSON, which does not take tabs as they are.
	var value string
	if json.Unmarshal([]byte(strings.ReplaceAll(p.text[start:p.at], "\t", `\t`)), &value) != nil {
		p.fail("a text has an unknown escape or character: %s", p.text[start:p.at])
	}
	return value
}

// take passes over the punctuator, if the parser stands on it.
func (p *parser) take(s string) bool {
	if p.kind != punctuator || p.token != s {
		return false
	}
	p.next()
	return true
}

func (p *parser) want(s string) {
	if !p.take(s) {
		p.unexpected()
	}
}

func (p *parser) name() string {
	s := p.token
	if p.kind != name {
		p.unexpected()
	}
	p.next()
	return s
}

func (p *parser) fragment(into map[string][]Selection) {
	p.next()
	called := p.name()
	if called == "on" || into[called] != nil || p.name() != "on" {
		p.fail("fragment %q is not well-formed", called)
	}
	p.name()
	p.directives()
	into[called] = p.selections()
}

func (p *parser) operation() Operation {
	if p.kind == punctuator && p.token == "{" {
		return Operation{Type: "query", Selections: p.selections()}
	}
	op := Operation{Defaults: map[string]any{}}
	if !slices.Contains([]string{"query", "mutation", "subscription"}, p.token) || p.kind != name {
		p.unexpected()
	}
	op.Type = p.name()
	if p.kind == name {
		op.Name = p.name()
	}
	if p.take("(") {
		for done := false; !done; done = p.take(")") {
			p.want("$")
			variable := p.name()
			p.want(":")
			p.typeReference()
			if p.take("=") {
				op.Defaults[variable] = p.value()
			}
			p.directives()
		}
	}
	p.directives()
	op.Selections = p.selections()
	return op
}

func (p *parser) typeReference() {
	if p.take("[") {
		p.typeReference()
		p.want("]")
	} else {
		p.name()
	}
	p.take("!")
}

// selections reads a selection set, which has one entry at least.
func (p *parser) selections() (list []Selection) {
	p.want("{")
	for done := false; !done; done = p.take("}") {
		list = append(list, p.selection())
	}
	return list
}

func (p *parser) selection() (s Selection) {
	if p.take("...") {
		if p.kind == name && p.token != "on" {
			s.Spread = p.name()
			s.Directives = p.directives()
			return s
		}
		if p.kind == name {
			p.next()
			p.name()
		}
		s.Directives = p.directives()
		s.Body = p.at
		s.Selections = p.selections()
		return s
	}
	s.Name = p.name()
	s.Alias = s.Name
	if p.take(":") {
		s.Name = p.name()
	}
	s.Arguments = p.arguments()
	s.Directives = p.directives()
	if p.kind == punctuator && p.token == "{" {
		s.Body = p.at
		s.Selections = p.selections()
	}
	return s
}

func (p *parser) arguments() map[string]any {
	if !p.take("(") {
		return nil
	}
	args := map[string]any{}
	for done := false; !done; done = p.take(")") {
		key := p.name()
		p.want(":")
		args[key] = p.value()
	}
	return args
}

func (p *parser) directives() map[string]map[string]any {
	var list map[string]map[string]any
	for p.take("@") {
		if list == nil {
			list = map[string]map[string]any{}
		}
		list[p.name()] = p.arguments()
	}
	return list
}

func (p *parser) value() any {
	token := p.token
	switch p.kind {
	case text:
		p.next()
		return token
	case number:
		p.next()
		f, _ := strconv.ParseFloat(token, 64) // readNumber has checked it; one too large is infinite
		return f
	case name:
		p.next()
		switch token {
		case "true", "false":
			return token == "true"
		case "null":
			return nil
		}
		return Enum(token)
	case punctuator, endOfText:
	}
	switch {
	case p.take("$"):
		return Variable(p.name())
	case p.take("["):
		list := []any{}
		for !p.take("]") {
			list = append(list, p.value())
		}
		return list
	case p.take("{"):
		object := map[string]any{}
		for !p.take("}") {
			key := p.name()
			p.want(":")
			object[key] = p.value()
		}
		return object
	}
	p.unexpected()
	return nil
}
