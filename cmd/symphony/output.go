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

// jsonFlags returns more followed by --json. The command prints a T. newApp reads
// the flag before the command's action, which only needs to call Env.PrintJSON if Env.JSON
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
	return v.documents[0]
}

// accepts reports whether a word after --json is FIELDS: it contains a comma, or it is a field,
// or resembles one.
func (v *jsonValue) accepts(word string) bool {
	isVerb := func(d jsonDocument) bool { return d.verb == word }
	isField := func(d jsonDocument) bool { return suggest.Misspelt(word, d.fields()) != "" }
	if strings.Contains(word, ",") {
		return true
	}
	return !slices.ContainsFunc(v.documents, isVerb) && slices.ContainsFunc(v.documents, isField)
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

// selectJSON reads --json into w, and refuses fields that the document does not have.
func selectJSON(c *cli.Context, w *term.Env) error {
	v := jsonValueOf(c.Command)
	verb := c.Args().First()
	isAll := func(d jsonDocument) bool { return d.verb == allProjectsName }
	isOfIssue := func(d jsonDocument) bool { return d.verb == issueName }
	switch {
	case namesIssue(c) && slices.ContainsFunc(v.documents, isOfIssue):
		verb = issueName
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
	known := v.document(verb).fields()
	for _, field := range v.fields {
		if !slices.Contains(known, field) {
			return exit.Usage("%s: unknown field %q of --json, %s", c.Command.Name, field, suggest.Instead(field, known))
		}
	}
	w.JSONFields = v.fields
	w.JSON = v.set
	return nil
}
