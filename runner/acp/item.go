package acp

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// maxBody is how many bytes are kept of an output or of the change of a file: one edit of a
// file of 3 MB is a line of 6.5 MB.
const maxBody = 64 << 10

// Statuses of items.
const (
	statusCompleted = "completed"
	statusFailed    = "failed"
)

// call is a call of a tool, put together from its updates, which contain only what changed.
type call struct {
	title   string
	kind    string
	server  string // the MCP server, "" for a tool of the agent
	started bool   // its start was told
	item    agent.Item
}

// size is roughly how many bytes a call has. The agent decides how many these are.
func (c *call) size() int {
	const ofChange = 64 // without its texts
	i := &c.item
	n := len(c.title) + len(c.kind) + len(c.server)
	n += len(i.ID) + len(i.Status) + len(i.Tool) + len(i.Command) + len(i.Cwd)
	for _, change := range i.Changes {
		n += ofChange + len(change.Path) + len(change.Diff)
	}
	return n
}

// itemKinds are the kinds of items by the kinds of tools. Others are agent.ItemOther.
var itemKinds = map[string]agent.ItemKind{
	"execute": agent.ItemCommand,
	"edit":    agent.ItemFileChange,
	"delete":  agent.ItemFileChange,
	"move":    agent.ItemFileChange,
}

// merge adds an update to a call.
func (c *call) merge(k *kind, u *toolCall) {
	c.title = cmp.Or(u.label(), c.title)
	c.kind = cmp.Or(u.Kind, c.kind)
	i := &c.item
	i.ID = u.ToolCallID
	i.Status = cmp.Or(u.Status, i.Status)
	i.Kind = cmp.Or(itemKinds[c.kind], agent.ItemOther)
	named := *u
	named.Kind = cmp.Or(u.Kind, c.kind)
	if server, tool := k.tool.find(&named); tool != "" {
		c.server = server
		i.Tool = tool
		if server != toolsName {
			i.Tool = server + "/" + tool
		}
	}
	in := u.input()
	switch {
	case c.server == toolsName:
		i.Kind = agent.ItemTool
	case c.server != "":
		i.Kind = agent.ItemMCPTool
	case i.Kind == agent.ItemCommand:
		i.Command = cmp.Or(in.Command, i.Command)
		i.Cwd = cmp.Or(in.Cwd, i.Cwd)
	case i.Kind == agent.ItemFileChange:
		if changes := fileChanges(u, c.kind); len(changes) > 0 {
			i.Changes = changes
		}
	}
	if c.server != "" && len(u.RawInput) > len("{}") {
		i.Call = wire.Short(string(u.RawInput), summaryLength)
	}
	if u.Status == statusCompleted || u.Status == statusFailed {
		c.end(u)
	}
}

// end completes the item of a call that ended.
func (c *call) end(u *toolCall) {
	i := &c.item
	i.Ended = true
	output, exit := u.output()
	switch {
	case i.Kind == agent.ItemCommand:
		// some agents have the command only as the title
		i.Command = cmp.Or(i.Command, c.title)
		i.Output = cut(output)
		i.ExitCode = exit
	case i.Tool != "":
		i.Result = cut(output)
	case i.Kind == agent.ItemOther:
		i.Text = c.title
	}
}

// isKnown reports whether the call says what it does: agents announce a call before its input.
func (c *call) isKnown(u *toolCall) bool {
	switch {
	case c.item.Ended:
		return true
	case c.item.Kind == agent.ItemCommand:
		return c.item.Command != ""
	case c.item.Kind == agent.ItemFileChange:
		return len(c.item.Changes) > 0
	}
	return u.Status == "in_progress" || len(u.RawInput) > len("{}")
}

// start returns the item at the start of a call.
func (c *call) start() agent.Item {
	i := c.item
	i.Ended = false
	i.Status = ""
	i.Output = ""
	i.Result = ""
	i.ExitCode = nil
	if i.Kind == agent.ItemCommand {
		i.Command = cmp.Or(i.Command, c.title)
	}
	if i.Kind == agent.ItemOther {
		i.Text = c.title
	}
	return i
}

// line describes the call for an operator.
func (c *call) line(ended bool) string {
	i := &c.item
	state := "started"
	if ended {
		state = i.Status
	}
	if i.Kind == agent.ItemCommand {
		if ended && i.ExitCode != nil {
			state = fmt.Sprintf("exited %d", *i.ExitCode)
		}
		return "command " + state + ": " + cmp.Or(i.Command, c.title)
	}
	if i.Kind == agent.ItemFileChange {
		names := text.Map(i.Changes, func(c agent.FileChange) string { return path.Base(c.Path) })
		what := cmp.Or(strings.Join(names, ", "), c.title)
		return wire.Join(text.Plural(max(1, len(i.Changes)), "file change")+" "+state, what)
	}
	if i.Kind == agent.ItemTool {
		return "tool " + i.Tool + " " + state
	}
	if i.Kind == agent.ItemMCPTool {
		return "MCP tool " + i.Tool + " " + state
	}
	return wire.Join(cmp.Or(c.kind, "tool")+" "+state, c.title)
}

// fileChanges returns the changes of a call. kind is that of the call: delete and move say so.
func fileChanges(u *toolCall, kind string) (changes []agent.FileChange) {
	for _, content := range u.contents() {
		if content.Type != "diff" {
			continue
		}
		change := agent.FileChange{
			Path: content.Path,
			Kind: "update",
			Diff: cut(diff(content.OldText, content.NewText)),
		}
		switch {
		case kind == "delete":
			change.Kind = "delete"
		case content.OldText == "":
			change.Kind = "add"
		}
		changes = append(changes, change)
	}
	return changes
}

// diff returns the lines that differ, with - and + in front of them, without the equal lines
// around them.
func diff(before, after string) string {
	old := lines(before)
	now := lines(after)
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old = old[1:]
		now = now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old = old[:len(old)-1]
		now = now[:len(now)-1]
	}
	var b strings.Builder
	for _, line := range old {
		b.WriteString("-" + line + "\n")
	}
	for _, line := range now {
		b.WriteString("+" + line + "\n")
	}
	return b.String()
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// cut returns a text without its middle, if it is long.
func cut(s string) string {
	if len(s) <= maxBody {
		return s
	}
	begin := strings.ToValidUTF8(s[:maxBody/2], "")
	end := strings.ToValidUTF8(s[len(s)-maxBody/2:], "")
	return fmt.Sprintf("%s\n… %d bytes are left out …\n%s", begin, len(s)-maxBody, end)
}
