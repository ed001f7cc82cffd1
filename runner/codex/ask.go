package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

const filesLength = 16 << 10 // characters of the names of files in a summary

// newRequest returns a request with the fields that all kinds have.
func newRequest(p *params, kind agent.RequestKind, summary string) agent.Request {
	return agent.Request{
		Kind: kind, ThreadID: p.threadID(), ItemID: p.ItemID, Cwd: p.Cwd,
		Summary: summary, Reason: oneLine(p.Reason, summaryLength),
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

func commandRequest(p *params) approval {
	var command string
	var words []string
	switch {
	case isEmpty(p.Command) || json.Unmarshal(p.Command, &command) == nil:
	case json.Unmarshal(p.Command, &words) != nil: // a shape that we do not know: show it as it is
		command = string(p.Command)
	default: // in the first version of the protocol
		command = strings.Join(text.Map(words, text.ShellQuote), " ")
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
	r.Command = command
	r.OutsideSandbox = true
	targets := cwdTargets(p)
	if more := p.AdditionalPermissions; !isEmpty(more) {
		files := permissionTargets(more, p.Cwd)
		targets = append(targets, files...)
		r.Permissions = more
		r.Summary = join("with "+uncut(permissionsText(more, files)), r.Summary)
	}
	return approval{r, targets}
}

func isEmpty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "[]", "{}"}, string(raw))
}

func permissionsRequest(p *params) approval {
	files := permissionTargets(p.Permissions, p.Cwd)
	r := newRequest(p, agent.RequestPermissions, uncut(permissionsText(p.Permissions, files)))
	r.Permissions = p.Permissions
	return approval{r, append(cwdTargets(p), files...)}
}

// toolInMessage finds the tool in Allow the SERVER MCP server to run tool "TOOL"?
var toolInMessage = text.Pattern(`run tool "(.+)"`)

// toolRequest reads codex's question whether a tool of an MCP server may run, false if it is a
// form. Only _meta tells.
func toolRequest(p *params) (agent.Request, bool) {
	var meta struct {
		Kind   string          `json:"codex_approval_kind"`
		Tool   string          `json:"tool_name"`
		Params json.RawMessage `json:"tool_params"`
	}
	unmarshal(p.Meta, &meta)
	if named := toolInMessage().FindStringSubmatch(p.Message); meta.Tool == "" && named != nil {
		meta.Tool = named[1] // up to codex 0.166
	}
	r := newRequest(p, agent.RequestPermissions, uncut(p.ServerName+"/"+meta.Tool+" "+string(meta.Params)))
	r.Server = p.ServerName
	r.Permissions = p.Meta
	r.Reason = oneLine(p.Message, summaryLength)
	r.OutsideSandbox = true // MCP servers run outside the sandbox
	return r, meta.Kind == "mcp_tool_call"
}

// uncut folds a text into one line without cutting it, because an approval grants all of it.
func uncut(text string) string { return oneLine(text, len(text)+1) }

// permissions are those that codex asks for, such as
// {"network":{"enabled":true},"fileSystem":{"write":["/opt"],…}}.
type permissions struct {
	Network    struct{ Enabled bool }
	FileSystem struct {
		Read, Write []string
		Entries     []struct {
			Access string
			Path   struct{ Type, Path, Pattern string }
		}
	}
}

// readPermissions reads permissions. known is false if it does not know a part of them.
func readPermissions(raw json.RawMessage) (p permissions, known bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&p) == nil {
		return p, true
	}
	p = permissions{}
	unmarshal(raw, &p)
	return p, false
}

// files calls found with each path and its access. Entries repeat what is in Read and Write.
func (p *permissions) files(found func(access, path string)) {
	for _, path := range p.FileSystem.Read {
		found("read", path)
	}
	for _, path := range p.FileSystem.Write {
		found("write", path)
	}
	for _, entry := range p.FileSystem.Entries {
		found(entry.Access, entry.Path.Path+entry.Path.Pattern)
	}
}

// permissionsText describes permissions for files. If it does not know a part of them it
// returns the JSON, because an approval grants all of it.
func permissionsText(raw json.RawMessage, files []target) string {
	asked, known := readPermissions(raw)
	var parts []string
	if asked.Network.Enabled {
		parts = append(parts, "network")
	}
	i := 0
	asked.files(func(access, path string) {
		known = known && path != ""
		part := access + " " + path + files[i].leadsTo()
		i++
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	})
	if !known {
		return string(raw)
	}
	return cmp.Or(strings.Join(parts, ", "), string(raw))
}

// patchRequest reads a request to change files. The changes come from the item/started of the
// same item.
func patchRequest(p *params, changes []agent.FileChange, turn agent.TurnParams) approval {
	var names []string
	var files []target
	for _, c := range changes {
		name := c.Kind + " " + c.Path
		for _, t := range changeTargets(turn.Cwd, c) {
			name += t.leadsTo()
			files = append(files, t)
		}
		names = append(names, name)
	}
	targets := append(cwdTargets(p), files...)
	summary := cmp.Or(strings.Join(names, ", "), "files that codex did not name")
	if p.GrantRoot != "" {
		root := findTarget(accessChange, within(turn.Cwd, p.GrantRoot))
		targets = append(targets, root)
		summary += " (and more below " + p.GrantRoot + root.leadsTo() + ")"
	}
	r := newRequest(p, agent.RequestFileChange, oneLine(summary, filesLength))
	r.Changes = changes
	r.GrantRoot = p.GrantRoot
	// Under the policy untrusted codex asks about every patch, under the others only if the
	// sandbox would refuse it. A reason is codex's own question, such as "command failed;
	// retry without sandbox?".
	asksAll := string(turn.ApprovalPolicy) == `"untrusted"`
	r.OutsideSandbox = !asksAll || p.GrantRoot != "" || p.Reason != "" || !staysInside(turn.Cwd, files)
	return approval{r, targets}
}

// grantKey identifies what an approval for the session covers: the same command, or the same
// files, in the same places.
func (a approval) grantKey() string {
	var key []string
	for _, t := range a.targets {
		key = append(key, t.access, t.place.Path)
	}
	key = append(
		key,
		string(a.Kind),
		a.ThreadID,
		a.Summary,
		a.Command,
		string(a.Permissions),
		strconv.FormatBool(a.OutsideSandbox),
	)
	for _, c := range a.Changes {
		key = append(key, c.Kind, c.Path)
	}
	return fmt.Sprintf("%q", key)
}

// questionsRequest reads item/tool/requestUserInput.
func questionsRequest(p *params) agent.Request {
	r := newRequest(p, agent.RequestQuestion, "")
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
	r.Summary = oneLine(
		cmp.Or(strings.TrimPrefix(r.Summary, " / "), "a question without text"),
		summaryLength,
	)
	return r
}

// form is a form of an MCP server. A form without fields asks for agreement.
type form []field

// field is one member of requestedSchema with its question to the operator.
type field struct {
	agent.Question
	kind string // string, boolean, integer, number, or array
}

// value returns the value that an option of the field stands for.
func (f *field) value(o agent.Option) string {
	if f.kind == "boolean" {
		return strconv.FormatBool(o.Label == "Yes")
	}
	return cmp.Or(o.Description, o.Label)
}

const agreed = "agreed" // the id of the only question of a form without fields

var yesNo = []agent.Option{{Label: "Yes"}, {Label: "No"}}

// readForm reads a form. An error is the reason why it can't be shown to an operator.
func readForm(p *params) (form, error) {
	switch p.Mode {
	case "", "form", "openai/form", "openaiForm":
	case "url":
		return nil, errors.New("it wants to open a web page (" + oneLine(p.URL, 100) + ")")
	default:
		return nil, fmt.Errorf("it has the unknown mode %q", oneLine(p.Mode, 40))
	}
	var schema struct {
		Type       string
		Properties map[string]json.RawMessage
		Required   []string
	}
	if json.Unmarshal(p.RequestedSchema, &schema) != nil || schema.Type != "object" {
		return nil, errors.New("its form can't be read")
	}
	var out form
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		f, ok := readField(name, schema.Properties[name])
		if !ok {
			return nil, fmt.Errorf("its field %q can't be read", oneLine(name, 40))
		}
		if f.Optional = !slices.Contains(schema.Required, name); f.Optional {
			f.Text += " (optional)"
		}
		out = append(out, f)
	}
	return out, nil
}

// readField reads a field, false if its type is unknown. Options are in enum, in oneOf with
// titles, or in items of an array.
func readField(name string, raw json.RawMessage) (f field, ok bool) {
	type titled struct{ Const, Title string }
	var w struct {
		Type, Title, Description string
		Enum, EnumNames          []string
		OneOf                    []titled
		Items                    struct {
			Enum  []string
			AnyOf []titled
		}
	}
	if json.Unmarshal(raw, &w) != nil {
		return field{}, false
	}
	f.kind = w.Type
	f.ID = name
	f.Header = cmp.Or(w.Title, name)
	f.Text = cmp.Or(w.Description, w.Title, name)
	choices := slices.Concat(w.OneOf, w.Items.AnyOf)
	for i, value := range slices.Concat(w.Enum, w.Items.Enum) {
		c := titled{Const: value}
		if i < len(w.EnumNames) {
			c.Title = w.EnumNames[i]
		}
		choices = append(choices, c)
	}
	for _, c := range choices {
		o := agent.Option{Label: cmp.Or(c.Title, c.Const)}
		if o.Label != c.Const {
			o.Description = c.Const
		}
		f.Options = append(f.Options, o)
	}
	switch f.kind {
	case "string":
	case "boolean":
		f.Options = yesNo
	case "integer", "number":
		f.Type = f.kind
	case "array":
		f.Several = true
		f.Text += " (one or several)"
	default:
		return field{}, false
	}
	return f, !f.Several || len(f.Options) > 0
}

func (f form) questions() []agent.Question {
	if len(f) == 0 {
		return []agent.Question{{ID: agreed, Text: "Agree?", Options: yesNo}}
	}
	return text.Map(f, func(one field) agent.Question { return one.Question })
}

// content returns the answers with the types of the form. Optional fields without an answer
// are left out.
func (f form) content(given map[string][]string) (object, error) {
	out := object{}
	if len(f) == 0 && !strings.EqualFold(strings.Join(given[agreed], ""), "yes") {
		return nil, errors.New("not agreed to")
	}
	for i := range f {
		texts := given[f[i].ID]
		if len(texts) == 0 && f[i].Optional {
			continue
		}
		value, err := f[i].answer(texts)
		if err != nil {
			return nil, err
		}
		out[f[i].ID] = value
	}
	return out, nil
}

// answer returns the answer to one field with the field's type.
func (f *field) answer(texts []string) (any, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("no answer to %q", f.ID)
	}
	var chosen []string
	for _, text := range texts {
		for _, o := range f.Options {
			if strings.EqualFold(strings.TrimSpace(text), o.Label) || text == f.value(o) {
				chosen = append(chosen, f.value(o))
				break
			}
		}
	}
	if len(f.Options) > 0 && len(chosen) != len(texts) || len(chosen) > 1 && !f.Several {
		return nil, fmt.Errorf("the answer to %q is not one of the options", f.ID)
	}
	text := strings.TrimSpace(strings.Join(texts, " "))
	switch {
	case f.Several:
		return chosen, nil
	case f.kind == "boolean":
		return chosen[0] == "true", nil
	case len(chosen) == 1:
		return chosen[0], nil
	case f.kind == "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	case f.kind == "number":
		if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n, nil
		}
	default:
		return strings.Join(texts, " "), nil
	}
	return nil, fmt.Errorf("the answer to %q is not of type %s", f.ID, f.kind)
}
