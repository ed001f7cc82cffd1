package codex

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// lenient reads the members of an object into the fields of *into, a struct, by encoding/json's tags. Each is read by
// itself: one of another type than its field leaves that empty and does not hinder the others, which encoding/json does
// too. But it looks at every byte twice, and again for each raw message inside, while what agents say most are texts.
// A name that other versions wrote with underscores counts where today's is not there.
//
// raw must be valid JSON; raw messages are parts of it.
func lenient(raw []byte, into any) {
	readObject(raw, reflect.ValueOf(into).Elem())
}

func readObject(raw []byte, into reflect.Value) {
	fields := fieldsOf(into.Type())
	former := false
	for name, value := range members(raw) {
		if f, known := fields[string(name)]; known {
			readMember(value, into.FieldByIndex(f.index), f.nested)
		} else {
			former = former || bytes.IndexByte(name, '_') > 0
		}
	}
	if former {
		readFormer(raw, into, fields)
	}
}

// readFormer reads the members whose names are those of other versions, where today's are not there.
func readFormer(raw []byte, into reflect.Value, fields fields) {
	today := make(map[string]bool)
	for name := range members(raw) {
		today[string(name)] = true
	}
	for name, value := range members(raw) {
		word := camelWord(string(name))
		if f, known := fields[word]; known && !today[word] {
			readMember(value, into.FieldByIndex(f.index), f.nested)
		}
	}
}

// readMember reads a member; nested says that the session reads members of its own.
func readMember(value []byte, field reflect.Value, nested bool) {
	if text, ok := field.Addr().Interface().(*string); ok {
		readText(value, text)
		return
	}
	_, own := field.Addr().Interface().(json.Unmarshaler)
	if field.Kind() == reflect.Struct && !own {
		readObject(value, field)
		return
	}
	if nested {
		value, _ = camelKeys(value)
	}
	if raw, ok := field.Addr().Interface().(*json.RawMessage); ok {
		*raw = value
		return
	}
	// What is of another type in there is left empty.
	_ = json.Unmarshal(value, field.Addr().Interface())
}

// readText leaves text as it is where value is none.
func readText(value []byte, text *string) {
	switch {
	case value[0] != '"':
	case bytes.IndexByte(value, '\\') >= 0 || !utf8.Valid(value):
		_ = json.Unmarshal(value, text) // it is a text
	default:
		*text = string(value[1 : len(value)-1])
	}
}

// members are the names and values of an object, in order; there are none in anything else.
func members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		if raw = skipSpace(raw); len(raw) == 0 || raw[0] != '{' {
			return
		}
		for rest := raw[1:]; ; {
			_, rest, _ = bytes.Cut(rest, quote)
			name, after, ended := cutString(rest)
			if !ended {
				return
			}
			_, after, _ = bytes.Cut(after, colon)
			var value []byte
			value, rest = cutValue(skipSpace(after))
			if len(value) == 0 || !yield(unescaped(name), value) {
				return
			}
			if rest = skipSpace(rest); len(rest) == 0 || rest[0] != ',' {
				return
			}
		}
	}
}

const space = " \t\r\n" // between the parts of JSON

func skipSpace(raw []byte) []byte {
	for len(raw) > 0 && strings.IndexByte(space, raw[0]) >= 0 {
		raw = raw[1:]
	}
	return raw
}

// cutValue cuts behind the value that raw begins with.
func cutValue(raw []byte) (value, rest []byte) {
	if len(raw) == 0 {
		return nil, nil
	}
	end := 0
	switch raw[0] {
	case '"', '{', '[':
		end = nestedEnd(raw)
	default:
		if end = bytes.IndexAny(raw, ",]}"+space); end < 0 {
			end = len(raw)
		}
	}
	return raw[:end:end], raw[end:]
}

// nestedEnd is where the text, object or list ends that raw begins with.
func nestedEnd(raw []byte) int {
	depth := 0
	for at := 0; at < len(raw); at++ {
		switch raw[at] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			_, rest, _ := cutString(raw[at+1:])
			at = len(raw) - len(rest) - 1
		default:
			continue
		}
		if depth == 0 {
			return at + 1
		}
	}
	return len(raw)
}

func unescaped(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 && utf8.Valid(name) {
		return name
	}
	var text string
	readText(slices.Concat(quote, name, quote), &text)
	return []byte(text)
}

var quote, colon = []byte{'"'}, []byte{':'}

// fields are those of a struct by the names of their members.
type fields map[string]wireField

type wireField struct {
	index  []int
	nested bool
}

var fieldsByType sync.Map // of fields, by reflect.Type

func fieldsOf(t reflect.Type) fields {
	if known, ok := fieldsByType.Load(t); ok {
		return known.(fields)
	}
	all := make(fields)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		if _, taken := all[name]; taken {
			panic("two fields of " + t.String() + " are called " + name)
		}
		all[name] = wireField{index: f.Index, nested: slices.Contains(nested, name)}
	}
	fieldsByType.Store(t, all)
	return all
}
