package codextest

import (
	"crypto/rand"
	_ "embed"
	"encoding/binary"
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

// newID is an id as codex makes them: a UUID of version 7.
func newID() string {
	var b [16]byte
	rand.Read(b[6:]) // never fails
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], uint64(now()))
	copy(b[:6], t[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
