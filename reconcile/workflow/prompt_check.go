package workflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/osteele/liquid/render"

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
	warnings []Warning // about text that an agent gets, and that was meant otherwise

	readsIssue bool // a tag names the issue
	states     []comparedState
	cased      compared // by the tag case around the current tag

	isCompared bool // the current token stands behind a relation, such as contains

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
	label    = &shape{} // a label of an issue
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
	vars := shapeOf(bindings(issue, 1)).fields
	vars["issue"].fields["labels"].items = label
	return vars
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

// numberWords are names for the number of an issue.
var numberWords = strings.Fields("number no num iid index issue_number")

// theNumber leads to the number that Closes #12 needs, and issue.identifier, such as GH-12, is not.
const theNumber = "write issue.native_ref.number, which each issue of a forge has, for Closes #12; issue.identifier " +
	"is the short name of the issue, such as WEB-12"

// unknown reports a name that does not exist, with the most similar existing name.
func (c *checker) unknown(what, prefix, name string, known []string) {
	message := "unknown " + what + " " + prefix + name
	slices.Sort(known)
	near := cmp.Or(text.Nearest(name, known)...)
	usual := otherFields()[name]
	if prefix == "issue." && slices.Contains(known, usual) {
		near = usual
	}
	if prefix == "" {
		near = cmp.Or(otherNames(what)[name], near)
	}
	if what == "variable" && prefix == "" && variables()["issue"].fields[name] != nil {
		near = "issue." + name
	}
	switch {
	case name == "blank" || name == "empty":
		message += "; write {% if x %}, {% if x == nil %} or {% if x == \"\" %} instead"
	case prefix == "issue." && slices.Contains(numberWords, name):
		message += "; " + theNumber
	case near != "":
		message += "; did you mean " + prefix + near + "?"
	case what == "filter":
		message += "; filters are those of Liquid, such as default, join, upcase, truncate and replace"
	case what == "variable" && slices.Contains([]string{"now", "today", "date"}, name):
		message += `; write {{ "now" | date: "%Y-%m-%d" }}`
	case what == "variable" && prefix == "" && c.isCompared:
		message += "; did you mean \"" + name + "\", in quotes?"
	case what == "variable" && prefix == "":
		message += "; there are only issue, attempt and what the prompt assigns; " + putRaw
	case prefix == "issue.":
		fields := text.Filter(known, func(field string) bool { return field != "size" && field != "dispatchable" })
		message += "; an issue has " + strings.Join(fields, ", ")
	}
	c.report(c.line, "%s", message)
}

func (c *checker) nodes(list []render.Node) {
	for i, n := range list {
		switch n := n.(type) {
		case *render.SeqNode:
			c.nodes(n.Children)
		case *render.TextNode:
			c.text(n)
		case *render.ObjectNode:
			c.read(n.Args, n.SourceLoc.LineNo)
			if i > 0 && namesIssue().MatchString(n.Args) && endsWithDollar(list[i-1]) {
				const message = "the $ before {{ %s }} stays in the text for the agent: write {{ %[1]s }} without it"
				c.warn(message, strings.TrimSpace(n.Args))
			}
			value := c.expression("")
			if value.fields != nil && value.fields["title"] != nil {
				message := strings.TrimSpace(n.Args) + " is printed with all of its fields; write {{ issue.title }} for one"
				c.warnings = append(c.warnings, Warning{File: c.file, Line: c.line, Message: message})
			}
			if items := value.items; items != nil {
				filters := `join: ", "`
				if items.fields["identifier"] != nil {
					filters = `map: "identifier" | ` + filters
				}
				const listed = "%s is a list and is printed without separators; write {{ %[1]s | %s }}"
				message := fmt.Sprintf(listed, strings.TrimSpace(n.Args), filters)
				c.warnings = append(c.warnings, Warning{File: c.file, Line: c.line, Message: message})
			}
		case *render.TagNode:
			c.tag(n)
		case *render.BlockNode:
			c.block(n)
		}
	}
}

// endsWithDollar reports whether the text of a node ends with $, as in ${{ issue.title }}, which is
// how the workflow files of some CI services write a value.
func endsWithDollar(n render.Node) bool {
	before, isText := n.(*render.TextNode)
	return isText && strings.HasSuffix(before.Source, "$")
}

// inlineComment matches the beginning of Liquid's comment in a single tag, {% # … %}, which
// the library does not know.
var inlineComment = text.Pattern(`\{%-?\s*#`)

// jinjaComment matches a comment of Jinja and Twig, {# … #}, or the beginning of one with a tag in it.
var jinjaComment = text.Pattern(`\{#(?:[^{}]*#\}|-?\s)`)

// text finds tags that are not closed on their line. The library treats them as text.
func (c *checker) text(n *render.TextNode) {
	for _, at := range jinjaComment().FindAllStringIndex(n.Source, -1) {
		const message = "{# … #} is plain text for the agent: write {% comment %} … {% endcomment %}"
		line := n.SourceLoc.LineNo + strings.Count(n.Source[:at[0]], "\n")
		c.warnings = append(c.warnings, Warning{File: c.file, Line: line, Message: message})
	}
	for i, line := range strings.Split(n.Source, "\n") {
		c.singleBraces(line, n.SourceLoc.LineNo+i)
		if inlineComment().MatchString(line) {
			c.report(n.SourceLoc.LineNo+i, "{%% # … %%} is not known here, and is treated as text: "+
				"write {%% comment %%} … {%% endcomment %%}")
			continue
		}
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

// singleBraces matches a name in single braces, such as { issue.title } or ${issue.title}.
var singleBraces = text.Pattern(`\$?\{\s*([A-Za-z_][\w.]*)\s*\}`)

// shellVariables matches a field of an issue as a variable of a shell, such as $ISSUE_TITLE, or in angles.
var shellVariables = text.Pattern(`[$%]\{?ISSUE_([A-Z_]+[A-Z])[}%]?|<issue\.(\w+)>`)

// singleBraces warns about variables in single braces, which the agent gets as they are written.
func (c *checker) singleBraces(line string, number int) {
	for _, found := range singleBraces().FindAllStringSubmatch(line, -1) {
		if c.isValue(found[1]) {
			const plainText = "%s is plain text for the agent; did you mean {{ %s }}?"
			message := fmt.Sprintf(plainText, found[0], found[1])
			c.warnings = append(c.warnings, Warning{File: c.file, Line: number, Message: message})
		}
	}
	if !strings.Contains(line, "ISSUE_") && !strings.Contains(line, "<issue.") {
		return
	}
	for _, found := range shellVariables().FindAllStringSubmatch(line, -1) {
		path := "issue." + strings.ToLower(found[1]+found[2])
		if c.isValue(path) {
			message := fmt.Sprintf("%s is plain text for the agent; did you mean {{ %s }}?", found[0], path)
			c.warnings = append(c.warnings, Warning{File: c.file, Line: number, Message: message})
		}
	}
}

// isValue reports whether a path such as issue.title names a known value that is no object.
func (c *checker) isValue(path string) bool {
	names := strings.Split(path, ".")
	s := c.vars[names[0]]
	for _, name := range names[1:] {
		if s == nil {
			return false
		}
		s = s.fields[name]
	}
	return s != nil && s.fields == nil
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
	outer := c.cased
	switch n.Name {
	case "for", "tablerow":
		c.loop(n)
	case captureTag:
		c.nodes(n.Body)
		c.vars[strings.TrimSpace(n.Args)] = plain
	case "case":
		c.cased = compared{strings.TrimSpace(n.Args), c.expression("")}
		c.nodes(n.Body)
	case "when":
		for _, token := range c.tokens {
			c.compare(c.cased.path, c.cased.value, "==", token)
		}
		c.expression("")
		c.nodes(n.Body)
	case "if", "elsif", "unless":
		c.expression("")
		c.nodes(n.Body)
	default:
		c.nodes(n.Body)
	}
	for _, clause := range n.Clauses {
		c.block(clause)
	}
	c.cased = outer
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
	var before [2]string // the two tokens before the current one
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
			behind := c.tokens
			c.isCompared = slices.Contains([]string{"==", "!=", "contains"}, before[1])
			value := c.variable(token)
			c.isCompared = false
			path := token + strings.Join(behind[:len(behind)-len(c.tokens)], "")
			result = cmp.Or(result, value)
			if len(c.tokens) > 1 {
				c.compare(path, value, c.tokens[0], c.tokens[1])
			}
			if slices.Contains([]string{"==", "!="}, before[1]) {
				c.compare(path, value, before[1], before[0])
			}
		case result == nil && token != "(":
			result = plain
		}
		before = [2]string{before[1], token}
	}
	return cmp.Or(result, plain)
}

// compared is what a tag case compares.
type compared struct {
	path  string // such as issue.state
	value *shape
}

// compare looks at a comparison of the value at a path with a text in quotes: some are never true.
func (c *checker) compare(path string, value *shape, relation, other string) {
	isEquality := relation == "==" || relation == "!="
	if path == "attempt" {
		c.compareAttempt(relation, other)
		return
	}
	if !isLiteral(other) || !isEquality && relation != "contains" {
		return
	}
	small := strings.ToLower(other)
	isLabel := value == label && isEquality || path == pathLabels && relation == "contains"
	switch {
	case path == "issue.priority" && isEquality:
		c.warn("issue.priority is a number, never %s: compare it with 1 (urgent), 2 (high), 3 (medium) or 4 (low)", other)
	case value.items != nil && isEquality && len(other) == len(`""`):
		c.warn("%s is a list, never %s: write %[1]s.size %[3]s 0", path, other, relation)
	case path == pathLabels && isEquality:
		c.warn("issue.labels is a list, never %s: write issue.labels contains %s", other, small)
	case isLabel && small != other:
		c.warn("issue.labels are in lower case, so that they never contain %s: write %s", other, small)
	case path == "issue.state" && isEquality:
		c.states = append(c.states, comparedState{strings.Trim(other, `"'`), c.line})
	}
}

// compareAttempt looks at a comparison of the attempt, which is null in the first run.
func (c *checker) compareAttempt(relation, other string) {
	isEquality := relation == "==" || relation == "!="
	isFirst := other == "0" && (isEquality || relation == "<=") || other == "1" && relation == "<"
	switch {
	case isFirst:
		c.warn("attempt is null in the first run and 1 in the second, so that it is never 0: write {%% unless attempt %%} " +
			"for the first run, and {%% if attempt %%} for later ones")
	case isEquality && isLiteral(other):
		c.warn("attempt is a number, never %s: write it without quotes", other)
	}
}

// pathLabels is the variable with the labels of an issue.
const pathLabels = "issue.labels"

// isLiteral reports whether a token is a text in quotes.
func isLiteral(token string) bool { return token != "" && strings.ContainsAny(token[:1], `"'`) }

// warn adds a warning about the current line.
func (c *checker) warn(format string, args ...any) {
	c.warnings = append(c.warnings, Warning{File: c.file, Line: c.line, Message: fmt.Sprintf(format, args...)})
}

// comparedState is a state with which a template compares the state of the issue.
type comparedState struct {
	name string
	line int
}

// warnComparedStates warns about comparisons in the prompt with states in which no agent works, and
// with names of states in other letters than in tracker.active_states.
func (r *reader) warnComparedStates() {
	active := r.cfg.Policy.ActiveStates
	for _, state := range r.cfg.Prompt.states {
		if slices.Contains(active, state.name) || len(active) == 0 {
			continue
		}
		message := fmt.Sprintf("no agent works on an issue in the state %q: tracker.active_states are %s",
			state.name, strings.Join(active, ", "))
		isSame := func(other string) bool { return reconcile.SameState(other, state.name) }
		if i := slices.IndexFunc(active, isSame); i >= 0 {
			message = fmt.Sprintf("issue.state is compared with %q, and tracker.active_states has it as %q: capitals count",
				state.name, active[i])
		} else if near := text.Misspelt(state.name, active); near != "" {
			message += fmt.Sprintf("; did you mean %q?", near)
		}
		r.warnings = append(r.warnings, Warning{File: r.src.Name, Line: state.line, Message: message})
	}
}

// filter returns the shape of a filtered value.
func (c *checker) filter(name string, in *shape) *shape {
	if !c.filters[name] {
		c.unknown("filter", "", name, slices.Collect(maps.Keys(c.filters)))
	}
	if in == nil || in.items == nil {
		return anything
	}
	if fields := in.items.fields; fields != nil &&
		slices.Contains([]string{"map", "where", "sort", "sort_natural"}, name) {
		field := strings.Trim(c.peek(), `"'`)
		if field != c.peek() && fields[field] == nil {
			c.unknown("field", "", field, slices.Collect(maps.Keys(fields)))
		}
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
