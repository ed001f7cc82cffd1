package codex

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// nested are the members whose own members the session reads. What is data (arguments, permissions, schemas, the keys
// of a map of files) keeps its spelling: some of it is echoed.
var nested = []string{
	"item", "items", "turn", "thread", "status", "error", "msg", "goal", "plan", "questions", "options", "rateLimits", "primary", "secondary",
	"credits", "invocation",
}

// camelDepth is how deep names are spelled anew; the session reads nothing that lies deeper. Each level decodes all that
// is in it.
const camelDepth = 8

// camelKeys spells the members of raw as codex does today: other versions wrote thread_id for threadId. changed is
// false where all of them were spelled so already.
func camelKeys(raw json.RawMessage) (out json.RawMessage, changed bool) {
	return camelTo(raw, camelDepth)
}

func camelTo(raw json.RawMessage, depth int) (out json.RawMessage, changed bool) {
	if depth == 0 || bytes.IndexByte(raw, '_') < 0 || !oldNames(raw) {
		return raw, false
	}
	switch raw[0] {
	case '{':
		return camelObject(raw, depth)
	case '[':
		return camelList(raw, depth)
	}
	return raw, false
}

// oldNames reports whether a member of raw, at any depth, has a name that camelWord may change. Nearly every line of a
// session has an underscore in some value, and no such name: this costs a look at its quotes instead of decoding it.
func oldNames(raw []byte) bool {
	for {
		open := bytes.IndexByte(raw, '"')
		if open < 0 {
			return false
		}
		word, rest, ended := cutString(raw[open+1:])
		if !ended {
			return false
		}
		if raw = skipSpace(rest); len(raw) == 0 || raw[0] != ':' {
			continue
		}
		if bytes.IndexByte(word, '_') > 0 || bytes.IndexByte(word, '\\') >= 0 {
			return true
		}
	}
}

// cutString cuts behind the quote that ends a string.
func cutString(raw []byte) (word, rest []byte, ended bool) {
	for at := 0; ; at++ {
		quote := bytes.IndexByte(raw[at:], '"')
		if quote < 0 {
			return nil, nil, false
		}
		at += quote
		escapes := len(raw[:at]) - len(bytes.TrimRight(raw[:at], "\\"))
		if escapes%2 == 0 {
			return raw[:at], raw[at+1:], true
		}
	}
}

func camelObject(raw json.RawMessage, depth int) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw, false
	}
	changed := false
	for key, value := range members {
		name := camelWord(key)
		if slices.Contains(nested, name) {
			inner, other := camelTo(bytes.TrimSpace(value), depth-1)
			members[key] = inner
			changed = changed || other
			value = inner
		}
		if name == key {
			continue
		}
		changed = true
		delete(members, key)
		if _, there := members[name]; !there {
			members[name] = value
		}
	}
	return reencoded(raw, members, changed)
}

func camelList(raw json.RawMessage, depth int) (json.RawMessage, bool) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return raw, false
	}
	changed := false
	for i, value := range list {
		inner, other := camelTo(bytes.TrimSpace(value), depth-1)
		list[i] = inner
		changed = changed || other
	}
	return reencoded(raw, list, changed)
}

func reencoded(raw json.RawMessage, v any, changed bool) (json.RawMessage, bool) {
	if !changed {
		return raw, false
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw, false // can't be: it was decoded from JSON
	}
	return out, true
}

// camelWord gives commandExecution for command_execution. A leading underscore is part of the name (_meta).
func camelWord(word string) string {
	head, rest, found := strings.Cut(word, "_")
	if !found || head == "" {
		return word
	}
	var b strings.Builder
	b.WriteString(head)
	for part := range strings.SplitSeq(rest, "_") {
		for i, r := range part {
			if i == 0 {
				r = unicode.ToUpper(r)
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}
