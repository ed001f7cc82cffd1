package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
)

// answers are those that a request for approval can get, in its own shape.
type answers struct {
	once, session object
	policy        object // what ApprovalApprove answers: once or session
	denied        object
	ended         object // denies, and ends the turn where the shape can say so
}

var itemAnswers = answers{
	once: object{"decision": "accept"}, session: object{"decision": "acceptForSession"}, policy: object{"decision": "acceptForSession"},
	denied: object{"decision": "decline"}, ended: object{"decision": "cancel"},
}

// permissionAnswers grant exactly what was asked for, or nothing.
func permissionAnswers(asked json.RawMessage) answers {
	none := object{"permissions": object{}, "scope": "turn"}
	once := object{"permissions": grant(asked), "scope": "turn"}
	return answers{once: once, session: object{"permissions": grant(asked), "scope": "session"}, policy: once, denied: none, ended: none}
}

// grant is what was asked for without the members that are null, which an answer can't have.
func grant(asked json.RawMessage) object {
	var wanted struct {
		Network    map[string]any `json:"network"`
		FileSystem map[string]any `json:"fileSystem"`
	}
	unmarshal(asked, &wanted)
	out := object{}
	for name, fields := range map[string]map[string]any{"network": wanted.Network, "fileSystem": wanted.FileSystem} {
		if fields == nil {
			continue
		}
		for k, v := range fields {
			if v == nil {
				delete(fields, k)
			}
		}
		out[name] = fields
	}
	return out
}

// toolAnswers answer whether a tool of an MCP server may run. "always" is not offered: codex would write it into its
// configuration.
var toolAnswers = answers{
	once:    object{"action": "accept", "content": object{}, "_meta": nil},
	session: object{"action": "accept", "content": object{}, "_meta": object{"persist": "session"}},
	policy:  object{"action": "accept", "content": object{}, "_meta": object{"persist": "session"}},
	denied:  object{"action": "decline", "content": nil, "_meta": nil},
	ended:   object{"action": "cancel", "content": nil, "_meta": nil},
}

// serveApproval answers a request for approval by the policy, or passes it to a person.
func (s *Session) serveApproval(in *incoming, r agent.Request, a answers) {
	line := join("approve "+kindText(&r), r.Summary)
	if r.OutsideSandbox {
		line += " (outside the sandbox)"
	}
	line = join(line, r.Reason)
	switch s.o.OnApproval {
	case agent.ApprovalApprove:
		s.reply(in, agent.EventApprovalAutoApproved, line, a.policy)
	case agent.ApprovalDeny:
		s.reply(in, agent.EventApprovalDenied, line, a.denied)
	case agent.ApprovalAsk:
		s.askPerson(in, r, agent.EventApprovalRequested, line, func(d agent.Decision) (string, string, object) { return judgeApproval(&r, d, a) })
	default:
		s.reply(in, agent.EventApprovalRequired, line, a.ended) // first, because the turn is interrupted next
		s.failTurn(&agent.Error{Code: agent.CodeApprovalRequired, Message: oneLine("the agent asks for approval: "+line, errorLength)})
	}
}

func judgeApproval(r *agent.Request, d agent.Decision, a answers) (name, line string, answer object) {
	what := kindText(r) + ": " + r.Summary
	switch {
	case d.Expired:
		return agent.EventRequestExpired, "no decision in time, denied: " + what, a.denied
	case !d.Approve:
		return agent.EventApprovalDenied, join("denied"+by(d)+": "+what, d.Reason), a.denied
	case d.ForSession:
		return agent.EventApprovalGranted, "approved" + by(d) + " for the session: " + what, a.session
	}
	return agent.EventApprovalGranted, "approved" + by(d) + ": " + what, a.once
}

func by(d agent.Decision) string {
	if d.By == "" {
		return ""
	}
	return " by " + d.By
}

// kindText names the kind of a request for people.
func kindText(r *agent.Request) string {
	switch {
	case r.Kind == agent.RequestPermissions && r.Server != "":
		return "MCP tool"
	case r.Kind == agent.RequestFileChange:
		return "file changes"
	}
	return string(r.Kind)
}

// Lengths in characters: of a summary and a reason, and of the names of files in a summary.
const (
	summaryLength = 500
	filesLength   = 16 << 10
)

// newRequest holds what all kinds have.
func newRequest(p *params, kind agent.RequestKind, summary string) agent.Request {
	return agent.Request{
		Kind: kind, ThreadID: p.threadID(), TurnID: p.turnID(), ItemID: p.ItemID,
		Summary: summary, Reason: oneLine(p.Reason, summaryLength),
	}
}

func commandRequest(p *params) agent.Request {
	command := string(p.Command) // of an unknown shape, unless it is a text
	var text string
	if isEmpty(p.Command) {
		command = ""
	} else if json.Unmarshal(p.Command, &text) == nil {
		command = shellText(text)
	}
	summary := cmp.Or(command, "a command that codex did not name")
	if p.Kind == "writeStdin" {
		summary = join("input to a running command", cmp.Or(command, "something that codex did not name"))
	}
	if p.Network != nil {
		summary = join(fmt.Sprintf("network access to %s (%s)", p.Network.Host, p.Network.Protocol), command)
	}
	r := newRequest(p, agent.RequestCommand, oneLine(summary, summaryLength))
	r.Command, r.Cwd, r.OutsideSandbox = command, p.Cwd, true
	if !isEmpty(p.Additional) {
		r.Permissions, r.Summary = p.Additional, join("with "+uncut(permissionsText(p.Additional)), r.Summary)
	}
	return r
}

func isEmpty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "[]", "{}"}, string(raw))
}

func permissionsRequest(p *params) agent.Request {
	r := newRequest(p, agent.RequestPermissions, uncut(permissionsText(p.Permissions)))
	r.Permissions, r.Cwd = p.Permissions, p.Cwd
	return r
}

// uncut is a text in one line. A yes is a yes to all of it.
func uncut(text string) string { return oneLine(text, len(text)+1) }

// permissionsText says in words what {"network":{"enabled":true},"fileSystem":{"write":["/opt"],…}} asks for. What there
// are no words for stays as it is, because all of it would be granted.
func permissionsText(raw json.RawMessage) string {
	var asked struct {
		Network struct {
			Enabled bool `json:"enabled"`
		} `json:"network"`
		FileSystem struct {
			Read    []string `json:"read"`
			Write   []string `json:"write"`
			Entries []struct {
				Access string          `json:"access"`
				Path   json.RawMessage `json:"path"`
			} `json:"entries"`
		} `json:"fileSystem"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&asked) != nil {
		return string(raw)
	}
	var parts []string
	if asked.Network.Enabled {
		parts = append(parts, "network")
	}
	for _, path := range asked.FileSystem.Read {
		parts = append(parts, "read "+path)
	}
	for _, path := range asked.FileSystem.Write {
		parts = append(parts, "write "+path)
	}
	for _, entry := range asked.FileSystem.Entries {
		part := entry.Access + " " + pathText(entry.Path)
		if !slices.Contains(parts, part) { // entries repeat what read and write said
			parts = append(parts, part)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), string(raw))
}

// pathText reads {"type":"path","path":"/a"} and {"type":"glob_pattern","pattern":"*"}.
func pathText(raw json.RawMessage) string {
	var place struct {
		Path    string `json:"path"`
		Pattern string `json:"pattern"`
	}
	unmarshal(raw, &place)
	return cmp.Or(place.Path+place.Pattern, string(raw))
}

// patchRequest reads the request to change files. What is changed stood in the item/started of the same item.
func (s *Session) patchRequest(p *params) agent.Request {
	s.mu.Lock()
	changes, turn := s.patches.of(p.threadID(), p.ItemID), s.lastTurn
	s.mu.Unlock()
	names := make([]string, 0, len(changes))
	for _, c := range changes {
		names = append(names, c.Kind+" "+c.Path)
	}
	summary := cmp.Or(strings.Join(names, ", "), "files that codex did not name")
	if p.GrantRoot != "" {
		summary += " (and more below " + p.GrantRoot + ")"
	}
	r := newRequest(p, agent.RequestFileChange, oneLine(summary, filesLength))
	r.Changes, r.GrantRoot = changes, p.GrantRoot
	// The policy untrusted asks about every patch; under the others codex asks because the sandbox would refuse. A reason
	// is codex's own question, such as "command failed; retry without sandbox?".
	asksAll := string(turn.ApprovalPolicy) == `"untrusted"`
	r.OutsideSandbox = !asksAll || p.GrantRoot != "" || p.Reason != "" || !staysInside(turn.Cwd, changes)
	return r
}

// staysInside reports whether a patch writes only where the sandbox would let it, as far as the paths tell.
func staysInside(root string, changes []agent.FileChange) bool {
	if root == "" || len(changes) == 0 {
		return false
	}
	for _, c := range changes {
		for _, path := range strings.Split(c.Path, movedTo) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(root, path)
			}
			rel, err := filepath.Rel(root, path)
			if err != nil || !filepath.IsLocal(rel) || isProtected(rel) {
				return false
			}
		}
	}
	return true
}

// isProtected reports a path of the workspace that codex's sandbox keeps read-only.
func isProtected(rel string) bool {
	top, _, _ := strings.Cut(rel, string(filepath.Separator))
	return slices.Contains([]string{".git", ".codex", ".agents", ".aws"}, top)
}

// patches keeps the file changes that have begun and not ended: a request to approve one names only its item. It is
// bounded, because a change whose approval was cancelled never ends.
type patches struct {
	order []string
	files map[string][]agent.FileChange
}

const (
	maxPatches   = 16
	maxPatchSize = 128 << 10 // of all diffs of one item
)

func (k *patches) keep(thread, item string, changes []agent.FileChange) {
	key := thread + "/" + item
	if k.files == nil {
		k.files = make(map[string][]agent.FileChange)
	}
	if _, known := k.files[key]; !known {
		k.order = append(k.order, key)
	}
	left := maxPatchSize
	for i, c := range changes {
		if len(c.Diff) > left {
			changes[i].Diff = strings.ToValidUTF8(c.Diff[:left], "") + "\n… the rest is not shown\n"
		}
		left = max(0, left-len(c.Diff))
	}
	k.files[key] = changes
	if len(k.order) > maxPatches {
		delete(k.files, k.order[0])
		k.order = k.order[1:]
	}
}

func (k *patches) drop(thread, item string) {
	key := thread + "/" + item
	delete(k.files, key)
	k.order = slices.DeleteFunc(k.order, func(other string) bool { return other == key })
}

func (k *patches) of(thread, item string) []agent.FileChange { return k.files[thread+"/"+item] }
