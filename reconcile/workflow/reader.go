package workflow

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"

	"gopkg.in/yaml.v3"
)

// frontMatter is the YAML text as a tree of nodes, by key.
type frontMatter struct {
	report
	src     Source
	keys    []Key
	names   []string         // of these keys
	parents []string         // the keys whose values are maps of keys
	fields  map[string]field // every value that is not null, by its dotted key
	lines   map[string]int   // the lines of sections and keys, for messages about missing keys
	unknown []field          // the keys that are none of symphony's
}

// readFrontMatter parses the front matter and finds the values of the keys. It returns false
// if no key can be read.
func readFrontMatter(src Source, keys []Key) (frontMatter, bool) {
	r := frontMatter{
		report:  report{file: src.Name},
		src:     src,
		keys:    keys,
		names:   text.Map(keys, func(k Key) string { return k.Name }),
		parents: sections(keys),
		fields:  map[string]field{},
		lines:   map[string]int{},
	}
	ok := r.load()
	return r, ok
}

// values reads values as the types of their keys.
type values struct {
	frontMatter
	env Environment
}

// reader reads a front matter into a configuration.
type reader struct {
	values
	cfg     *Config
	tracker tracker // the kind in tracker.kind
}

// field is a value in the file. key is the key as written, which may lie below
// tracker.provider.
type field struct {
	key  string
	line int // the line of the value, or else of its key
	node *yaml.Node
}

// field returns the value of a key. If the key is not in the file, node is nil and line is the
// line of the section, or 1.
func (r *frontMatter) field(key string) field {
	if f, given := r.fields[key]; given {
		return f
	}
	section, _, _ := strings.Cut(key, ".")
	return field{key: key, line: max(1, r.lines[section])}
}

// load parses the YAML text and collects its fields. It returns false if no key can be read.
func (r *frontMatter) load() bool {
	front := r.src.FrontMatter
	decoder := yaml.NewDecoder(bytes.NewReader(front))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return true
	} else if err != nil {
		r.failParse(err)
		return false
	}
	root := deref(doc.Content[0])
	if null(root) {
		return true
	}
	if root.Kind != yaml.MappingNode {
		const hint = "write it as `tracker:` and the other sections, each with its keys indented below"
		r.fail(
			CodeNotAMap,
			field{line: r.line(root)},
			"the front matter is "+kindName(root)+", not a map of keys",
			hint,
		)
		return false
	}
	err := decoder.Decode(&second)
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.failParse(err)
		return false
	default:
		const hint = "keep one, without lines of `...` or `---`"
		r.fail(CodeParse, field{line: r.line(&second)}, "the front matter contains more than one YAML document", hint)
		return false
	}
	r.section("", root)
	r.mergeProvider()
	return true
}

// failParse reports an error of the YAML library.
func (r *frontMatter) failParse(err error) {
	line, message := text.YAMLFault(r.src.FrontMatter, err)
	at := field{line: r.src.frontLine + line}
	hint := "the front matter is YAML: check indentation, quotes and tabs"
	if message == text.UnresolvedConflict {
		hint = text.ResolveConflict
	}
	r.fail(CodeParse, at, message, hint)
}

// section reads the keys of a map.
func (r *frontMatter) section(prefix string, node *yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		value := deref(node.Content[i+1])
		f := field{key: prefix + name.Value, line: r.line(name), node: value}
		if name.Kind != yaml.ScalarNode {
			f.key = strings.TrimSuffix(prefix, ".")
			r.fail(CodeParse, f, "a key must be a plain word", "")
			continue
		}
		if first, twice := r.lines[f.key]; twice {
			r.fail(CodeParse, f, fmt.Sprintf("given twice, before on line %d", first), "keep one of them")
			continue
		}
		r.lines[f.key] = f.line
		known := slices.Index(r.names, f.key)
		section := slices.Contains(r.parents, f.key)
		message, unbuilt := Unbuilt()[f.key]
		switch {
		case name.Tag == "!!merge":
			r.invalid(f, "merge keys are not supported", "write the keys out")
		case known < 0 && !section && !unbuilt:
			r.unknown = append(r.unknown, f)
		case null(value) && value.Anchor == "":
			if value.Value == "" && f.key != "workspace.root" { // root says which directory is used
				r.warn(f, "empty, so that it has no effect; write a value, or remove the line")
			}
		case section && value.Kind != yaml.MappingNode:
			r.invalid(f, "must be a map of keys, is "+kindName(value), "write its keys below it, indented")
		case section:
			r.section(f.key+".", value)
		case known >= 0:
			if scalar := node.Content[i+1]; scalar.Kind == yaml.ScalarNode {
				f.line = r.line(scalar)
			}
			r.fields[f.key] = f
		default:
			r.warn(f, message)
		}
	}
}

// mergeProvider copies the value of each key that is another name of a key, such as
// tracker.provider.api_key, to the key itself, here tracker.api_key.
func (r *frontMatter) mergeProvider() {
	kind := ""
	if f := r.fields["tracker.kind"]; f.node != nil {
		kind = strings.ToLower(strings.TrimSpace(f.node.Value))
	}
	for _, k := range r.keys {
		given := r.fields[k.Name]
		if k.same == "" || given.node == nil ||
			k.Kinds != nil && slices.Contains(TrackerKinds(), kind) && !slices.Contains(k.Kinds, kind) {
			continue
		}
		other := r.fields[k.same]
		switch {
		case other.node == nil:
			r.fields[k.same] = given
		case other.node.Kind != given.node.Kind || other.node.Value != given.node.Value:
			r.invalid(
				given,
				fmt.Sprintf("differs from %s on line %d", other.key, other.line),
				"keep one of them",
			)
		}
	}
}

// line returns a node's line in the file.
func (r *frontMatter) line(n *yaml.Node) int { return r.src.frontLine + n.Line - 1 }

func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindName(n *yaml.Node) string {
	return cmp.Or(map[yaml.Kind]string{
		yaml.MappingNode:  "a map",
		yaml.SequenceNode: "a list",
	}[n.Kind], "a single value")
}

// report collects the errors and warnings about a file.
type report struct {
	file     string
	faults   []located
	warnings []Warning
}

// located is an error with its line, for sorting.
type located struct {
	line int
	key  string // empty for an error of no key
	err  *reconcile.Error
}

func (r *report) fail(code string, f field, message, hint string) {
	if f.key != "" {
		message = f.key + ": " + message
	}
	r.faults = append(r.faults, located{f.line, f.key, fault(code, r.file, f.line, message, hint)})
}

// refused reports whether a key has a value that was refused: what other keys need of it is not
// missing.
func (r *frontMatter) refused(key string) bool {
	f := r.field(key)
	return f.node != nil && slices.ContainsFunc(r.faults, func(l located) bool { return l.key == f.key })
}

func (r *report) invalid(f field, message, hint string) { r.fail(CodeInvalid, f, message, hint) }

func (r *report) warn(f field, message string) {
	r.warnings = append(r.warnings, Warning{
		File:    r.file,
		Line:    f.line,
		Key:     f.key,
		Message: message,
	})
}

// result returns the warnings and errors, sorted by line and without the secrets.
func (r *report) result(secrets ...Secret) ([]Warning, error) {
	const longest = 300 // characters of a message, which may quote a long value
	scrub := func(text string) string {
		for _, s := range secrets {
			text = s.scrub(text)
		}
		// not before: a part of a key is not recognised
		if runes := []rune(text); len(runes) > longest {
			text = string(runes[:longest]) + "…"
		}
		return text
	}
	slices.SortStableFunc(r.warnings, func(a, b Warning) int { return a.Line - b.Line })
	for i := range r.warnings {
		w := &r.warnings[i]
		w.Key = scrub(w.Key)
		w.Message = scrub(w.Message)
	}
	slices.SortStableFunc(r.faults, func(a, b located) int { return a.line - b.line })
	all := make([]error, len(r.faults))
	for i, f := range r.faults {
		f.err.Message = scrub(f.err.Message)
		all[i] = f.err
	}
	return r.warnings, errors.Join(all...)
}

// path returns the absolute path of a value. It is empty if the path is invalid, which is
// reported.
func (r *values) path(f field, value string) string {
	if elsewhere().MatchString(strings.TrimSpace(value)) {
		r.invalid(f, strconv.Quote(value)+" is no path of this machine", "write one such as ~/symphony")
		return ""
	}
	path, err := r.env.expandPath(strings.TrimSpace(value), filepath.Dir(r.src.Path))
	unset, isUnset := errors.AsType[unsetVariable](err)
	switch {
	case isUnset:
		r.invalid(f, err.Error(), r.setHint(string(unset)))
	case err != nil:
		r.invalid(f, err.Error(), "")
	}
	return path
}

// elsewhere matches texts that would otherwise be relative paths: file:///srv, D:/work,
// C:\work.
var elsewhere = text.Pattern(`^(?:[A-Za-z][A-Za-z0-9+.-]*://|[A-Za-z]:[/\\])`)

// item returns the field with the line of an item of its list.
func (r *frontMatter) item(f field, i int) field {
	f.line = r.line(f.node.Content[i])
	return f
}

// wrong reports a value of the wrong type.
func (r *values) wrong(k Key, f field, hint string) {
	allowed := "a " + k.Type
	switch {
	case k.Type == typeMS:
		allowed = "a whole number of milliseconds"
	case k.Type == typeInteger:
		allowed = "a whole number"
	case k.Type == typeTokens:
		allowed = "a whole number, or one with k, M or G, such as 5M"
	case k.Type == typeBool, k.Type == typeNetwork, k.Type == typeClaims:
		allowed = k.Type
	case k.Words != nil:
		allowed = strings.Join(k.Words, " or ")
	}
	if near := suggest.Nearest(f.node.Value, k.Words); near != "" {
		hint = cmp.Or(hint, "write "+near)
	}
	is := kindName(f.node)
	if f.node.Kind == yaml.ScalarNode && k.Type != typeStateMap && !strings.HasPrefix(k.Type, "list") {
		is = strconv.Quote(f.node.Value)
	}
	r.invalid(f, fmt.Sprintf("must be %s, is %s", allowed, is), hint)
}

// variable looks up a variable. If it is not set, the usual variable is used instead; if it is
// set to nothing, there is no value. The placeholder is used without a fallback, because it
// stands for a particular key.
func (r *values) variable(name, usual string) string {
	value, set := r.env.lookup(name)
	if !set && name != LiteralKeyVar {
		value, _ = r.env.lookup(usual)
	}
	return strings.TrimSpace(value)
}

// The codes of the errors of this package (specification 5.5 and 10 of the design).
const (
	CodeMissingFile    = "missing_workflow_file"
	CodeParse          = "workflow_parse_error"
	CodeNotAMap        = "workflow_front_matter_not_a_map"
	CodeInvalid        = "invalid_config"
	CodeUnsupportedKey = "unsupported_key"
	CodeTrackerKind    = "unsupported_tracker_kind"
	CodeMissingAPIKey  = "missing_tracker_api_key"
	CodeMissingProject = "missing_tracker_project_slug"
	CodeTemplateParse  = "template_parse_error"
	CodeTemplateRender = "template_render_error"
	CodeEnvironment    = "environment_invalid"
)

// Faults lists the faults in an error of Read, Parse or Render. The error may be a single
// fault, several joined ones, or wrap them.
func Faults(err error) []*reconcile.Error {
	var joined interface{ Unwrap() []error }
	list := []error{err}
	if errors.As(err, &joined) {
		list = joined.Unwrap()
	}
	var all []*reconcile.Error
	for _, err := range list {
		if one, is := errors.AsType[*reconcile.Error](err); is {
			all = append(all, one)
		}
	}
	return all
}

// Warning is something in the file that may not work as its author expects.
type Warning struct {
	File    string // the name that was passed to Read
	Line    int    // of the file, from 1
	Key     string // dotted; empty if no key is concerned
	Message string
}

// String returns "<file>:<line>: <key>: <message>".
func (w Warning) String() string {
	message := w.Message
	if w.Key != "" {
		message = w.Key + ": " + message
	}
	return fmt.Sprintf("%s:%d: %s", w.File, w.Line, message)
}

// fault returns an error that names a line of the file.
func fault(code, file string, line int, message, hint string) *reconcile.Error {
	return reconcile.NewError(code, fmt.Sprintf("%s:%d: %s", file, line, message), hint)
}
