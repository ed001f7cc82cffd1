package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
)

// jsonFlags returns more followed by --json and --jq. The command prints a T. newApp reads
// these flags before the command's action, which only needs to call Env.PrintJSON if Env.JSON
// is set.
func jsonFlags[T any](more ...cli.Flag) []cli.Flag {
	return jsonFlagsOf([]jsonDocument{{"", reflect.TypeFor[T]()}}, more...)
}

// jsonFlagsOf is jsonFlags for a command that prints different documents, depending on its
// first argument.
func jsonFlagsOf(documents []jsonDocument, more ...cli.Flag) []cli.Flag {
	return append(more,
		&cli.GenericFlag{
			Name:  "json",
			Usage: "print JSON, or these `[FIELDS]` of it, separated by commas",
			Value: &jsonValue{documents: documents},
		},
		&cli.StringFlag{Name: "jq", Usage: "with --json: print the values of this jq `EXPRESSION`"},
	)
}

// jsonDocument is the output of a command with --json if its first argument or a flag is verb;
// an empty verb stands for any other verb.
type jsonDocument struct {
	verb string
	typ  reflect.Type
}

// issueName is the verb of the document that a command prints if its first argument is an issue.
const issueName = "ISSUE"

// allProjectsName is the verb of the document that a command prints for several projects.
const allProjectsName = "--project all"

// fields are the names of the document's members, or of its elements' members if it is a list.
func (d jsonDocument) fields() []string {
	return text.Map(membersOf(d.typ), func(m jsonMember) string { return m.name })
}

// within returns the jq expression for a field of the document's members, such as .issues[].id
// for id, or for issues.id; empty if no member has it.
func (d jsonDocument) within(field string) string {
	start := ""
	if d.typ.Kind() == reflect.Slice {
		start = ".[]"
	}
	member, field, isNamed := strings.Cut(field, ".")
	if !isNamed {
		field = member
	}
	for _, m := range membersOf(d.typ) {
		if isNamed && m.name != member {
			continue
		}
		has := func(inner jsonMember) bool { return inner.name == field }
		if !slices.ContainsFunc(membersOf(m.typ), has) {
			continue
		}
		path := start + "." + m.name
		if m.typ.Kind() == reflect.Slice {
			path += "[]"
		}
		return path + "." + field
	}
	return ""
}

// nearWithin returns the field of the document's members that a mistyped name most resembles,
// such as title for titel, and issue_identifier for identifier; empty for none.
func (d jsonDocument) nearWithin(name string) string {
	var inner []string
	for _, m := range membersOf(d.typ) {
		inner = append(inner, text.Map(membersOf(m.typ), func(m jsonMember) string { return m.name })...)
	}
	if slices.Contains(inner, "issue_"+name) {
		return "issue_" + name
	}
	if len(name) < 4 {
		return ""
	}
	return suggest.Misspelt(name, inner)
}

// jsonMember is a member of an object in JSON.
type jsonMember struct {
	name string
	typ  reflect.Type
}

// membersOf returns the members of a struct, or of the structs in a list; none for other types.
func membersOf(typ reflect.Type) []jsonMember {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return nil
	}
	var list []jsonMember
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "" && name != "-" {
			list = append(list, jsonMember{name, f.Type})
		}
	}
	return list
}

// jsonValue is the value of --json, which may be given with or without FIELDS.
type jsonValue struct {
	documents []jsonDocument // never empty
	set       bool
	fields    []string
}

// IsBoolFlag tells package flag that the value may be left out.
func (v *jsonValue) IsBoolFlag() bool { return true }

// Set implements flag.Value.
func (v *jsonValue) Set(s string) error {
	v.set = true
	if s != "true" {
		v.fields = strings.Split(s, ",")
	}
	return nil
}

// String implements flag.Value.
func (v *jsonValue) String() string {
	if v.set {
		return "true"
	}
	return ""
}

// document returns the output of the command if its first argument is verb.
func (v *jsonValue) document(verb string) jsonDocument {
	if i := slices.IndexFunc(v.documents, func(d jsonDocument) bool { return d.verb == verb }); i >= 0 {
		return v.documents[i]
	}
	isOfIssue := func(d jsonDocument) bool { return d.verb == issueName && !isWorkflowFile(verb) }
	if i := slices.IndexFunc(v.documents, isOfIssue); i >= 0 {
		return v.documents[i]
	}
	return v.documents[0]
}

// accepts reports whether a word after --json is FIELDS: it contains a comma, or it is a
// field, or was meant as a field, as is issues.title.
func (v *jsonValue) accepts(word string) bool {
	isVerb := func(d jsonDocument) bool { return d.verb == word }
	isField := func(d jsonDocument) bool {
		near := suggest.Near(word, d.fields())
		return len(near) > 0 && max(len(near[0])-len(word), len(word)-len(near[0])) <= 2
	}
	isWithin := func(d jsonDocument) bool { return d.within(word) != "" || d.nearWithin(word) != "" }
	isWord := strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") == ""
	field, _, hasDot := strings.Cut(word, ".")
	isPath := func(d jsonDocument) bool { return hasDot && slices.Contains(d.fields(), field) }
	if strings.Contains(word, ",") || slices.ContainsFunc(v.documents, isPath) {
		return true
	}
	if !isWord || slices.ContainsFunc(v.documents, isVerb) {
		return false
	}
	return slices.ContainsFunc(v.documents, isField) || slices.ContainsFunc(v.documents, isWithin)
}

// Help lists the fields for the command's help.
func (v *jsonValue) Help() string {
	out := "\n\nJSON FIELDS:"
	for i, d := range v.documents {
		if i > 0 && slices.Equal(d.fields(), v.documents[i-1].fields()) {
			continue // a list of the document above
		}
		if d.verb != "" {
			out += "\n   " + d.verb + ":"
		}
		line := ""
		for _, name := range d.fields() {
			if len(line)+len(name) > 90 {
				out = out + "\n   " + strings.TrimRight(line, " ")
				line = ""
			}
			line += name + ", "
		}
		out += "\n   " + strings.TrimSuffix(line, ", ")
	}
	return out + "\n"
}

// jsonValueOf returns the value of a command's --json, nil without such a flag.
func jsonValueOf(c *cli.Command) *jsonValue {
	for _, f := range c.Flags {
		generic, ok := f.(*cli.GenericFlag)
		if !ok {
			continue
		}
		value, ok := generic.Value.(*jsonValue)
		if ok {
			return value
		}
	}
	return nil
}

// selectJSON reads --json and --jq into w, and refuses values that they do not accept.
func selectJSON(c *cli.Context, w *term.Env) error {
	v := jsonValueOf(c.Command)
	jq := c.String("jq")
	name := c.Command.Name
	if jq != "" && !v.set {
		return exit.Usage("%s: --jq works only with --json", name)
	}
	verb := c.Args().First()
	isAll := func(d jsonDocument) bool { return d.verb == allProjectsName }
	switch {
	case namesSeveral(c) && slices.ContainsFunc(v.documents, isAll):
		verb = allProjectsName
	case takesSeveral(w, c):
		verb = severalName
	}
	for _, d := range v.documents {
		flag, isFlag := strings.CutPrefix(d.verb, "--")
		if isFlag && !isAll(d) && c.IsSet(flag) {
			verb = d.verb
		}
	}
	document := v.document(verb)
	for _, field := range v.fields {
		known := document.fields()
		path := document.within(field)
		switch {
		case slices.Contains(known, field):
		case path != "" && (strings.Contains(field, ".") || suggest.Misspelt(field, known) == ""):
			return exit.Usage("%s: the field %q is inside others: --json --jq '%s' prints it", name, field, path)
		case len(suggest.Near(field, known)) == 0 && document.nearWithin(field) != "":
			meant := document.nearWithin(field)
			const message = "%s: unknown field %q of --json, did you mean %s? --json --jq '%s' prints it"
			return exit.Usage(message, name, field, meant, document.within(meant))
		default:
			return exit.Usage("%s: unknown field %q of --json%s; there are %s",
				name, field, suggest.DidYouMean(field, known, "%s"), strings.Join(known, ", "))
		}
	}
	query, err := w.NewJSONQuery(v.fields, jq)
	if err != nil {
		return exit.Usage("%s: %v", name, err)
	}
	w.Query = query
	w.JSON = v.set
	return nil
}
