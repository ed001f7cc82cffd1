package workflow

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/osteele/liquid/expressions"
	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/render"
	"github.com/osteele/liquid/values"
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
	c := &checker{file: p.file, filters: dictionary{}, vars: map[string]any{}}
	filters.AddStandardFilters(c.filters)
	c.define("issue", c.issue())
	c.define("attempt", c.object())
	c.define("null", c.object())
	c.node(p.template.GetRoot())
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return a.Line - b.Line })
	return c
}

// checker walks the template in the order of rendering and lets the library evaluate each expression, with shapes in the
// place of values. A variable is known from its first assignment on, whether or not that branch is taken.
type checker struct {
	file     string
	filters  dictionary
	vars     map[string]any // *shape by the name of the variable
	loops    int
	problems []Problem
	// joined are the places that print a list without separators.
	joined []Problem

	line int // of the expression that is evaluated
	// path has one bit for each answer that shapes give to a comparison; asked counts these answers.
	path, asked int
}

// dictionary collects the names of filters.
type dictionary map[string]bool

// AddFilter implements filters.FilterDictionary.
func (d dictionary) AddFilter(name string, _ any) { d[name] = true }

func (c *checker) report(line int, format string, args ...any) {
	p := Problem{File: c.file, Line: line, Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// unknown reports a name that does not exist, with the nearest that does.
func (c *checker) unknown(what, prefix, name string, known []string) {
	message := "unknown " + what + " " + prefix + name
	slices.Sort(known)
	switch near := nearest(name, known); {
	case name == "blank" || name == "empty":
		message += "; write {% if x %}, {% if x == nil %} or {% if x == \"\" %} instead"
	case near != "":
		message += "; did you mean " + prefix + near + "?"
	}
	c.report(c.line, "%s", message)
}

// define sets a variable, under whose name the fields of its value are reported.
func (c *checker) define(name string, s *shape) {
	named := *s
	named.path = name
	c.vars[name] = &named
}

func (c *checker) node(n render.Node) {
	switch n := n.(type) {
	case *render.SeqNode:
		c.nodes(n.Children)
	case *render.TextNode:
		c.text(n)
	case *render.ObjectNode:
		if s := c.expression(n.Args, n.SourceLoc.LineNo); s.items != nil {
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
	switch n.Name {
	case "assign":
		if s := statement(expressions.AssignStatementSelector, n.Args); s != nil {
			c.define(s.Assignment.Variable, c.evaluate(n.Args, n.SourceLoc.LineNo, s.ValueFn))
		}
	case "cycle", "break", "continue":
		if c.loops == 0 {
			c.report(n.SourceLoc.LineNo, "%s outside of a loop", n.Name)
		}
	}
}

// statement parses the arguments of a tag, which the library has parsed before.
func statement(selector, args string) *expressions.Statement {
	s, err := expressions.ParseStatement(selector, args)
	if err != nil {
		return nil
	}
	return s
}

func (c *checker) block(n *render.BlockNode) {
	line := n.SourceLoc.LineNo
	switch n.Name {
	case "for", "tablerow":
		c.loop(n)
	case "capture":
		c.nodes(n.Body)
		c.define(strings.TrimSpace(n.Args), c.object())
		return
	case "when":
		if s := statement(expressions.WhenStatementSelector, n.Args); s != nil {
			c.evaluate(n.Args, line, s.Exprs...)
		}
		c.nodes(n.Body)
	case "if", "elsif", "unless", "case":
		c.expression(n.Args, line)
		c.nodes(n.Body)
	default:
		c.nodes(n.Body)
	}
	for _, clause := range n.Clauses {
		c.block(clause)
	}
}

// loop checks `name in list` with its modifiers, then the body with the loop's own variables.
func (c *checker) loop(n *render.BlockNode) {
	s := statement(expressions.LoopStatementSelector, n.Args)
	if s == nil {
		return
	}
	item := c.evaluate(n.Args, n.SourceLoc.LineNo, s.Expr, s.Limit, s.Offset, s.Cols).items
	if item == nil {
		item = c.anything()
	}
	// What is assigned in a loop outlives it; its own variables do not.
	outer := maps.Clone(c.vars)
	c.define(s.Loop.Variable, item)
	c.define("forloop", c.object("first", "last", "index", "index0", "rindex", "rindex0", "length"))
	c.loops++
	c.nodes(n.Body)
	c.loops--
	for _, own := range []string{s.Loop.Variable, "forloop"} {
		delete(c.vars, own)
		if before, set := outer[own]; set {
			c.vars[own] = before
		}
	}
}

// expression checks a condition or the inside of {{ }}, and gives the shape of its value.
func (c *checker) expression(args string, line int) *shape {
	e, err := expressions.Parse(args)
	if err != nil {
		return c.anything() // the library has parsed it before
	}
	return c.evaluate(args, line, e)
}

var words = regexp.MustCompile(`[\pL_][\pL\pM\pN_-]*\??`)

// evaluate evaluates expressions that consist of args, and gives the shape of the first one's value. Because `and` and `or`
// skip their right side, it does so for every combination of answers to the first comparisons.
func (c *checker) evaluate(args string, line int, list ...expressions.Expression) *shape {
	c.line = line
	config, bindings := expressions.NewConfig(), maps.Clone(c.vars)
	for _, word := range words.FindAllString(args, -1) {
		config.AddFilter(word, func(in any, args ...any) any { return c.filter(word, in, args) })
		if _, known := bindings[word]; !known {
			bindings[word] = unknownVariable{c, word}
		}
	}
	context := expressions.NewContext(bindings, config)
	result := c.object()
	for i, e := range list {
		if e == nil {
			continue // an absent modifier of a loop
		}
		for paths := 1; c.path < paths; c.path++ {
			c.asked = 0
			// An expression that fails for its values, such as a range of words, can only be judged when it is rendered.
			value, _ := e.Evaluate(context)
			if s, ok := value.(*shape); ok && i == 0 {
				result = s
			}
			paths = max(paths, 1<<min(c.asked, freeAnswers))
		}
		c.path = 0
	}
	return result
}

// freeAnswers is how many comparisons of an expression are answered in every combination; further ones repeat their answers.
const freeAnswers = 6

// unknownVariable is reported when an expression reads it.
type unknownVariable struct {
	c    *checker
	name string
}

// ToLiquid is called by the library when a variable is read.
func (u unknownVariable) ToLiquid() any {
	u.c.unknown("variable", "", u.name, slices.Collect(maps.Keys(u.c.vars)))
	return u.c.anything()
}

// filter gives the shape of a filtered value.
func (c *checker) filter(name string, in any, args []any) any {
	if !c.filters[name] {
		c.unknown("filter", "", name, slices.Collect(maps.Keys(c.filters)))
	}
	s, ok := in.(*shape)
	if !ok || s.items == nil {
		return c.anything()
	}
	if len(args) > 0 && s.items.fields != nil && slices.Contains([]string{"map", "where", "sort", "sort_natural"}, name) {
		field, literal := args[0].(string)
		if _, known := s.items.fields[field]; literal && !known {
			c.unknown("field", "", field, slices.Collect(maps.Keys(s.items.fields)))
		}
	}
	switch name {
	case "sort", "sort_natural", "reverse", "uniq", "compact", "where", "slice":
		return s
	case "first", "last":
		return s.items
	}
	return c.anything()
}

// shape stands for a value of which only the structure is known: an object with its fields, a list with the shape of its
// items, a plain value with neither, or anything. It implements values.Value, and reports fields that do not exist.
type shape struct {
	c      *checker
	path   string // as the template names it
	fields map[string]*shape
	items  *shape
	open   bool // anything: every field exists
}

func (c *checker) anything() *shape { return &shape{c: c, open: true} }

// object has the named fields, which are plain; without names it is a plain value.
func (c *checker) object(names ...string) *shape {
	s := &shape{c: c}
	for _, n := range names {
		if s.fields == nil {
			s.fields = map[string]*shape{}
		}
		s.fields[n] = c.object()
	}
	return s
}

func (c *checker) issue() *shape {
	s := c.object("id", "identifier", "title", "description", "priority", "state", "branch_name", "url", "created_at", "updated_at", "assignee_id", "dispatchable")
	s.fields["native_ref"] = c.anything() // a tracker's own value
	s.fields["labels"] = &shape{c: c, items: c.object()}
	s.fields["blocked_by"] = &shape{c: c, items: c.object("id", "identifier", "state")}
	return s
}

// at is the shape under the path by which the template reached it.
func (s *shape) at(path string) values.Value {
	reached := *s
	reached.path = path
	return &reached
}

// PropertyValue is the field of a value.
func (s *shape) PropertyValue(key values.Value) values.Value {
	name, _ := key.Interface().(string)
	path := s.path + "." + name
	known := slices.AppendSeq([]string{"size"}, maps.Keys(s.fields))
	if s.items != nil {
		known = append(known, "first", "last")
	}
	field := s.fields[name]
	switch {
	case s.open:
		return s
	case field != nil:
		return field.at(path)
	case s.items != nil && (name == "first" || name == "last"):
		return s.items.at(path)
	case name == "size":
		return s.c.object().at(path)
	}
	s.c.unknown("variable", s.path+".", name, known)
	return s.c.anything()
}

// IndexValue is what brackets after a value give.
func (s *shape) IndexValue(index values.Value) values.Value {
	_, named := index.Interface().(string)
	switch {
	case named && s.fields != nil:
		return s.PropertyValue(index)
	case s.items != nil:
		return s.items.at(s.path + "[…]")
	}
	return s.c.anything()
}

func (s *shape) answer() bool {
	s.c.asked++
	return s.c.path>>((s.c.asked-1)%freeAnswers)&1 == 1
}

// The other methods of values.Value: what is compared could be either.

func (s *shape) Interface() any             { return s }
func (s *shape) Int() int                   { return 1 }
func (s *shape) Test() bool                 { return s.answer() }
func (s *shape) Equal(values.Value) bool    { return s.answer() }
func (s *shape) Less(values.Value) bool     { return s.answer() }
func (s *shape) Contains(values.Value) bool { return s.answer() }
