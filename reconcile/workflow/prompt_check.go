package workflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/osteele/liquid/render"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// checker walks a parsed template in the order of rendering and looks up every name. A
// variable is known from its first assignment on, whether or not that branch is taken.
type checker struct {
	file     string
	filters  dictionary
	vars     map[string]*shape
	problems []Warning

	readsIssue bool // a tag names the issue

	line   int      // the line of the current tag
	tokens []string // the rest of its arguments
}

// dictionary collects the names of filters.
type dictionary map[string]bool

func (d dictionary) AddFilter(name string, _ any) { d[name] = true }

// shape describes a value: the fields of an object, the items of a list, neither of a plain
// value.
type shape struct {
	fields map[string]*shape
	items  *shape
	open   bool // the value may have any field
}

// Shapes that are compared by their address.
var (
	plain    = &shape{}
	anything = &shape{open: true}
)

func object(names ...string) *shape {
	s := &shape{fields: map[string]*shape{}}
	for _, n := range names {
		s.fields[n] = plain
	}
	return s
}

// variables returns the shapes of the variables of a template: those of an issue that has an
// item in each of its lists.
func variables() map[string]*shape {
	issue := reconcile.Issue{
		Labels:    []string{"bug"},
		BlockedBy: []reconcile.BlockerRef{{}},
		NativeRef: map[string]any{},
	}
	return shapeOf(bindings(issue, 1)).fields
}

// shapeOf returns the shape of a value. A map without fields stands for one whose fields depend
// on the tracker.
func shapeOf(value any) *shape {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			return anything
		}
		s := object()
		for name, field := range value {
			s.fields[name] = shapeOf(field)
		}
		return s
	case []any:
		return &shape{items: shapeOf(value[0])}
	default:
		return plain
	}
}

func (c *checker) report(line int, format string, args ...any) {
	p := Warning{File: c.file, Line: line, Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// unknown reports a name that does not exist, with the nearest existing name, or else with all of
// them.
func (c *checker) unknown(what, prefix, name string, known []string) {
	slices.Sort(known)
	near := suggest.Nearest(name, known)
	if what == "variable" && prefix == "" && variables()["issue"].fields[name] != nil {
		near = "issue." + name
	}
	instead := ""
	switch {
	case near != "":
		instead = "; did you mean " + prefix + near + "?"
	case what == "filter":
		instead = "; there are the filters of Liquid, such as default and join"
	case len(known) > 1:
		instead = "; known are " + listed(known)
	}
	c.report(c.line, "unknown %s %s%s%s", what, prefix, name, instead)
}

func (c *checker) nodes(list []render.Node) {
	for _, n := range list {
		switch n := n.(type) {
		case *render.SeqNode:
			c.nodes(n.Children)
		case *render.TextNode:
			c.text(n)
		case *render.ObjectNode:
			c.read(n.Args, n.SourceLoc.LineNo)
			c.expression("")
		case *render.TagNode:
			c.tag(n)
		case *render.BlockNode:
			c.block(n)
		}
	}
}

// text finds tags that are not closed on their line. The library treats them as text.
func (c *checker) text(n *render.TextNode) {
	for i, line := range strings.Split(n.Source, "\n") {
		for _, pair := range [][2]string{{"{{", "}}"}, {"{%", "%}"}} {
			if strings.Contains(line, pair[0]) {
				c.report(
					n.SourceLoc.LineNo+i,
					"%s is not closed by %s on the same line, and is treated as text",
					pair[0],
					pair[1],
				)
			}
		}
	}
}

func (c *checker) tag(n *render.TagNode) {
	c.read(n.Args, n.SourceLoc.LineNo)
	if n.Name == "assign" {
		name := c.next()
		for len(c.tokens) > 0 && c.next() != "=" { // a field of the variable
		}
		c.vars[name] = c.expression("")
	}
}

func (c *checker) block(n *render.BlockNode) {
	c.read(n.Args, n.SourceLoc.LineNo)
	switch n.Name {
	case "for", "tablerow":
		c.loop(n)
	case "capture":
		c.nodes(n.Body)
		c.vars[strings.TrimSpace(n.Args)] = plain
	case "case", "when", "if", "elsif", "unless":
		c.expression("")
		c.nodes(n.Body)
	default:
		c.nodes(n.Body)
	}
	for _, clause := range n.Clauses {
		c.block(clause)
	}
}

// loop checks `name in list` with its modifiers, then the body. The loop's variables exist
// only in the body; variables that are assigned there remain.
func (c *checker) loop(n *render.BlockNode) {
	name := c.next()
	c.next() // in
	item := cmp.Or(c.expression("").items, anything)
	outer := maps.Clone(c.vars)
	c.vars[name] = item
	c.vars["forloop"] = object("first", "last", "index", "index0", "rindex", "rindex0", "length")
	c.nodes(n.Body)
	for _, own := range []string{name, "forloop"} {
		c.vars[own] = outer[own]
		if c.vars[own] == nil {
			delete(c.vars, own)
		}
	}
}

// tokenPattern matches a string, a number, the dots of a range, a name with the dot before it
// or the colon after it, or any other character.
var tokenPattern = text.Pattern(`"(?:\\.|[^"\\])*"|'[^']*'|-?\d+(?:\.\d+)?|` +
	`\.\.|\.?[A-Za-z_[:^ascii:]][\w[:^ascii:]-]*\??:?|[=!<>]=|\S`)

// read makes the arguments of a tag the next tokens.
func (c *checker) read(args string, line int) {
	c.line = line
	c.tokens = tokenPattern().FindAllString(args, -1)
}

// peek returns the next token, empty at the end.
func (c *checker) peek() string {
	if len(c.tokens) == 0 {
		return ""
	}
	return c.tokens[0]
}

func (c *checker) next() string {
	t := c.peek()
	c.tokens = c.tokens[min(1, len(c.tokens)):]
	return t
}

var (
	constants = []string{"true", "false", "nil", "reversed"}
	relations = []string{"==", "!=", ">=", "<=", ">", "<", "and", "or", "contains"}
	variable  = text.Pattern(`^[\pL_].*[^:]$|^[\pL_]$`)
)

// expression looks up the names in the tokens up to end, and returns the shape of the value.
func (c *checker) expression(end string) *shape {
	var result *shape
	for len(c.tokens) > 0 {
		token := c.next()
		switch {
		case token == end:
			return result
		case token == "|":
			result = c.filter(strings.TrimSuffix(c.next(), ":"), result)
		case slices.Contains(relations, token):
			result = plain
		case variable().MatchString(token) && !slices.Contains(constants, token):
			result = cmp.Or(result, c.variable(token))
		case result == nil && token != "(":
			result = plain
		}
	}
	return cmp.Or(result, plain)
}

// filter returns the shape of a filtered value.
func (c *checker) filter(name string, in *shape) *shape {
	if !c.filters[name] {
		c.unknown("filter", "", name, slices.Collect(maps.Keys(c.filters)))
	}
	if in == nil || in.items == nil {
		return anything
	}
	switch name {
	case "sort", "sort_natural", "reverse", "uniq", "compact", "where", "slice":
		return in
	case "first", "last":
		return in.items
	}
	return anything
}

// variable follows the fields and brackets after a variable's name, and returns the shape of
// the value.
func (c *checker) variable(path string) *shape {
	if path == "issue" {
		c.readsIssue = true
	}
	s := c.vars[path]
	if s == nil {
		c.unknown("variable", "", path, slices.Collect(maps.Keys(c.vars)))
		s = anything
	}
	for {
		name, isField := strings.CutPrefix(c.peek(), ".")
		if !isField && c.peek() != "[" || name == "." {
			return s
		}
		c.next()
		if !isField {
			name = strings.Trim(c.peek(), `"'`)
			literal := name != c.peek()
			c.expression("]")
			if !literal || s.fields == nil {
				s = cmp.Or(s.items, anything)
				path = path + "[…]"
				continue
			}
		}
		s = c.field(s, path, name)
		path += "." + name
	}
}

// field returns the shape of a field of the value at the path.
func (c *checker) field(s *shape, path, name string) *shape {
	known := slices.AppendSeq([]string{"size"}, maps.Keys(s.fields))
	if s.items != nil {
		known = append(known, "first", "last")
	}
	switch {
	case s.open:
		return s
	case s.fields[name] != nil:
		return s.fields[name]
	case s.items != nil && (name == "first" || name == "last"):
		return s.items
	case name == "size":
		return plain
	}
	c.unknown("variable", path+".", name, known)
	return anything
}
