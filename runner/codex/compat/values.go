package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/runner/codex/schema"
)

// The keys of the workflow whose values codex judges.
const (
	KeyApprovalPolicy    = "codex.approval_policy"
	KeyThreadSandbox     = "codex.thread_sandbox"
	KeyTurnSandboxPolicy = "codex.turn_sandbox_policy"
)

// passed are these keys with the member that they are passed through in.
var passed = []struct{ key, method, member string }{
	{KeyApprovalPolicy, "turn/start", "approvalPolicy"},
	{KeyThreadSandbox, "thread/start", "sandbox"},
	{KeyTurnSandboxPolicy, "turn/start", "sandboxPolicy"},
}

// Allowed holds, by key, the schema of the values that codex takes. A key that is not in it takes anything.
type Allowed map[string]map[string]any

// allowed takes the three schemas out of what codex has printed.
func allowed(p printed) Allowed {
	out := Allowed{}
	for _, pass := range passed {
		rules, known := p.requests[pass.method].Member(pass.member)
		if !known {
			continue
		}
		if rule, ok := rules[0].Compact().(map[string]any); ok {
			out[pass.key] = rule
		}
	}
	return out
}

// Values are the words that a key may have; of an object in their place its name. For the turn's sandbox policy they are
// those of its type.
func (a Allowed) Values(key string) []string {
	rule := schema.New(a[key])
	if words := rule.Words(); len(words) > 0 {
		return words
	}
	kinds, _ := rule.Member("type")
	return schema.WordsOf(kinds)
}

// Wrong is a value that codex does not take, or does not look at.
type Wrong struct {
	Key     string // of the workflow
	Message string // begins with the key, or with a member of its value
	// Ignored: codex looks at the rest and overlooks this.
	Ignored bool
}

// Wrong lists what this codex does not take of the values of a workflow, given by key as JSON. Of an unchecked codex
// nothing is known.
func (r Report) Wrong(values map[string]json.RawMessage) []Wrong {
	var list []Wrong
	for _, pass := range passed {
		raw, rule := values[pass.key], r.Allowed[pass.key]
		if raw == nil || rule == nil {
			continue
		}
		value, err := schema.Decode(raw)
		if err != nil {
			continue // the workflow has made it JSON
		}
		for _, problem := range schema.New(rule).Check(value) {
			if problem.At == "" && respelled(value, problem) {
				continue
			}
			list = append(list, r.wrong(pass.key, value, problem))
		}
	}
	return list
}

func (r Report) wrong(key string, value any, p schema.Problem) Wrong {
	w := Wrong{Key: key, Ignored: p.Kind == schema.Unknown}
	at := key
	if p.At != "" {
		at += "." + p.At
	}
	got := show(memberAt(value, p.At))
	switch {
	case w.Ignored:
		w.Message = fmt.Sprintf("%s: %s does not know it, and overlooks it", at, r.Name())
	case p.Kind == schema.Missing:
		w.Message = fmt.Sprintf("%s is missing, which %s wants", at, r.Name())
		if words := schema.WordsOf(schema.New(r.Allowed[key]).Find(p.At)); len(words) > 0 {
			w.Message += "; it allows " + strings.Join(words, ", ")
		}
	case p.Kind == schema.Value:
		w.Message = fmt.Sprintf("%s: %s is unknown to %s; it allows %s", at, got, r.Name(), p.Want)
	case p.At == "" && len(r.Allowed.Values(key)) > 0 && r.words(key):
		w.Message = fmt.Sprintf("%s: %s is unknown to %s; it allows %s", at, got, r.Name(), strings.Join(r.Allowed.Values(key), ", "))
	default:
		w.Message = fmt.Sprintf("%s: %s is no %s, which %s wants", at, got, p.Want, r.Name())
	}
	return w
}

// words reports whether the key's values are words.
func (r Report) words(key string) bool { return len(schema.New(r.Allowed[key]).Words()) > 0 }

// memberAt is the member of a decoded value that a path of schema.Problem leads to, nil if there is none.
func memberAt(value any, path string) any {
	for step := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		if step == "" {
			continue
		}
		if object, ok := value.(map[string]any); ok {
			value = object[step]
			continue
		}
		list, _ := value.([]any)
		i, err := strconv.Atoi(strings.Trim(step, "[]"))
		if err != nil || i >= len(list) {
			return nil
		}
		value = list[i]
	}
	return value
}

// longestValue is where a value is cut in a message, in characters.
const longestValue = 80

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "it"
	}
	return shortened(string(text), longestValue)
}

func shortened(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
