package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Approval says how requests for approval are answered (10.5, design 9).
type Approval int

const (
	// ApprovalApprove grants what is asked: commands and patches for the
	// session, permissions for the turn.
	ApprovalApprove Approval = iota
	// ApprovalDeny declines; the turn goes on without.
	ApprovalDeny
	// ApprovalFail declines and ends the turn with approval_required.
	ApprovalFail
	// ApprovalAsk leaves it to a person (Options.Ask).
	ApprovalAsk
)

// QuestionPolicy says what becomes of questions and of MCP servers' forms.
type QuestionPolicy int

const (
	// QuestionFail ends the turn with turn_input_required; forms are declined.
	QuestionFail QuestionPolicy = iota
	// QuestionAsk leaves both to a person (Options.Ask).
	QuestionAsk
)

// verdicts are the answers that one request for approval can get, in its own shape.
type verdicts struct {
	once, session object
	policy        object // once or session: what ApprovalApprove answers
	denied        func(reason string) object
	ended         object // denies, and ends the turn where the shape can say so
}

// itemVerdicts are those of commands and file changes.
func (s *Session) itemVerdicts() verdicts {
	session := object{"decision": "acceptForSession"}
	if s.olderThan(66) {
		session = object{"decision": "accept", "acceptSettings": object{"forSession": true}}
	}
	return verdicts{
		once: object{"decision": "accept"}, session: session, policy: session,
		denied: func(string) object { return object{"decision": "decline"} },
		ended:  object{"decision": "cancel"},
	}
}

// reviewVerdicts are those of the requests of other versions, the only ones that take a reason.
func reviewVerdicts() verdicts {
	session := object{"decision": "approved_for_session"}
	return verdicts{
		once: object{"decision": "approved"}, session: session, policy: session,
		denied: func(reason string) object { return object{"decision": object{"denied": object{"rejection": reason}}} },
		ended:  object{"decision": "abort"},
	}
}

// permissionVerdicts grant exactly what was asked for, or nothing.
func permissionVerdicts(asked json.RawMessage) verdicts {
	none := object{"permissions": object{}, "scope": "turn"}
	once := object{"permissions": grant(asked), "scope": "turn"}
	return verdicts{
		once: once, session: object{"permissions": grant(asked), "scope": "session"}, policy: once,
		denied: func(string) object { return none }, ended: none,
	}
}

// grant gives exactly what was asked for, without the members that ask for
// nothing: the answer's schema knows no null there.
func grant(asked json.RawMessage) object {
	out := object{}
	var members map[string]json.RawMessage
	if json.Unmarshal(asked, &members) != nil {
		return out // not an object: nothing intelligible was asked for
	}
	for _, name := range []string{"network", "fileSystem", "file_system"} {
		var fields map[string]any
		if json.Unmarshal(members[name], &fields) != nil || fields == nil {
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

// serveApproval answers a request for approval by the policy, or has a person answer it.
func (s *Session) serveApproval(m *message, e Event, a Ask, v verdicts) {
	e.Message = oneLine(a.line("approve "+a.what()), messageLength)
	switch s.o.OnApproval {
	case ApprovalApprove:
		e.Name = EventApprovalAutoApproved
		s.reply(m, e, v.policy)
	case ApprovalDeny:
		e.Name = EventApprovalDenied
		s.reply(m, e, v.denied("declined by symphony's configuration"))
	case ApprovalAsk:
		e.Name = EventApprovalRequested
		s.askPerson(m, e, a, func(d Decision) (name, message string, answer object) {
			return a.judge(d, v)
		})
	default:
		e.Name = EventApprovalRequired
		// The answer goes first, and then the interrupt of the turn. Its end is not seen before: this is the reader.
		s.reply(m, e, v.ended)
		s.fail(&Error{Code: CodeApprovalRequired, Message: oneLine("the agent asks for approval: "+e.Message, errorLength)})
	}
}

// judge gives the answer for a person's decision on an approval, and the event for it.
func (a *Ask) judge(d Decision, v verdicts) (name, message string, answer object) {
	what := a.what() + ": " + a.Summary
	switch {
	case d.Expired:
		return EventRequestExpired, "nobody decided in time, denied: " + what, v.denied("nobody decided in time")
	case !d.Approve:
		reason := d.Reason
		if reason == "" {
			reason = "declined by the operator"
		}
		return EventApprovalDenied, join("denied"+by(d)+": "+what, d.Reason), v.denied(reason)
	case d.ForSession:
		return EventApprovalGranted, "approved" + by(d) + " for the session: " + what, v.session
	}
	return EventApprovalGranted, "approved" + by(d) + ": " + what, v.once
}

func by(d Decision) string {
	if d.By == "" {
		return ""
	}
	return " by " + d.By
}

// what names the kind for people.
func (a *Ask) what() string {
	switch {
	case a.Kind == AskPermissions && a.Server != "":
		return "MCP tool"
	case a.Kind == AskFileChange:
		return "file changes"
	}
	return string(a.Kind)
}

// line is the Ask in one line after a lead.
func (a *Ask) line(lead string) string {
	text := join(lead, a.Summary)
	if a.OutsideSandbox {
		text += " (outside the sandbox)"
	}
	return join(text, a.Reason)
}

// commandAsk reads the request to run a command. Everything it asks for is said to run outside the sandbox; see
// the package's decisions.
func commandAsk(p *params) Ask {
	command := commandText(p.Command)
	if command == "" && !isNothing(p.Command) {
		command = string(p.Command) // of a shape that is not known
	}
	summary := cmp.Or(command, "a command that codex did not name")
	if p.Kind == "writeStdin" {
		summary = join("input to a running command", cmp.Or(command, "something that codex did not name"))
	}
	if p.Network != nil {
		summary = join(fmt.Sprintf("network access to %s (%s)", p.Network.Host, p.Network.Protocol), command)
	}
	a := p.ask(AskCommand, summary)
	a.Command, a.Cwd, a.OutsideSandbox = command, p.Cwd, true
	if !isNothing(p.Additional) {
		a.Permissions, a.Summary = p.Additional, join("with "+whole(permissionsText(p.Additional)), a.Summary)
	}
	return a
}

// nameCommand takes the command that is asked about from its item: other versions did not name it in the request.
func (s *Session) nameCommand(p *params) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil || !isNothing(p.Command) || p.Network != nil || p.Kind == "writeStdin" {
		return
	}
	item := s.turn.open[p.ItemID]
	command, err := json.Marshal(item.command)
	if err != nil {
		return // can't be: it was decoded from JSON
	}
	p.Command, p.Cwd = command, cmp.Or(p.Cwd, item.cwd)
}

// isNothing says that a member is absent or empty.
func isNothing(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "[]", "{}"}, string(raw))
}

func permissionsAsk(p *params) Ask {
	a := p.ask(AskPermissions, "")
	a.Summary, a.Permissions, a.Cwd = whole(permissionsText(p.Permissions)), p.Permissions, p.Cwd
	return a
}

// whole is a text in one line that is not cut: whoever says yes says it to all of it.
func whole(text string) string { return oneLine(text, len(text)+1) }

// ask is what all kinds share.
func (p *params) ask(kind AskKind, summary string) Ask {
	item := p.ItemID
	if item == "" {
		item = p.CallID
	}
	return Ask{
		Kind: kind, ThreadID: p.threadID(), TurnID: p.turnID(), ItemID: item,
		Summary: oneLine(summary, summaryLength), Reason: oneLine(p.Reason, summaryLength),
	}
}

// summaryLength is where Ask.Summary and Ask.Reason are cut, in characters: a person decides by them, and has a command
// whole beside its summary. filesLength is the same for the names of files.
const (
	summaryLength = 500
	filesLength   = 16 << 10
)

// permissionsText says in words what {"network":{"enabled":true},"fileSystem":{"write":["/opt"],…}} asks for. Where
// there is more than it has words for, the whole stands for itself: all of it would be granted.
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
	add := func(part string) {
		if !slices.Contains(parts, part) { // entries say again what read and write said
			parts = append(parts, part)
		}
	}
	if asked.Network.Enabled {
		add("network")
	}
	for _, path := range asked.FileSystem.Read {
		add("read " + path)
	}
	for _, path := range asked.FileSystem.Write {
		add("write " + path)
	}
	for _, entry := range asked.FileSystem.Entries {
		add(entry.Access + " " + placeText(entry.Path))
	}
	if len(parts) == 0 {
		return string(raw)
	}
	return strings.Join(parts, ", ")
}

// placeText reads {"type":"path","path":"/a"}, {"type":"glob_pattern","pattern":"*"} and what else may stand there.
func placeText(raw json.RawMessage) string {
	var place struct {
		Path    string `json:"path"`
		Pattern string `json:"pattern"`
	}
	if json.Unmarshal(raw, &place) == nil && place.Path+place.Pattern != "" {
		return place.Path + place.Pattern
	}
	return string(raw)
}

// changeAsk reads the request to change files; what is changed stood in the item/started of the same item.
func (s *Session) changeAsk(p *params) Ask {
	s.mu.Lock()
	changes := s.patches.of(p.threadID(), p.ItemID)
	s.mu.Unlock()
	return s.fileAsk(p, changes)
}

// patchAsk is changeAsk for other versions, whose request has the files.
func (s *Session) patchAsk(p *params) Ask { return s.fileAsk(p, oldChanges(p.FileChanges)) }

func (s *Session) fileAsk(p *params, changes []FileChange) Ask {
	names := make([]string, 0, len(changes))
	for _, c := range changes {
		names = append(names, c.Kind+" "+c.Path)
	}
	summary := strings.Join(names, ", ")
	if len(names) == 0 {
		summary = "files that codex did not name"
	}
	if p.GrantRoot != "" {
		summary += " (and more below " + p.GrantRoot + ")"
	}
	a := p.ask(AskFileChange, "")
	a.Summary, a.Changes, a.GrantRoot = oneLine(summary, filesLength), changes, p.GrantRoot
	// A reason is codex's own question: "command failed; retry without sandbox?".
	a.OutsideSandbox = p.GrantRoot != "" || p.Reason != "" || !s.staysInside(changes)
	return a
}

// staysInside says whether the policy of the turn asks about every patch (untrusted) and this one writes only where
// the sandbox would let it. Under the others a patch is asked about because the sandbox would not.
func (s *Session) staysInside(changes []FileChange) bool {
	s.mu.Lock()
	asksAll, root := s.asksAll, s.cwd
	s.mu.Unlock()
	if !asksAll || root == "" || len(changes) == 0 {
		return false
	}
	for _, c := range changes {
		for _, path := range strings.Split(c.Path, movedTo) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(root, path)
			}
			rel, err := filepath.Rel(root, path)
			if err != nil || !filepath.IsLocal(rel) || protected(rel) {
				return false
			}
		}
	}
	return true
}

// protected are the places of a workspace that its sandbox keeps read-only (PROTOCOL, section 12).
func protected(rel string) bool {
	top, _, _ := strings.Cut(rel, string(filepath.Separator))
	switch top {
	case ".git", ".codex", ".agents", ".aws":
		return true
	}
	return false
}
