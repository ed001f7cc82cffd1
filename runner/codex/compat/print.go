package compat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/schema"
)

// Print writes a schema as codex prints it into the folder out, which it makes: that of a codex which knows all that we
// say and need, and nothing else. The scripted app-server of tests and of the demo has no other.
func Print(out string) error {
	spoken := codex.Spoken()
	files := map[string]any{
		"ClientRequest": lists(spoken.Requests, saidShape), "ClientNotification": lists(spoken.Notifications, nil),
		"ServerRequest": lists(spoken.Served, readShape), "ServerNotification": lists(spoken.Notices, readShape),
	}
	for _, m := range spoken.Requests {
		files[nameOf(m.Method)+"Response"] = readShape(m)
	}
	for _, m := range spoken.Served {
		files[nameOf(m.Method)+"Response"] = saidShape(m)
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	for _, name := range sorted(files) {
		data, err := json.Marshal(files[name])
		if err == nil {
			err = os.WriteFile(filepath.Join(out, name+".json"), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type object = map[string]any

// nameOf is the method as a definition is called.
func nameOf(method string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(method, "/") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// lists is the schema of one kind of messages; shape gives that of a message's params.
func lists(messages []codex.Message, shape func(codex.Message) object) object {
	var all []any
	definitions := object{}
	for _, m := range messages {
		members := object{"method": object{"type": "string", "enum": []any{m.Method}}}
		if shape != nil {
			name := nameOf(m.Method) + "Params"
			definitions[name] = shape(m)
			members["params"] = object{"$ref": "#/definitions/" + name}
		}
		all = append(all, object{"type": "object", "required": []any{"method"}, "properties": members})
	}
	return object{"oneOf": all, "definitions": definitions}
}

// choices are the members of which an example shows one value of several.
var choices = sync.OnceValue(func() map[string]object {
	return map[string]object{
		"approvalPolicy": {"oneOf": []any{
			object{"type": "string", "enum": []any{"untrusted", "on-request", "never"}},
			object{
				"type": "object", "required": []any{"granular"}, "additionalProperties": false,
				"properties": object{"granular": object{"type": "object", "additionalProperties": object{"type": "boolean"}}},
			},
		}},
		"sandbox": {"type": "string", "enum": []any{"read-only", "workspace-write", "danger-full-access"}},
		"sandboxPolicy": {"oneOf": []any{
			policy("dangerFullAccess", nil),
			policy("readOnly", object{"networkAccess": object{"type": "boolean"}}),
			policy("externalSandbox", object{"networkAccess": object{"type": "string", "enum": []any{"restricted", "enabled"}}}),
			policy("workspaceWrite", object{
				"networkAccess": object{"type": "boolean"}, "writableRoots": object{"type": "array", "items": object{"type": "string"}},
				"excludeTmpdirEnvVar": object{"type": "boolean"}, "excludeSlashTmp": object{"type": "boolean"},
			}),
		}},
		"config": {"type": "object", "additionalProperties": true},
		// The shapes of forms and tools are their makers'.
		"content": {}, "inputSchema": {}, "answers": {"type": "object", "additionalProperties": true},
	}
})

func policy(kind string, members object) object {
	all := object{"type": object{"type": "string", "enum": []any{kind}}}
	for name, member := range members {
		all[name] = member
	}
	return object{"type": "object", "required": []any{"type"}, "properties": all}
}

// saidShape is the schema that the examples of a message fit, and what lies between them.
func saidShape(m codex.Message) object {
	shape := object{}
	for _, example := range m.Says {
		value, err := schema.Decode([]byte(example))
		if err != nil {
			panic(fmt.Sprintf("example of %s: %v", m.Method, err))
		}
		shape = both(shape, shapeOf("", value))
	}
	return shape
}

func shapeOf(name string, value any) object {
	if fixed, ok := choices()[name]; ok {
		return fixed
	}
	switch v := value.(type) {
	case string:
		return object{"type": "string"}
	case bool:
		return object{"type": "boolean"}
	case nil:
		return object{"type": "null"}
	case json.Number:
		return object{"type": "integer"}
	case []any:
		items := object{}
		for _, item := range v {
			items = both(items, shapeOf("", item))
		}
		return object{"type": "array", "items": items}
	case object:
		members := object{}
		for name, member := range v {
			members[name] = shapeOf(name, member)
		}
		return object{"type": "object", "properties": members}
	}
	return object{}
}

// both is a schema that takes what either takes.
func both(a, b object) object {
	inA, okA := a["properties"].(object)
	inB, okB := b["properties"].(object)
	switch {
	case len(a) == 0:
		return b
	case okA && okB:
		members := object{}
		for name, member := range inA {
			members[name] = member
		}
		for name, member := range inB {
			if other, there := members[name].(object); there {
				members[name] = both(other, member.(object))
			} else {
				members[name] = member
			}
		}
		return object{"type": "object", "properties": members}
	case schema.New(a).String() == schema.New(b).String():
		return a
	}
	return object{"anyOf": []any{a, b}}
}

// readShape is the schema of what has the members that we read of a message.
func readShape(m codex.Message) object {
	shape := object{"type": "object", "properties": object{}}
	for _, member := range m.Reads {
		leaf := object{}
		if member.Type != "" {
			leaf["type"] = member.Type
		}
		if member.Words != nil {
			leaf["enum"] = append([]any{"inProgress"}, anys(member.Words)...)
		}
		at := shape["properties"].(object)
		steps := strings.Split(member.Path, ".")
		for _, step := range steps[:len(steps)-1] {
			name, kind, ofKind := strings.Cut(strings.TrimSuffix(step, ")"), "(")
			name, items := strings.CutSuffix(name, "[]")
			at = descend(at, name, items)
			if ofKind {
				at["type"] = object{"type": "string"}
				at = variant(at, kind)
			}
		}
		if last := steps[len(steps)-1]; at[last] == nil {
			at[last] = leaf
		}
	}
	lift(shape)
	return shape
}

// variantsKey holds, while a schema is made, the kinds of objects that a member may be.
const variantsKey = "\x00kinds"

// descend gives the members of one that is an object, or a list of them.
func descend(members object, name string, items bool) object {
	sub, ok := members[name].(object)
	if !ok {
		sub = object{"type": "object", "properties": object{}}
		members[name] = sub
		if items {
			members[name] = object{"type": "array", "items": sub}
		}
	} else if items {
		sub = sub["items"].(object)
	}
	return sub["properties"].(object)
}

func variant(members object, kind string) object {
	all, ok := members[variantsKey].(object)
	if !ok {
		all = object{}
		members[variantsKey] = all
	}
	if all[kind] == nil {
		all[kind] = object{"type": object{"type": "string", "enum": []any{kind}}}
	}
	return all[kind].(object)
}

// lift turns the kinds that were gathered into choices.
func lift(shape object) {
	members, ok := shape["properties"].(object)
	if !ok {
		return
	}
	if kinds, ok := members[variantsKey].(object); ok {
		delete(members, variantsKey)
		var all []any
		for _, kind := range sorted(kinds) {
			all = append(all, object{"type": "object", "properties": kinds[kind]})
		}
		// Of any other kind nothing is read but what all have.
		shape["anyOf"] = append(all, object{"type": "object"})
	}
	for _, member := range members {
		if sub, ok := member.(object); ok {
			lift(sub)
		}
	}
}

func anys(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}
