package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/reconcile"
)

// reader reads one front matter and collects errors and warnings.
type reader struct {
	src  Source
	env  Environment
	keys []Key
	// parents are the keys that hold maps of keys.
	parents []string
	// fields holds every value that is not null by its dotted key.
	fields map[string]field
	// lines are those of sections and keys, for messages about missing keys.
	lines map[string]int

	faults   []located
	warnings []Warning
}

// field is one value of the file, with the key as the file has it, also for tracker.provider.*.
type field struct {
	key  string
	node *yaml.Node
	line int // of the file, of the value or else of its key
}

// located is an error with its line, for sorting.
type located struct {
	line int
	err  *reconcile.Error
}

// fail records an error at a line of the file.
func (r *reader) fail(code string, line int, key, message, hint string) {
	if key != "" {
		message = key + ": " + message
	}
	r.faults = append(r.faults, located{line, fault(code, r.src.Name, line, message, hint)})
}

func (r *reader) warn(line int, key, message string) {
	r.warnings = append(r.warnings, Warning{File: r.src.Name, Line: line, Key: key, Message: message})
}

// errors are the collected errors in the order of the lines, without the secret; nil if there are none.
func (r *reader) errors(secret Secret) error {
	if len(r.faults) == 0 {
		return nil
	}
	sort.SliceStable(r.faults, func(i, j int) bool { return r.faults[i].line < r.faults[j].line })
	all := make(Errors, len(r.faults))
	for i, f := range r.faults {
		f.err.Message = shorten(secret.scrub(f.err.Message))
		all[i] = f.err
	}
	return all
}

// load turns the YAML text into fields. It returns false if no key of the file can be read.
func (r *reader) load() bool {
	root, ok := r.document()
	if !ok || root == nil {
		return ok
	}
	root = deref(root)
	if null(root) {
		return true
	}
	if root.Kind != yaml.MappingNode {
		r.fail(CodeNotAMap, r.line(root), "", "the front matter is "+kindName(root)+", not a map of keys",
			"write it as `tracker:` and the other sections, each with its keys indented below")
		return false
	}
	r.section("", root)
	r.mergeProvider()
	return true
}

// document decodes the YAML document; nil without an error is an empty one.
func (r *reader) document() (*yaml.Node, bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(r.src.FrontMatter))
	var doc, second yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, true
	}
	if err == nil && !errors.Is(decoder.Decode(&second), io.EOF) {
		end := bytes.Index(append([]byte("\n"), r.src.FrontMatter...), []byte("\n..."))
		line := lineAt(r.src.FrontMatter, max(end, 0))
		r.fail(CodeParse, r.src.frontLine+line-1, "", "the front matter holds more than one YAML document", "keep one, without lines of `...`")
		return nil, false
	}
	if err != nil {
		r.fail(CodeParse, r.src.frontLine+faultyLine(r.src.FrontMatter, err), "", yamlMessage(err), "the front matter is YAML: check indentation, quotes and tabs")
		return nil, false
	}
	return doc.Content[0], true
}

// section reads the keys of one map.
func (r *reader) section(prefix string, node *yaml.Node) {
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], deref(node.Content[i+1])
		line := r.line(name)
		if name.Kind != yaml.ScalarNode {
			r.fail(CodeParse, line, strings.TrimSuffix(prefix, "."), "a key must be a plain word", "")
			continue
		}
		key := prefix + name.Value
		if first, twice := seen[key]; twice {
			r.fail(CodeParse, line, key, fmt.Sprintf("given twice, before on line %d", first), "keep one of them")
			continue
		}
		seen[key] = line
		r.lines[key] = line
		switch {
		case name.Tag == "!!merge":
			r.fail(CodeInvalid, line, key, "merge keys are not supported", "write the keys out")
		case null(value):
			if r.known(key, line) && value.Value == "~" && r.key(key).Type == typePath {
				r.warn(line, key, `~ alone is YAML's null, so that the key counts as absent; the home directory is "~"`)
			}
		case slices.Contains(r.parents, key):
			if value.Kind != yaml.MappingNode {
				r.fail(CodeInvalid, line, key, "must be a map of keys, is "+kindName(value), "")
				continue
			}
			r.section(key+".", value)
		case r.known(key, line):
			r.fields[key] = field{key: key, node: value, line: r.valueLine(line, node.Content[i+1])}
		case isUnbuilt(key):
			r.notBuilt(key, line, value)
		}
	}
}

// valueLine is the line of a scalar, or of the key of a list or a map.
func (r *reader) valueLine(keyLine int, value *yaml.Node) int {
	if value.Kind == yaml.ScalarNode {
		return r.line(value)
	}
	return keyLine
}

// key is the key of this name, nil if there is none.
func (r *reader) key(name string) *Key {
	for i := range r.keys {
		if r.keys[i].Name == name {
			return &r.keys[i]
		}
	}
	return nil
}

// known reports whether the key has an effect, and warns about unknown keys.
func (r *reader) known(key string, line int) bool {
	if r.key(key) != nil {
		return true
	}
	if !isUnbuilt(key) && !slices.Contains(r.parents, key) {
		message := "unknown key, ignored"
		if near := r.suggest(key); near != "" {
			message += "; did you mean " + near + "?"
		}
		r.warn(line, key, message)
	}
	return false
}

// suggest is a near key of the same section, or else a key of another section with the same last word.
func (r *reader) suggest(key string) string {
	dot := strings.LastIndexByte(key, '.') + 1
	section, word := key[:dot], key[dot:]
	if section == "" {
		// Only sections are suggested for a top-level name: that kind means tracker.kind would be a guess.
		return nearest(word, slices.DeleteFunc(slices.Clone(r.parents), func(p string) bool { return strings.Contains(p, ".") }))
	}
	var same []string
	elsewhere := ""
	for _, k := range r.keys {
		if rest, ok := strings.CutPrefix(k.Name, section); ok {
			same = append(same, rest)
		}
		if elsewhere == "" && strings.HasSuffix(k.Name, "."+word) {
			elsewhere = k.Name
		}
	}
	if near := nearest(word, same); near != "" {
		return section + near
	}
	return elsewhere
}

func isUnbuilt(key string) bool { _, ok := Unbuilt()[key]; return ok }

func (r *reader) notBuilt(key string, line int, value *yaml.Node) {
	if message := Unbuilt()[key]; message != "" {
		r.warn(line, key, message)
		return
	}
	if value.Kind == yaml.SequenceNode && len(value.Content) == 0 {
		return // an empty list asks for nothing
	}
	r.fail(CodeUnsupportedKey, line, key, "not built yet, and to ignore it would not do what you asked for", "remove the key, or use a version that knows it")
}

// mergeProvider moves values from tracker.provider.* to the same keys of tracker.
func (r *reader) mergeProvider() {
	const prefix = "tracker.provider."
	for _, k := range trackerKeys() {
		name, ok := strings.CutPrefix(k.Name, prefix)
		given, set := r.fields[k.Name]
		if !ok || !set {
			continue
		}
		other, both := r.fields["tracker."+name]
		if both && (other.node.Kind != given.node.Kind || other.node.Value != given.node.Value) {
			r.fail(CodeInvalid, given.line, k.Name, fmt.Sprintf("says something else than tracker.%s on line %d", name, other.line), "keep one of them")
			continue
		}
		if !both {
			r.fields["tracker."+name] = given
		}
	}
}

// line is the file's line of a node.
func (r *reader) line(n *yaml.Node) int { return r.src.frontLine + n.Line - 1 }

func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

// yamlMessage is the library's message without its name and line.
func yamlMessage(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if i := strings.Index(rest, ": "); i >= 0 {
			return rest[i+2:]
		}
	}
	return text
}

// faultyLine finds the line of the front matter, from 0, that a YAML error is about. The library's own number is that of an
// enclosing part, or one too small, or missing. But the library reads from the front: the shortest beginning of the text
// with the same error ends on the faulty line.
func faultyLine(text []byte, err error) int {
	want := yamlMessage(err)
	ends := []int{}
	for i, b := range text {
		if b == '\n' || i == len(text)-1 {
			ends = append(ends, i+1)
		}
	}
	n := sort.Search(len(ends), func(n int) bool {
		var node yaml.Node
		e := yaml.Unmarshal(text[:ends[n]], &node)
		return e != nil && yamlMessage(e) == want
	})
	return min(n, max(len(ends)-1, 0))
}
