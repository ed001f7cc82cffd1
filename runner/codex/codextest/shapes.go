package codextest

import (
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

//go:embed shapes.json
var shapesJSON []byte

// shapes are codex's objects with the members that are always the same here.
var shapes = func() (all map[string]json.RawMessage) {
	if err := json.Unmarshal(shapesJSON, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
}()

// shape is one of codex's objects with these members.
func shape(name string, members object) object {
	out := object{}
	if err := json.Unmarshal(shapes[name], &out); err != nil {
		panic(err) // as above
	}
	maps.Copy(out, members)
	return out
}

// newItem is an item of this type.
func newItem(kind string, members object) object {
	item := shape(kind, members)
	item["type"] = kind
	return item
}

func commandItem(line, cwd string) object {
	quoted := "'" + strings.ReplaceAll(line, "'", `'\''`) + "'"
	return newItem("commandExecution", object{
		"command": "/bin/bash -lc " + quoted, "cwd": cwd, "commandActions": []object{{"type": "unknown", "command": line}},
	})
}

func fileItem(path, text string) object {
	return newItem("fileChange", object{"changes": []object{{"path": path, "kind": object{"type": "add"}, "diff": text + "\n"}}})
}

// usageShape gives plausible shares to cached and reasoning tokens.
func usageShape(u tokens) object {
	return object{
		"totalTokens": u.Input + u.Output, "inputTokens": u.Input, "cachedInputTokens": u.Input / 4, "cacheWriteInputTokens": 0,
		"outputTokens": u.Output, "reasoningOutputTokens": u.Output / 5,
	}
}

func now() int64 { return time.Now().UnixMilli() }

// newID is an id in the form of codex's.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
