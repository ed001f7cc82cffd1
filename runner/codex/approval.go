package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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

// toolAnswers answer whether a tool of an MCP server may run. "always" is not offered: codex would write it into its
// configuration.
var toolAnswers = answers{
	once:    object{"action": "accept", "content": object{}, "_meta": nil},
	session: object{"action": "accept", "content": object{}, "_meta": object{"persist": "session"}},
	policy:  object{"action": "accept", "content": object{}, "_meta": object{"persist": "session"}},
	denied:  object{"action": "decline", "content": nil, "_meta": nil},
	ended:   object{"action": "cancel", "content": nil, "_meta": nil},
}

// permissionAnswers grant exactly what was asked for, without the members that are null, which an answer can't have.
func permissionAnswers(asked json.RawMessage) answers {
	var wanted map[string]map[string]any
	unmarshal(asked, &wanted)
	granted := object{}
	for name, fields := range wanted {
		if fields != nil {
			maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
			granted[name] = fields
		}
	}
	none := object{"permissions": object{}, "scope": "turn"}
	once := object{"permissions": granted, "scope": "turn"}
	return answers{once: once, session: object{"permissions": granted, "scope": "session"}, policy: once, denied: none, ended: none}
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
		s.askPerson(in, r, agent.EventApprovalRequested, line, func(d agent.Decision) (name, line string, answer object) {
			what := kindText(&r) + ": " + r.Summary
			switch {
			case d.Expired:
				return agent.EventRequestExpired, "no decision in time, denied: " + what, a.denied
			case !d.Approve:
				return agent.EventApprovalDenied, join("denied"+by(d)+": "+what, d.Reason), a.denied
			case d.ForSession:
				return agent.EventApprovalGranted, "approved" + by(d) + " for the session: " + what, a.session
			}
			return agent.EventApprovalGranted, "approved" + by(d) + ": " + what, a.once
		})
	default:
		s.reply(in, agent.EventApprovalRequired, line, a.ended) // first, because the turn is interrupted next
		s.failTurn(agent.CodeApprovalRequired, "the agent asks for approval: "+line)
	}
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

func withdrawnText(r *agent.Request) string {
	return "not decided any more: " + kindText(r) + ": " + r.Summary
}

// Lengths in characters: of a summary and a reason, and of the names of files in a summary.
const (
	summaryLength = 500
	filesLength   = 16 << 10
)

// newRequest holds what all kinds have.
func newRequest(p *params, kind agent.RequestKind, summary string) agent.Request {
	return agent.Request{
		Kind: kind, ThreadID: p.threadID(), TurnID: p.turnID(), ItemID: p.ItemID, Cwd: p.Cwd,
		Summary: summary, Reason: oneLine(p.Reason, summaryLength),
	}
}

func commandRequest(p *params) agent.Request {
	var command string
	if !isEmpty(p.Command) && json.Unmarshal(p.Command, &command) != nil {
		command = string(p.Command) // of an unknown shape
	}
	command = shellText(command)
	summary := cmp.Or(command, "a command that codex did not name")
	if p.Kind == "writeStdin" {
		summary = join("input to a running command", cmp.Or(command, "something that codex did not name"))
	}
	if n := p.NetworkApprovalContext; n != nil {
		summary = join(fmt.Sprintf("network access to %s (%s)", n.Host, n.Protocol), command)
	}
	r := newRequest(p, agent.RequestCommand, oneLine(summary, summaryLength))
	r.Command, r.OutsideSandbox = command, true
	if more := p.AdditionalPermissions; !isEmpty(more) {
		r.Permissions, r.Summary = more, join("with "+uncut(permissionsText(more)), r.Summary)
	}
	return r
}

func isEmpty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "[]", "{}"}, string(raw))
}

func permissionsRequest(p *params) agent.Request {
	r := newRequest(p, agent.RequestPermissions, uncut(permissionsText(p.Permissions)))
	r.Permissions = p.Permissions
	return r
}

// toolRequest reads codex's question whether a tool of an MCP server may run. Only _meta tells it from a form.
func toolRequest(p *params) (agent.Request, bool) {
	var meta struct {
		Kind   string          `json:"codex_approval_kind"`
		Tool   string          `json:"tool_name"`
		Params json.RawMessage `json:"tool_params"`
	}
	unmarshal(p.Meta, &meta)
	r := newRequest(p, agent.RequestPermissions, uncut(p.ServerName+"/"+meta.Tool+" "+string(meta.Params)))
	r.Server, r.Permissions, r.Reason = p.ServerName, p.Meta, oneLine(p.Message, summaryLength)
	r.OutsideSandbox = true // MCP servers run outside
	return r, meta.Kind == "mcp_tool_call"
}

// uncut is a text in one line. A yes is a yes to all of it.
func uncut(text string) string { return oneLine(text, len(text)+1) }

// permissionsText says in words what {"network":{"enabled":true},"fileSystem":{"write":["/opt"],…}} asks for. What there
// are no words for stays as it is, because all of it would be granted.
func permissionsText(raw json.RawMessage) string {
	var asked struct {
		Network    struct{ Enabled bool }
		FileSystem struct {
			Read, Write []string
			Entries     []struct {
				Access string
				Path   struct{ Type, Path, Pattern string }
			}
		}
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
		path := entry.Path.Path + entry.Path.Pattern
		if path == "" {
			return string(raw)
		}
		if part := entry.Access + " " + path; !slices.Contains(parts, part) { // entries repeat what read and write said
			parts = append(parts, part)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), string(raw))
}

// patchRequest reads the request to change files. What is changed stood in the item/started of the same item.
func (s *Session) patchRequest(p *params) agent.Request {
	s.mu.Lock()
	changes, turn := s.patches[p.threadID()+"/"+p.ItemID], s.lastTurn
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

// staysInside reports whether a patch writes only where the sandbox would let it, as far as the paths tell: below the
// directory of the turn, and not in what codex's sandbox keeps read-only there.
func staysInside(root string, changes []agent.FileChange) bool {
	for _, c := range changes {
		for _, path := range strings.Split(c.Path, movedTo) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(root, path)
			}
			rel, err := filepath.Rel(root, path)
			top, _, _ := strings.Cut(rel, string(filepath.Separator))
			if err != nil || !filepath.IsLocal(rel) || slices.Contains([]string{".git", ".codex", ".agents", ".aws"}, top) {
				return false
			}
		}
	}
	return root != "" && len(changes) > 0
}
