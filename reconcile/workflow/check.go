package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/render"
)

// Problem is a place of the template at which a run would fail, or which is not what it looks like.
type Problem struct {
	File    string
	Line    int // of the file, from 1
	Message string
}

// String is "<file>:<line>: <message>".
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message) }

// Check finds unknown variables, fields and filters, and tags that are not closed, also in branches that no issue takes. The
// order is that of the lines.
func (p *Prompt) Check() []Problem { return p.check().problems }

func (p *Prompt) check() *checker {
	c := &checker{file: p.file, filters: filterNames()}
	c.scopes = []map[string]*shape{{"issue": issueShape(), "attempt": plain(), "null": plain()}}
	c.node(p.template.GetRoot())
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return a.Line - b.Line })
	c.problems = slices.Compact(c.problems)
	return c
}

// shape is what is known of a value: an object with its fields, a list with its items, or a plain value. Nothing is known of
// a nil shape.
type shape struct {
	fields map[string]*shape
	items  *shape
	list   bool
}

func plain() *shape { return &shape{} }

func listOf(items *shape) *shape { return &shape{items: items, list: true} }

func object(names ...string) *shape {
	s := &shape{fields: map[string]*shape{}}
	for _, n := range names {
		s.fields[n] = plain()
	}
	return s
}

func issueShape() *shape {
	s := object("id", "identifier", "title", "description", "priority", "state", "branch_name", "url", "created_at", "updated_at", "assignee_id", "dispatchable")
	s.fields["native_ref"] = nil // a tracker's own value: of any shape
	s.fields["labels"] = listOf(plain())
	s.fields["blocked_by"] = listOf(object("id", "identifier", "state"))
	return s
}

func forloopShape() *shape {
	return object("first", "last", "index", "index0", "rindex", "rindex0", "length")
}

// dictionary collects the names of filters.
type dictionary map[string]bool

// AddFilter implements filters.FilterDictionary.
func (d dictionary) AddFilter(name string, _ any) { d[name] = true }

func filterNames() dictionary {
	names := dictionary{}
	filters.AddStandardFilters(names)
	return names
}

// checker walks the template in the order of rendering. A variable is known from its first assignment on, whether or not
// that branch is taken.
type checker struct {
	file     string
	filters  dictionary
	scopes   []map[string]*shape
	loops    int
	problems []Problem
	// joined are the places that print a list without separators.
	joined []Problem
}

func (c *checker) report(line int, format string, args ...any) {
	c.problems = append(c.problems, Problem{File: c.file, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) node(n render.Node) {
	switch n := n.(type) {
	case *render.SeqNode:
		c.nodes(n.Children)
	case *render.TextNode:
		c.text(n)
	case *render.ObjectNode:
		if s := c.expression(n.Args, n.SourceLoc.LineNo); s != nil && s.list {
			message := fmt.Sprintf("%s is a list and is printed without separators; write {{ %[1]s | join: \", \" }}", strings.TrimSpace(n.Args))
			c.joined = append(c.joined, Problem{File: c.file, Line: n.SourceLoc.LineNo, Message: message})
		}
	case *render.TagNode:
		c.tag(n)
	case *render.BlockNode:
		c.block(n)
	}
}

func (c *checker) nodes(list []render.Node) {
	for _, n := range list {
		c.node(n)
	}
}

// text finds tags that are not closed on their line, which the library takes for text.
func (c *checker) text(n *render.TextNode) {
	for _, mark := range []struct{ open, shut string }{{"{{", "}}"}, {"{%", "%}"}} {
		for at := 0; ; {
			i := strings.Index(n.Source[at:], mark.open)
			if i < 0 {
				break
			}
			line := n.SourceLoc.LineNo + strings.Count(n.Source[:at+i], "\n")
			c.report(line, "%s is not closed by %s on its line, so that it is taken for text", mark.open, mark.shut)
			at += i + len(mark.open)
		}
	}
}

func (c *checker) tag(n *render.TagNode) {
	line := n.SourceLoc.LineNo
	switch n.Name {
	case "assign":
		name, value, _ := strings.Cut(n.Args, "=")
		c.define(strings.TrimSpace(name), c.expression(value, line))
	case "cycle", "break", "continue":
		if c.loops == 0 {
			c.report(line, "%s outside of a loop", n.Name)
		}
	}
}

func (c *checker) block(n *render.BlockNode) {
	line := n.SourceLoc.LineNo
	switch n.Name {
	case "for", "tablerow":
		c.loop(n)
		return
	case "capture":
		c.nodes(n.Body)
		c.define(strings.TrimSpace(n.Args), plain())
		return
	case "if", "unless", "case":
		c.expression(n.Args, line)
	}
	c.nodes(n.Body)
	for _, clause := range n.Clauses {
		c.expression(clause.Args, clause.SourceLoc.LineNo)
		c.nodes(clause.Body)
	}
}

// loop checks `name in list` with its modifiers, then the body with the loop's own variables.
func (c *checker) loop(n *render.BlockNode) {
	e := c.scan(n.Args, n.SourceLoc.LineNo)
	name := e.next().text
	e.next() // in
	list := e.filtered()
	e.rest()
	items := (*shape)(nil)
	if list != nil && list.list {
		items = list.items
	}
	c.loops++
	c.scopes = append(c.scopes, map[string]*shape{name: items, "forloop": forloopShape()})
	c.nodes(n.Body)
	// What is assigned in a loop outlives it; its own variables do not.
	inner := c.scopes[len(c.scopes)-1]
	c.scopes = c.scopes[:len(c.scopes)-1]
	c.loops--
	delete(inner, name)
	delete(inner, "forloop")
	maps.Copy(c.scopes[len(c.scopes)-1], inner)
	for _, clause := range n.Clauses {
		c.nodes(clause.Body)
	}
}

func (c *checker) define(name string, s *shape) { c.scopes[len(c.scopes)-1][name] = s }

func (c *checker) lookup(name string) (*shape, bool) {
	for i := len(c.scopes) - 1; i >= 0; i-- {
		if s, ok := c.scopes[i][name]; ok {
			return s, true
		}
	}
	return nil, false
}

// names are all variables in scope, sorted.
func (c *checker) names() []string {
	var all []string
	for _, scope := range c.scopes {
		all = slices.AppendSeq(all, maps.Keys(scope))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// expression checks everything in the arguments of a tag, and gives the shape of the first value.
func (c *checker) expression(args string, line int) *shape {
	e := c.scan(args, line)
	first := e.condition()
	e.rest()
	return first
}
