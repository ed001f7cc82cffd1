package linear

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// payload is the body of a request. Most passes make one, and encoding/json first builds an encoder for each type of it:
// that took nearly as long as to send it.
func payload(query string, variables any) ([]byte, error) {
	b, err := appendJSON([]byte(`{"query":`), query)
	if err == nil && variables != nil {
		b, err = appendJSON(append(b, `,"variables":`...), variables)
	}
	return append(b, '}'), err
}

// appendJSON writes what the variables of our own queries are made of, and leaves the rest to encoding/json.
func appendJSON(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case string:
		if simple(v) {
			return appendSimple(b, v), nil
		}
	case []string:
		if v != nil {
			return appendAll(b, '[', ']', v, func(b []byte, item string) ([]byte, error) { return appendJSON(b, item) })
		}
	case map[string]any:
		if v != nil {
			return appendAll(b, '{', '}', slices.Sorted(maps.Keys(v)), func(b []byte, name string) ([]byte, error) {
				b, err := appendJSON(b, name)
				if err != nil {
					return b, err
				}
				return appendJSON(append(b, ':'), v[name])
			})
		}
	}
	text, err := json.Marshal(value)
	return append(b, text...), err
}

func appendAll(b []byte, begin, end byte, items []string, one func([]byte, string) ([]byte, error)) (_ []byte, err error) {
	b = append(b, begin)
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = one(b, item); err != nil {
			return b, err
		}
	}
	return append(b, end), nil
}

// simple reports a text of ASCII alone, without control characters but line breaks.
func simple(text string) bool {
	for i := range len(text) {
		if c := text[i]; c != '\n' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

func appendSimple(b []byte, text string) []byte {
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; c {
		case '\n':
			b = append(b, `\n`...)
		case '"', '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
