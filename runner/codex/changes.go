package codex

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// patches keeps the file changes that have begun and not ended: a request to approve one names only its item. It is
// bounded both ways; a change whose approval was cancelled never ends.
type patches struct {
	order []string
	files map[string][]FileChange
}

const (
	patchesKept = 16
	patchLength = 128 << 10 // of all diffs of one item, in bytes
)

func patchKey(thread, item string) string { return thread + "/" + item }

func (k *patches) keep(thread, item string, changes []wireChange) {
	key := patchKey(thread, item)
	if k.files == nil {
		k.files = make(map[string][]FileChange)
	}
	if _, there := k.files[key]; !there {
		k.order = append(k.order, key)
	}
	k.files[key] = fileChanges(changes)
	if len(k.order) > patchesKept {
		delete(k.files, k.order[0])
		k.order = k.order[1:]
	}
}

func (k *patches) drop(thread, item string) {
	key := patchKey(thread, item)
	delete(k.files, key)
	k.order = slices.DeleteFunc(k.order, func(other string) bool { return other == key })
}

func (k *patches) of(thread, item string) []FileChange { return k.files[patchKey(thread, item)] }

// movedTo stands between the two paths of a file that is moved.
const movedTo = " → "

func fileChanges(changes []wireChange) []FileChange {
	left := patchLength
	out := make([]FileChange, 0, len(changes))
	for _, c := range changes {
		f := FileChange{Path: c.Path, Kind: c.Kind.Type}
		if c.Kind.Move != "" {
			f.Path += movedTo + c.Kind.Move
		}
		f.Diff = cut(c.Diff, left)
		left = max(0, left-len(c.Diff))
		out = append(out, f)
	}
	return out
}

// cut shortens a diff and says so.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "\n… the rest is not shown\n"
}

// oldChanges reads the files of applyPatchApproval, by path: {"type":"update","unified_diff":…}, or with the type as
// the one member around the rest.
func oldChanges(raw json.RawMessage) []FileChange {
	var files map[string]json.RawMessage
	if json.Unmarshal(raw, &files) != nil {
		return nil
	}
	changes := make([]wireChange, 0, len(files))
	for _, path := range slices.Sorted(maps.Keys(files)) {
		changes = append(changes, oldChange(path, files[path]))
	}
	return fileChanges(changes)
}

func oldChange(path string, raw json.RawMessage) wireChange {
	type change struct {
		Type    string `json:"type"`
		Content string `json:"content"`
		Diff    string `json:"unified_diff"`
		Move    string `json:"move_path"`
	}
	c := change{}
	var wrapped map[string]change
	// A member of another type is left out; the path and the type are what counts.
	if json.Unmarshal(raw, &c) != nil || c.Type == "" {
		if json.Unmarshal(raw, &wrapped) == nil && len(wrapped) == 1 {
			for kind, inner := range wrapped {
				c = inner
				c.Type = kind
			}
		}
	}
	return wireChange{Path: path, Kind: wireKind{Type: c.Type, Move: c.Move}, Diff: c.Diff + c.Content}
}
