package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

const filesLength = 16 << 10 // characters of the names of files in a summary

// newRequest returns a request with the fields that all kinds have.
func newRequest(p demand, kind agent.RequestKind, summary string) agent.Request {
	return agent.Request{
		Kind:     kind,
		ThreadID: p.threadID(),
		ItemID:   p.itemID(),
		Cwd:      p.Cwd,
		Summary:  summary,
		Reason:   wire.Short(p.Reason, summaryLength),
	}
}

// kindText names the kind of a request for an operator.
func kindText(r *agent.Request) string {
	switch {
	case r.Kind == agent.RequestPermissions && r.Server != "":
		return "MCP tool"
	case r.Kind == agent.RequestFileChange:
		return "file changes"
	}
	return string(r.Kind)
}

// commandRequest reads a request to run a command, or to give input to a running command.
func commandRequest(p *commandAsked, place workplace) approval {
	command := shellText(commandText(p.Command))
	summary := cmp.Or(command, "a command that codex did not name")
	if p.Kind == "writeStdin" {
		summary = wire.Join("input to a running command", cmp.Or(command, "something that codex did not name"))
	}
	if n := p.NetworkApprovalContext; n != nil {
		summary = wire.Join(fmt.Sprintf("network access to %s (%s)", n.Host, n.Protocol), command)
	}
	r := newRequest(p.demand, agent.RequestCommand, wire.Short(summary, summaryLength))
	r.Command = command
	r.OutsideSandbox = true
	if isEmpty(p.AdditionalPermissions) {
		return newApproval(r, place, nil)
	}
	more := readPermissions(p.AdditionalPermissions, p.Cwd)
	r.Permissions = p.AdditionalPermissions
	r.Summary = wire.Join("with "+uncut(more.text()), r.Summary)
	return newApproval(r, place, more.files)
}

// commandText returns the command of a request: a text, or the words of the first version of
// the protocol. A shape that symphony does not know is shown as it is.
func commandText(raw json.RawMessage) string {
	if isEmpty(raw) {
		return ""
	}
	var command string
	if json.Unmarshal(raw, &command) == nil {
		return command
	}
	var words []string
	if json.Unmarshal(raw, &words) == nil {
		return strings.Join(text.Map(words, text.ShellQuote), " ")
	}
	return string(raw)
}

func isEmpty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "[]", "{}"}, string(raw))
}

// permissionsRequest reads a request for more than the sandbox permits.
func permissionsRequest(p *permissionsAsked, place workplace) approval {
	asked := readPermissions(p.Permissions, p.Cwd)
	r := newRequest(p.demand, agent.RequestPermissions, uncut(asked.text()))
	r.Permissions = p.Permissions
	return newApproval(r, place, asked.files)
}

// toolInMessage finds the tool in Allow the SERVER MCP server to run tool "TOOL"?
var toolInMessage = text.Pattern(`run tool "(.+)"`)

// toolRequest reads codex's question whether a tool of an MCP server may run: a form without
// fields, marked in _meta. isTool is false for another form.
func toolRequest(p *elicitation) (r agent.Request, isTool bool) {
	var meta struct {
		Kind   string          `json:"codex_approval_kind"`
		Tool   string          `json:"tool_name"`
		Params json.RawMessage `json:"tool_params"`
	}
	wire.Unmarshal(p.Meta, &meta)
	named := toolInMessage().FindStringSubmatch(p.Message)
	if meta.Tool == "" && named != nil { // up to codex 0.166
		meta.Tool = named[1]
	}
	var schema struct{ Properties map[string]json.RawMessage }
	err := json.Unmarshal(p.RequestedSchema, &schema)
	r = newRequest(p.demand, agent.RequestPermissions, uncut(p.ServerName+"/"+meta.Tool+" "+string(meta.Params)))
	r.Server = p.ServerName
	r.Permissions = p.Meta
	r.Reason = wire.Short(p.Message, summaryLength)
	r.OutsideSandbox = true // MCP servers run outside the sandbox
	return r, meta.Kind == "mcp_tool_call" && err == nil && len(schema.Properties) == 0
}

// uncut folds a text into a single line without cutting it, because an approval grants all of
// it.
func uncut(text string) string { return wire.Short(text, len(text)+1) }

// permissions are a request of codex, such as
// {"network":{"enabled":true},"fileSystem":{"write":["/opt"],…}}.
type permissions struct {
	raw     json.RawMessage
	known   bool // there is nothing else in raw
	network bool
	files   []target
}

// readPermissions reads permissions for files, whose paths may be relative to dir.
func readPermissions(raw json.RawMessage, dir string) permissions {
	var asked struct {
		Network    struct{ Enabled bool }
		FileSystem struct {
			Read, Write []string
			// they repeat the contents of Read and Write
			Entries []struct {
				Access string
				Path   struct{ Type, Path, Pattern string }
			}
		}
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	p := permissions{raw: raw, known: strict.Decode(&asked) == nil}
	if !p.known {
		wire.Unmarshal(raw, &asked)
	}
	p.network = asked.Network.Enabled
	for _, path := range asked.FileSystem.Read {
		p.files = append(p.files, findBelow("read", dir, path))
	}
	for _, path := range asked.FileSystem.Write {
		p.files = append(p.files, findBelow("write", dir, path))
	}
	for _, entry := range asked.FileSystem.Entries {
		p.files = append(p.files, findBelow(entry.Access, dir, entry.Path.Path+entry.Path.Pattern))
	}
	return p
}

// text describes the permissions, such as "network, write /opt". It is the JSON if a part of
// that is not known, because an approval grants all of it.
func (p permissions) text() string {
	var parts []string
	if p.network {
		parts = append(parts, "network")
	}
	for _, f := range p.files {
		if f.named == "" {
			return string(p.raw) // such as a path of a new type
		}
		part := f.access + " " + f.named + f.leadsTo()
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if !p.known || len(parts) == 0 {
		return string(p.raw)
	}
	return strings.Join(parts, ", ")
}

// patchRequest reads a request to change files. The changes come from the item/started of the
// same item.
func patchRequest(p *patchAsked, changes []agent.FileChange, place workplace) approval {
	var names []string
	var files []target
	for _, c := range changes {
		name := c.Kind + " " + c.Path
		for path := range strings.SplitSeq(c.Path, movedTo) {
			t := findBelow("change", place.dir.path, path)
			name += t.leadsTo()
			files = append(files, t)
		}
		names = append(names, name)
	}
	// Under the policy untrusted codex asks about every patch, under the others only if the
	// sandbox would refuse it. A reason is codex's own question, such as "command failed;
	// retry without sandbox?".
	outside := !place.asksAll || p.GrantRoot != "" || p.Reason != "" || !staysInside(place.dir, files)
	summary := cmp.Or(strings.Join(names, ", "), "files that codex did not name")
	if p.GrantRoot != "" {
		root := findBelow("change", place.dir.path, p.GrantRoot)
		files = append(files, root)
		summary += " (and more below " + p.GrantRoot + root.leadsTo() + ")"
	}
	r := newRequest(p.demand, agent.RequestFileChange, wire.Short(summary, filesLength))
	r.Changes = changes
	r.GrantRoot = p.GrantRoot
	r.OutsideSandbox = outside
	return newApproval(r, place, files)
}

// questionsRequest reads item/tool/requestUserInput.
func questionsRequest(p *inputAsked) agent.Request {
	r := newRequest(p.demand, agent.RequestQuestion, "")
	for _, q := range p.Questions {
		text := cmp.Or(q.Question, q.Header)
		r.Summary += " / " + text
		r.Questions = append(r.Questions, agent.Question{
			ID:      q.ID,
			Header:  q.Header,
			Text:    text,
			Options: q.Options,
			Other:   q.IsOther,
			Secret:  q.IsSecret,
		})
	}
	r.Summary = wire.Short(
		cmp.Or(strings.TrimPrefix(r.Summary, " / "), "a question without text"),
		summaryLength,
	)
	return r
}
