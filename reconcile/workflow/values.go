package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/reconcile"
)

// value reads one key into the configuration.
func (r *reader) value(k Key, cfg *Config) {
	switch {
	case k.read != nil:
		k.read(r, k, cfg)
		return
	case k.to == nil: // another place for a key, see mergeProvider
		return
	}
	switch to := k.to(cfg).(type) {
	case *string:
		*to = r.text(k)
	case *bool:
		*to = r.boolean(k)
	case *int:
		*to = int(r.integer(k))
	case *int64:
		*to = r.integer(k)
	case *time.Duration:
		*to = r.milliseconds(k)
	case *Answer:
		*to = Answer(r.choice(k))
	case *map[string]int:
		*to = r.stateLimits(k)
	default:
		panic("workflow: no way to read " + k.Name)
	}
}

// scalar gives the trimmed text of a single value; ok is false where the file has none, or has something else, which is
// reported.
func (r *reader) scalar(k Key) (f field, text string, ok bool) {
	f, ok = r.fields[k.Name]
	if ok && f.node.Kind != yaml.ScalarNode {
		r.wrong(f, k.Type, kindName(f.node))
		return f, "", false
	}
	if ok {
		text = strings.TrimSpace(f.node.Value)
	}
	return f, text, ok
}

// text reads a string: a single value of any kind, as it is written.
func (r *reader) text(k Key) string {
	if f, _, ok := r.scalar(k); ok {
		return f.node.Value
	}
	return k.Default
}

// wrong reports a value of the wrong type.
func (r *reader) wrong(f field, allowed, got string) {
	r.fail(CodeInvalid, f.line, f.key, fmt.Sprintf("must be %s, is %s", article(allowed), got), "")
}

func article(noun string) string {
	switch noun {
	case typeMS:
		return "a whole number of milliseconds"
	case typeInteger:
		return "a whole number"
	case typeBool:
		return noun
	}
	return "a " + noun
}

// integer reads a whole number within the bounds of its key. Digits in quotes count (specification 5.3.2).
func (r *reader) integer(k Key) int64 {
	f, ok := r.fields[k.Name]
	standard := mustInt(k.Default)
	if !ok {
		return standard
	}
	n, err := digits(f.node)
	switch {
	case err != nil:
		r.wrong(f, k.Type, err.Error())
	case n < k.min:
		r.fail(CodeInvalid, f.line, f.key, fmt.Sprintf("%d is too small: at least %d", n, k.min), "")
	case k.max > 0 && n > k.max:
		r.fail(CodeInvalid, f.line, f.key, fmt.Sprintf("%d is too large: at most %d", n, k.max), "")
	default:
		return n
	}
	return standard
}

func mustInt(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("workflow: default of a number: " + err.Error())
	}
	return n
}

// digits reads a node as a decimal integer; the error is what it is instead.
func digits(n *yaml.Node) (int64, error) {
	if n.Kind != yaml.ScalarNode {
		return 0, fmt.Errorf("%s", kindName(n))
	}
	text := strings.TrimSpace(n.Value)
	if n.Tag == "!!int" {
		text = strings.ReplaceAll(text, "_", "")
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s", strconv.Quote(n.Value))
	}
	return v, nil
}

func (r *reader) milliseconds(k Key) time.Duration {
	return time.Duration(r.integer(k)) * time.Millisecond
}

// boolean reads true or false, and refuses every other word.
func (r *reader) boolean(k Key) bool {
	f, ok := r.fields[k.Name]
	if ok && f.node.Kind == yaml.ScalarNode && f.node.Tag == "!!bool" {
		return strings.EqualFold(f.node.Value, "true")
	}
	if ok && f.node.Kind == yaml.ScalarNode {
		r.fail(CodeInvalid, f.line, f.key, "must be true or false, is "+strconv.Quote(f.node.Value), "write the word itself, without quotes")
	} else if ok {
		r.wrong(f, k.Type, kindName(f.node))
	}
	return k.Default == "true"
}

// item is one text of a list, with its line.
type item struct {
	line int
	text string
}

// items reads a list of strings, trimmed; named reports whether the file has one.
func (r *reader) items(k Key) (list []item, named bool) {
	f, ok := r.fields[k.Name]
	if !ok {
		return nil, false
	}
	if f.node.Kind != yaml.SequenceNode {
		hint := ""
		if f.node.Kind == yaml.ScalarNode {
			hint = "write it in brackets, with commas between the items"
		}
		r.fail(CodeInvalid, f.line, f.key, fmt.Sprintf("must be %s, is %s", article(k.Type), kindName(f.node)), hint)
		return nil, false
	}
	for _, node := range f.node.Content {
		line := r.line(node)
		node = deref(node)
		text := strings.TrimSpace(node.Value)
		switch {
		case node.Kind != yaml.ScalarNode:
			r.fail(CodeInvalid, line, f.key, "an item is "+kindName(node)+", not a string", "")
		case text == "" || null(node):
			r.fail(CodeInvalid, line, f.key, "an item is empty", "remove it")
		default:
			list = append(list, item{line, text})
		}
	}
	return list, true
}

// list reads a list of strings, or gives the default.
func (r *reader) list(k Key) (texts []string, named bool) {
	texts = []string{}
	items, named := r.items(k)
	for _, i := range items {
		texts = append(texts, i.text)
	}
	if standard := strings.Trim(k.Default, "[]"); !named && standard != "" {
		texts = strings.Split(standard, ", ")
	}
	return texts, named
}

// choice reads one of a few words. It is empty where the file has none and the default depends on other keys.
func (r *reader) choice(k Key) string {
	f, ok := r.fields[k.Name]
	switch {
	case ok && f.node.Kind == yaml.ScalarNode && slices.Contains(k.Words, f.node.Value):
		return f.node.Value
	case ok:
		r.fail(CodeInvalid, f.line, f.key, fmt.Sprintf("must be %s, is %s", strings.Join(k.Words, " or "), given(f.node)), "")
	case slices.Contains(k.Words, k.Default):
		return k.Default
	}
	return ""
}

// given is a value as the file has it.
func given(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return strconv.Quote(n.Value)
	}
	return kindName(n)
}

// stateLimits reads the map of states to limits. An entry that is no positive number is ignored with a warning
// (specification 5.3.5).
func (r *reader) stateLimits(k Key) map[string]int {
	limits := map[string]int{}
	f, ok := r.fields[k.Name]
	if !ok {
		return limits
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(f, k.Type, kindName(f.node))
		return limits
	}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name, value := f.node.Content[i], deref(f.node.Content[i+1])
		line := r.line(name)
		state := reconcile.NormalizeState(name.Value)
		n, err := digits(value)
		if name.Kind != yaml.ScalarNode || state == "" {
			r.warn(line, f.key, "an entry names no state and is ignored")
			continue
		}
		if err != nil || n <= 0 {
			r.warn(line, f.key+"."+name.Value, "not a positive whole number, the entry is ignored")
			continue
		}
		if before, twice := limits[state]; twice {
			r.warn(line, f.key+"."+name.Value, "the state is named twice, the smaller limit counts")
			n = min(n, int64(before))
		}
		limits[state] = int(min(n, 1_000_000))
	}
	return limits
}

// passThrough gives a value that belongs to codex in JSON: a map or, with scalar, a string. It is nil where the file has none.
// Nulls in it are left out, as null keys are.
func (r *reader) passThrough(k Key, scalar bool) json.RawMessage {
	f, ok := r.fields[k.Name]
	if !ok {
		return nil
	}
	allowed, hint := "a map", "write it as codex wants it, for instance {type: workspaceWrite}"
	if scalar {
		allowed, hint = "a string or a map", "write it as codex wants it, for instance never"
	}
	if f.node.Kind == yaml.SequenceNode || f.node.Kind == yaml.ScalarNode && !scalar {
		r.fail(CodeInvalid, f.line, f.key, "must be "+allowed+", is "+kindName(f.node), hint)
		return nil
	}
	if f.node.Kind == yaml.ScalarNode {
		return quoteJSON(f.node.Value)
	}
	if again := repeated(f.node); again != nil {
		r.fail(CodeParse, r.line(again), f.key, strconv.Quote(again.Value)+" is given twice", "keep one of them")
		return nil
	}
	var value any
	err := f.node.Decode(&value)
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(withoutNulls(value)); err == nil {
			return raw
		}
	}
	r.fail(CodeInvalid, f.line, f.key, "can't be written as JSON: "+yamlMessage(err), "use strings as keys, and plain values")
	return nil
}

// repeated finds a key that a map has twice. It does not follow aliases, because their target is part of the tree.
func repeated(n *yaml.Node) *yaml.Node {
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode {
			if seen[child.Value] {
				return child
			}
			seen[child.Value] = true
		}
		if again := repeated(child); again != nil {
			return again
		}
	}
	return nil
}

func quoteJSON(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return raw
}

func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			v[name] = withoutNulls(member)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return value
}
