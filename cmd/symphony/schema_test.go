package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
)

// The schemas of what commands print with --json are made from the Go types and their
// comments. Every document that a command of a script prints is checked against them.

const schemaDir = "docs/schemas" // of the module

// printedDocument is a document and the commands that print it.
type printedDocument struct {
	name     string // of the schema's file: that of the first command
	typ      reflect.Type
	commands []string
}

// printedDocuments returns the documents of all commands, and that of errors.
func printedDocuments() []*printedDocument {
	failures := []string{"every command that fails before it has an answer"}
	all := []*printedDocument{{
		name:     "error",
		typ:      reflect.TypeFor[term.ErrorJSON](),
		commands: failures,
	}}
	for _, c := range newApp(testWorld()).Commands {
		v, isJSON := flagOf(c, "json").(jsonFlag)
		if !isJSON {
			continue
		}
		for _, d := range v.documents {
			command := strings.TrimSpace("symphony " + c.Name + " " + d.verb)
			i := slices.IndexFunc(all, func(p *printedDocument) bool { return p.typ == d.typ })
			if i < 0 {
				i = len(all)
				verb := strings.ReplaceAll(strings.TrimLeft(d.verb, "-"), " ", "-")
				name := strings.Trim(c.Name+"-"+verb, "-")
				switch {
				case d.verb == severalName:
					name = "several"
				case d.typ == reflect.TypeFor[pass.ResultJSON]():
					name = "tick" // which other commands run
				}
				all = append(all, &printedDocument{
					name: name,
					typ:  d.typ,
				})
			}
			all[i].commands = append(all[i].commands, command)
		}
	}
	return all
}

// docs/schemas has a schema for each document.
func TestDocumentedSchemas(t *testing.T) {
	names := map[string]bool{}
	for _, d := range printedDocuments() {
		path := filepath.Join(schemaDir, d.name+".schema.json")
		names[path] = true
		generated(t, path, "", schemaOf(t, d))
	}
	for _, path := range test.Must(filepath.Glob(filepath.Join(moduleRoot, schemaDir, "*"))) {
		test.Equal(t, "a command prints "+path, names[test.Must(filepath.Rel(moduleRoot, path))], true)
	}
	checkServedSchemas(t)
}

// checkServedSchemas checks the schemas of the server's OpenAPI document: those of what the
// commands print.
func checkServedSchemas(t *testing.T) {
	s := schemaWriter{t: t, defs: map[string]any{}, types: map[string]reflect.Type{}}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[view.Joined](),
		reflect.TypeFor[view.Overview](),
		reflect.TypeFor[detail.Issue](),
		reflect.TypeFor[pass.ResultJSON](),
		reflect.TypeFor[operate.StopJSON](),
		reflect.TypeFor[requests.JSON](),
		reflect.TypeFor[term.ErrorJSON](),
		reflect.TypeFor[report.ResultList](),
		reflect.TypeFor[operate.Several](),
		reflect.TypeFor[operate.ToldJSON](),
	} {
		s.schema(typ, false)
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s.defs)) {
		fmt.Fprintf(&out, ",\n%q: %s", name, test.Must(json.Marshal(s.defs[name])))
	}
	want := "{" + strings.ReplaceAll(
		strings.TrimPrefix(out.String(), ","),
		"#/$defs/",
		"#/components/schemas/",
	) + "\n}\n"
	generated(t, "cmd/symphony/internal/show/web/schemas.json", "", want)
}

// object is a JSON object whose members have an order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	out := bytes.NewBufferString("{")
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(out, "%q:", m.name)
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func schemaOf(t *testing.T, d *printedDocument) string {
	t.Helper()
	s := schemaWriter{t: t, defs: map[string]any{}, types: map[string]reflect.Type{}}
	root := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "What is printed with --json by " + strings.Join(d.commands, ", ")},
	}
	root = append(root, s.schema(d.typ, true)...)
	if len(s.defs) > 0 {
		root = append(root, member{"$defs", s.defs}) // which encodes in the order of the names
	}
	var out bytes.Buffer
	test.OK(t, json.Indent(&out, test.Must(json.Marshal(root)), "", "  "))
	return out.String() + "\n"
}

// schemaWriter writes the schema of one document.
type schemaWriter struct {
	t     *testing.T
	defs  map[string]any // the schemas of named structs
	types map[string]reflect.Type
}

// schema returns the schema of a type; of a named struct a reference, unless it is the root.
func (s *schemaWriter) schema(typ reflect.Type, root bool) object {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return object{{"type", "string"}, {"format", "date-time"}}
	case reflect.TypeFor[json.RawMessage]():
		return nil
	case reflect.TypeFor[view.Amount]():
		return object{{"type", "number"}}
	}
	switch {
	case typ.Kind() == reflect.Pointer:
		schema := s.schema(typ.Elem(), false)
		if plain, ok := schema[0].value.(string); ok && schema[0].name == "type" {
			return append(object{{"type", []string{plain, "null"}}}, schema[1:]...)
		}
		return object{{"anyOf", []object{schema, {{"type", "null"}}}}}
	case typ.Implements(reflect.TypeFor[json.Marshaler]()):
		s.t.Errorf("%s has its own JSON: add it here", typ)
	case typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{{"type", "string"}}
	}
	switch typ.Kind() {
	case reflect.Slice:
		return object{{"type", "array"}, {"items", s.schema(withoutPointer(typ.Elem()), false)}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", s.schema(typ.Elem(), false)}}
	case reflect.Interface:
		return nil
	case reflect.Struct:
		name := typ.Name()
		if root || name == "" {
			return s.structSchema(typ)
		}
		if _, done := s.defs[name]; !done {
			s.types[name] = typ
			s.defs[name] = nil // it may refer to itself
			s.defs[name] = s.structSchema(typ)
		}
		if s.types[name] != typ {
			s.t.Errorf("%s and %s have the same name: rename one", s.types[name], typ)
		}
		return object{{"$ref", "#/$defs/" + name}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.String:
		out := object{{"type", "string"}}
		if values := comments(s.t, typ)["="]; values != "" {
			// Later versions may have more, and some documents have an empty text: a reader
			// must not rely on these alone.
			out = append(out, member{"examples", strings.Split(strings.TrimSpace(values), "\n")})
		}
		return out
	case reflect.Float64:
		return object{{"type", "number"}}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{{"type", "integer"}}
	default:
		s.t.Errorf("no schema for %s", typ)
		return nil
	}
}

func (s *schemaWriter) structSchema(typ reflect.Type) object {
	out := object{{"type", "object"}}
	if text := comments(s.t, typ)[""]; text != "" {
		out = append(out, member{"description", strings.TrimPrefix(text, typ.Name()+" is ")})
	}
	required := []string{}
	properties := object{}
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" {
			continue
		}
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
		owner := typ // that of a promoted field is the embedded struct
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = withoutPointer(owner.Field(i).Type)
		}
		typ := f.Type
		if strings.Contains(options, "omit") { // it is left out instead of null
			typ = withoutPointer(typ)
		}
		property := s.schema(typ, false)
		if text := comments(s.t, owner)[f.Name]; text != "" {
			if rest, named := strings.CutPrefix(text, f.Name+" "); named {
				text = name + " " + rest
			}
			property = append(object{{"description", text}}, property...)
		}
		properties = append(properties, member{name, property})
	}
	return append(out, member{"required", required}, member{"properties", properties})
}

// from the path of a package to the comments of its types, by "Type" and "Type.Field"
var commentsOfPackage sync.Map

// comments returns the comments of a type of this module: of itself by "", of its fields by
// their names. "=" are the values of its constants, each on a line.
func comments(t *testing.T, typ reflect.Type) map[string]string {
	t.Helper()
	dir, ours := strings.CutPrefix(typ.PkgPath(), "github.com/symphony-cron/symphony/")
	if typ.PkgPath() == "main" || strings.HasSuffix(typ.PkgPath(), "cmd/symphony") {
		dir = "cmd/symphony"
		ours = true
	}
	if !ours {
		return nil
	}
	found, done := commentsOfPackage.Load(dir)
	if !done {
		found = readComments(t, filepath.Join(moduleRoot, dir))
		commentsOfPackage.Store(dir, found)
	}
	out := map[string]string{}
	for name, text := range found.(map[string]string) {
		if of, field, _ := strings.Cut(name, "."); of == typ.Name() {
			out[field] = text
		}
	}
	return out
}

func readComments(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range test.Must(filepath.Glob(filepath.Join(dir, "*.go"))) {
		file := test.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments))
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					all[spec.Name.Name] = oneLine(general.Doc) + oneLine(spec.Doc)
					readFields(spec, all)
				case *ast.ValueSpec:
					typ, named := spec.Type.(*ast.Ident)
					if !named || general.Tok != token.CONST {
						continue
					}
					for _, v := range spec.Values {
						if value, ok := v.(*ast.BasicLit); ok && value.Kind == token.STRING {
							all[typ.Name+".="] += strings.Trim(value.Value, `"`) + "\n"
						}
					}
				}
			}
		}
	}
	return all
}

func readFields(spec *ast.TypeSpec, all map[string]string) {
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			all[spec.Name.Name+"."+name.Name] = oneLine(f.Doc) + oneLine(f.Comment)
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// recordVar names the file to which the program under test writes the documents that it
// prints.
const recordVar = "SYMPHONY_TEST_DOCUMENTS"

// record is a line of that file.
type record struct {
	Args     []string        `json:"args"`
	Type     string          `json:"type"`
	Document json.RawMessage `json:"document"`
}

// recordDocuments returns a function that appends the documents that a command line prints to
// the file, nil without a file.
func recordDocuments(path string, args []string) func(document any, data []byte) {
	if path == "" {
		return nil
	}
	return func(document any, data []byte) {
		line := test.Must(json.Marshal(record{args, typeName(reflect.TypeOf(document)), data}))
		// A program that a script runs as another user, or on a full disk, is left out.
		if file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = file.Write(append(line, '\n'))
			_ = file.Close()
		}
	}
}

func typeName(typ reflect.Type) string { return withoutPointer(typ).String() }

func withoutPointer(typ reflect.Type) reflect.Type {
	if typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return typ
}

// validateDocuments checks what the commands of a script have printed against the published
// schemas, and fails the script.
func validateDocuments(t testscript.T, path string) {
	data, _ := os.ReadFile(path) // there is none if no command has printed JSON
	seen := map[string]bool{}
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // a command was killed while it wrote
		}
		var r record
		err := json.Unmarshal(line, &r)
		if err == nil {
			err = validate(r)
		}
		if err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			t.Log(strings.Join(r.Args[1:], " "), ": ", err)
			defer t.FailNow()
		}
	}
}

// validate checks a document against the schema of its command, in which it may have no
// further member.
func validate(r record) error {
	i := slices.IndexFunc(printed(), func(d *printedDocument) bool { return typeName(d.typ) == r.Type })
	if i < 0 {
		return fmt.Errorf("there is no schema for %s: give the command jsonFlags with this type", r.Type)
	}
	d := printed()[i]
	at := commandAt(r.Args) // -1 where a command is missing, which is an error
	ofCommand := at >= 0 && slices.ContainsFunc(
		d.commands,
		func(c string) bool { return strings.HasPrefix(c+" ", "symphony "+r.Args[at]+" ") },
	)
	if d.name != "error" && !ofCommand {
		return fmt.Errorf("it prints %s, which its jsonFlags do not say", r.Type)
	}
	schema, err := strictSchema(d.name)
	if err != nil {
		return err
	}
	var document any
	if err := json.Unmarshal(r.Document, &document); err != nil {
		return err
	}
	return schema.Validate(document)
}

var (
	printed       = sync.OnceValue(printedDocuments)
	strictSchemas sync.Map
)

// strictSchema returns a published schema, in which additional members of objects are errors.
func strictSchema(name string) (*jsonschema.Resolved, error) {
	if s, ok := strictSchemas.Load(name); ok {
		return s.(*jsonschema.Resolved), nil
	}
	data, err := os.ReadFile(filepath.Join(moduleRoot, schemaDir, name+".schema.json"))
	if err != nil {
		return nil, err
	}
	var source any
	if err := json.Unmarshal(data, &source); err != nil {
		return nil, err
	}
	closeObjects(source)
	var schema jsonschema.Schema
	if err := json.Unmarshal(test.Must(json.Marshal(source)), &schema); err != nil {
		return nil, err
	}
	resolved, err := schema.Resolve(nil)
	if err == nil {
		strictSchemas.Store(name, resolved)
	}
	return resolved, err
}

func closeObjects(v any) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			closeObjects(element)
		}
	case map[string]any:
		for _, element := range v {
			closeObjects(element)
		}
		if _, has := v["properties"].(map[string]any); has && v["type"] == "object" {
			v["additionalProperties"] = false
		}
	}
}

// Documents that do not keep the schema are found.
func TestValidateDocuments(t *testing.T) {
	for _, c := range []struct{ line, typ, document, want string }{
		{"version --json", "main.versionJSON", `{"version": "v1", "go": "go", "os": "linux"}`, "missing properties"},
		{"version --json", "main.versionJSON", `1`, `want "object"`},
		{"version --json", "schedule.Status", `{}`, "which its jsonFlags do not say"},
		{"version --json", "main.unknown", `{}`, "no schema for main.unknown"},
		{
			"--json version",
			"term.ErrorJSON",
			`{"error": {"code": "usage", "message": "m", "more": 1}}`,
			`additional properties ["more"]`,
		},
		{
			"-w W.md schedule --json status",
			"term.ErrorJSON",
			`{"error": {"code": "usage", "message": "m", "hint": "see"}}`,
			"",
		},
	} {
		r := record{
			append([]string{"symphony"}, strings.Fields(c.line)...),
			c.typ,
			json.RawMessage(c.document),
		}
		if err := validate(r); c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %s: %v, want %s", c.line, c.document, err, c.want)
		}
	}
}
