// Package graphql parses GraphQL requests: documents of operations and fragments. It accepts exactly what the specification of
// October 2021 calls an executable document, so that it and a server never read the same text as different operations. It does
// not validate against a schema; the server does.
package graphql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/text"
)

// Document is a parsed request.
type Document struct {
	Operations []Operation
	Fragments  map[string][]Selection
}

// Operation is a query, mutation or subscription.
type Operation struct {
	Type       string // query, mutation or subscription
	Name       string // empty if the operation has none
	Selections []Selection
}

// Selection is one entry of a selection set: a field, an inline fragment (no Name, no Spread) or a fragment spread.
type Selection struct {
	Name       string
	Alias      string // the key in the answer; Name if the document has no alias
	Spread     string // the fragment's name
	Selections []Selection
	// Body is the byte offset after the brace that opens Selections; 0 if there is none.
	Body int
}

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
	for p.next(); p.token != ""; {
		if p.token == "fragment" {
			p.fragment(doc.Fragments)
		} else {
			doc.Operations = append(doc.Operations, p.operation())
		}
	}
	return doc, nil
}

// Fields lists the fields of selections, those of fragments included. Each fragment is included once, even if it contains itself.
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

// nextToken matches ignored text (blanks, commas, comments, byte order marks) and, unless the text ends there, one token: a
// punctuator, a name, a number (which is validated afterwards), a block string or a string.
var nextToken = text.Pattern(`^(?:[ \t\r\n,\x{feff}]|#[^\r\n]*)*` +
	`(\.\.\.|[!$&()\[\]{}:=@|]|[_A-Za-z][_0-9A-Za-z]*|[-0-9][-+.0-9A-Za-z_]*|"""(?s:(?:\\"""|.)*?)"""|"(?:[^"\\\r\n]|\\.)*")?`)

// parser is a recursive descent parser. Its methods panic with a syntaxError, which Parse returns.
type parser struct {
	text  string
	token string // the current token, as written; empty at the end of the text
	at    int    // the offset after the current token
	left  int    // how many more tokens are accepted
}

func (p *parser) fail(format string, args ...any) {
	line := 1 + strings.Count(p.text[:p.at], "\n")
	panic(syntaxError(fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)))
}

func (p *parser) unexpected() {
	if p.token == "" {
		p.fail("unexpected end of the query")
	}
	p.fail("unexpected %q", p.token)
}

// next advances to the next token.
func (p *parser) next() {
	if p.left--; p.left < 0 {
		p.fail("the query has too many tokens")
	}
	match := nextToken().FindStringSubmatch(p.text[p.at:])
	p.at += len(match[0])
	p.token = match[1]
	rest := p.text[p.at:]
	switch {
	case p.token == "" && rest == "":
	case p.token == "" && rest[0] != '"':
		r, _ := utf8.DecodeRuneInString(rest)
		p.fail("unexpected character %q", r)
	// The pattern takes an escaped end of a block string for the end only if there is no other.
	case p.token == "", p.token == `""` && strings.HasPrefix(rest, `"`),
		strings.HasPrefix(p.token, quotes) && strings.HasSuffix(p.token, `\`+quotes):
		p.fail("unterminated string")
	case p.onNumber() && !json.Valid([]byte(p.token)):
		p.fail("%q is not a number", p.token)
	}
}

// quotes enclose a block string.
const quotes = `"""`

// onName reports whether the current token is a name.
func (p *parser) onName() bool {
	return p.token != "" && (p.token[0] == '_' || p.token[0]|0x20 >= 'a' && p.token[0]|0x20 <= 'z')
}

// onNumber reports whether the current token is a number.
func (p *parser) onNumber() bool {
	return p.token != "" && (p.token[0] == '-' || p.token[0] >= '0' && p.token[0] <= '9')
}

// take consumes the current token if it is s.
func (p *parser) take(s string) bool {
	if p.token != s {
		return false
	}
	p.next()
	return true
}

// want consumes the current token, which must be s.
func (p *parser) want(s string) {
	if !p.take(s) {
		p.unexpected()
	}
}

// name consumes and returns the current token, which must be a name.
func (p *parser) name() string {
	if !p.onName() {
		p.unexpected()
	}
	s := p.token
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
	if p.token == "{" {
		return Operation{Type: "query", Selections: p.selections()}
	}
	if !slices.Contains([]string{"query", "mutation", "subscription"}, p.token) {
		p.unexpected()
	}
	op := Operation{Type: p.name()}
	if p.onName() {
		op.Name = p.name()
	}
	if p.take("(") {
		for done := false; !done; done = p.take(")") {
			p.want("$")
			p.name()
			p.want(":")
			p.typeReference()
			if p.take("=") {
				p.value()
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

// selections parses a selection set, which has at least one entry.
func (p *parser) selections() (list []Selection) {
	p.want("{")
	for done := false; !done; done = p.take("}") {
		list = append(list, p.selection())
	}
	return list
}

func (p *parser) selection() (s Selection) {
	if p.take("...") {
		if p.onName() && p.token != "on" {
			s.Spread = p.name()
			p.directives()
			return s
		}
		if p.take("on") {
			p.name()
		}
		p.directives()
		s.Body = p.at
		s.Selections = p.selections()
		return s
	}
	s.Name = p.name()
	s.Alias = s.Name
	if p.take(":") {
		s.Name = p.name()
	}
	p.arguments()
	p.directives()
	if p.token == "{" {
		s.Body = p.at
		s.Selections = p.selections()
	}
	return s
}

// arguments consumes arguments. Their values are the server's business.
func (p *parser) arguments() {
	if p.take("(") {
		for done := false; !done; done = p.take(")") {
			p.member()
		}
	}
}

// member consumes an argument, or a field of an object.
func (p *parser) member() {
	p.name()
	p.want(":")
	p.value()
}

func (p *parser) directives() {
	for p.take("@") {
		p.name()
		p.arguments()
	}
}

// value consumes a value.
func (p *parser) value() {
	isString := strings.HasPrefix(p.token, `"`)
	switch {
	case p.take("$"):
		p.name()
	case p.take("["):
		for !p.take("]") {
			p.value()
		}
	case p.take("{"):
		for !p.take("}") {
			p.member()
		}
	// The escapes of a string are those of JSON, which does not allow literal tabs.
	case isString && !strings.HasPrefix(p.token, quotes) && !json.Valid([]byte(strings.ReplaceAll(p.token, "\t", `\t`))):
		p.fail("a string contains an invalid escape or character: %s", p.token)
	case !p.onName() && !p.onNumber() && !isString:
		p.unexpected()
	default:
		p.next()
	}
}
