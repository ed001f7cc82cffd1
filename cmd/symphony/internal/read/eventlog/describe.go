// Package eventlog reads the event logs of runs and describes each event in plain words. It
// prints nothing.
package eventlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Line is an event as shown to a reader, or the two events at the beginning and the end of a
// command.
type Line struct {
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`
	// Status is how a command, change or call ended; empty for other kinds.
	Status Status `json:"status,omitempty"`
	// DurationMS is how long a command or a call took, or takes until now, in milliseconds;
	// nil if that is unknown.
	DurationMS *int64 `json:"duration_ms,omitempty"`
	// Text consists of several lines if the agent's words or its command do.
	Text string `json:"text"`
	// Ending is why a command failed, such as "exit 2" or "declined".
	Ending string `json:"ending,omitempty"`
	// Detail is the whole output of a command, the whole text of a prompt, or the diff of a
	// change.
	Detail []string `json:"detail,omitempty"`
	// Turn is the number of the turn that a prompt begins.
	Turn int `json:"turn,omitempty"`
	// Minor marks a line that only a reader of everything wants, such as a count of tokens.
	Minor bool `json:"-"`
}

// Kind is the kind of a Line.
type Kind string

// The kinds of lines.
const (
	Words   Kind = "words" // of the agent
	Command Kind = "command"
	Change  Kind = "change" // of files
	Call    Kind = "call"   // of a tool
	Prompt  Kind = "prompt"
	Request Kind = "request" // an approval or a question, or its answer
	Fault   Kind = "fault"
	Note    Kind = "note" // everything else
	// Unknown is a line of the log that is not an event. It carries no time.
	Unknown Kind = "unknown"
)

// Status is how a command, change or call ended.
type Status string

// The statuses of lines.
const (
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Unended   Status = "unended" // its run ended first
)

// Mark is the sign in front of a line.
func (l Line) Mark() string {
	switch l.Status {
	case Running:
		return "…"
	case Succeeded:
		return "✓"
	case Failed, Unended:
		return "✗"
	}
	signs := map[Kind]string{Prompt: ">", Request: "?", Fault: "✗"}
	return cmp.Or(signs[l.Kind], "·")
}

// Reasoning is the agent's reasoning; empty for other lines.
func (l Line) Reasoning() string {
	said, found := strings.CutPrefix(l.Text, string(agent.ItemReasoning)+": ")
	if !found || !l.Minor || l.Kind != Note {
		return ""
	}
	return said
}

// Reader describes the events of a run in the order of the log. Paths below Workspace are
// shortened.
type Reader struct {
	Workspace string
	running   []started
}

type started struct {
	id   string
	line Line
}

// Running returns the lines of the commands and calls that began and did not end, the oldest
// first, each with its duration until now. The end of the run also ends them.
func (r *Reader) Running(now time.Time, ended bool) (lines []Line) {
	for _, s := range r.running {
		s.line.Minor = false
		if ended {
			s.line.Status = Unended
		} else {
			s.line.DurationMS = new(now.Sub(s.line.At).Milliseconds())
		}
		lines = append(lines, s.line)
	}
	return lines
}

// Read describes a line of a log. It returns false for an event that tells a reader nothing.
// The beginning of a command is a minor line, because its end repeats the text.
func (r *Reader) Read(data []byte) (Line, bool) {
	var e agent.Event
	if json.Unmarshal(data, &e) != nil || e.Name == "" {
		return Line{Kind: Unknown, Text: string(data)}, true
	}
	l, ok := r.describe(e)
	l.At = e.At
	if ok && e.Item != nil && l.Status != "" {
		r.follow(e.Item, &l)
	}
	return l, ok
}

// follow records which items are running, and computes how long an item took if the agent did
// not say.
func (r *Reader) follow(i *agent.Item, l *Line) {
	at := slices.IndexFunc(r.running, func(s started) bool { return s.id == i.ID })
	if !i.Ended {
		r.running = append(r.running, started{i.ID, *l})
		return
	}
	if at < 0 {
		return
	}
	if l.DurationMS == nil && l.Kind != Change {
		l.DurationMS = new(l.At.Sub(r.running[at].line.At).Milliseconds())
	}
	r.running = slices.Delete(r.running, at, at+1)
}

// describe makes a line of an event, without its time; false for an event that tells a reader
// nothing.
func (r *Reader) describe(e agent.Event) (Line, bool) {
	message := cmp.Or(e.Message, strings.ReplaceAll(e.Name, "_", " "))
	kind := Note
	switch e.Name {
	case agent.EventNotification:
		if e.Item != nil {
			return r.describeItem(e.Item, message)
		}
		return Line{Kind: Note, Text: message, Minor: e.Usage != nil}, !e.Routine
	case agent.EventPrompt:
		var p agent.PromptEvent
		_ = json.Unmarshal(e.Raw, &p) // a payload that was cut yields no text
		return Line{
			Kind:   Prompt,
			Text:   "prompt of " + message,
			Turn:   p.Turn,
			Detail: linesOf(p.Text),
		}, true
	case agent.EventTold:
		message = "told by " + message
	case agent.EventMutation:
		return describeMutation(e.Raw, message), true
	case agent.EventWorkEnd:
		return Line{Kind: Note, Text: "the run has " + message, Minor: true}, true
	case agent.EventSessionStarted, agent.EventToolCallCompleted, agent.EventToolCallFailed,
		agent.EventUnsupportedToolCall:
		// The item of a call reports the same.
		return Line{Kind: Note, Text: message, Minor: true}, true
	case agent.EventGitUndone:
		message = "git configuration undone: " + message
	case agent.EventMalformed, agent.EventOtherMessage:
		message = "the agent sent what symphony does not understand: " + message
	case agent.EventHostRefused:
		kind = Fault
	case agent.EventError:
		kind = Fault
		message = "the agent: " + message
	case agent.EventStartupFailed:
		kind = Fault
		message = "the agent did not start: " + message
	case agent.EventTurnEndedWithError:
		kind = Fault
		message = "the turn was ended: " + message
	case agent.EventTurnFailed, agent.EventTurnCancelled:
		kind = Fault
	default:
		if AboutRequest(e.Name) {
			kind = Request
			message = requestText(e.Name, message)
		}
	}
	return Line{Kind: kind, Text: message}, true
}

// AboutRequest reports whether an event is about something that the agent asks of a person.
func AboutRequest(name string) bool {
	return name == agent.EventTurnInputRequired ||
		strings.HasPrefix(name, "approval_") ||
		strings.HasPrefix(name, "question_") ||
		strings.HasPrefix(name, "request_")
}

// requestText describes the outcome of an agent's request.
func requestText(event, message string) string {
	message = strings.TrimPrefix(message, "approve ")
	switch event {
	case agent.EventApprovalAutoApproved:
		return "approved by agent.on_approval: " + message
	case agent.EventApprovalRequested:
		return "waits for approval: " + message
	case agent.EventApprovalRequired:
		return "needs approval, which agent.on_approval refuses: " + message
	case agent.EventApprovalDenied:
		if !strings.HasPrefix(message, "denied") {
			return "denied by agent.on_approval: " + message
		}
	case agent.EventTurnInputRequired:
		return "asks a question, which agent.on_question refuses: " + message
	}
	return message
}

// describeMutation describes a change in the tracker. The call that made it gets a line of its
// own, so only a failure matters.
func describeMutation(payload json.RawMessage, message string) Line {
	var m reconcile.Mutation
	_ = json.Unmarshal(payload, &m)
	l := Line{Kind: Note, Text: "changed in the tracker: " + message, Minor: m.Success}
	if !m.Success {
		l.Kind = Fault
	}
	for _, c := range m.Created {
		l.Detail = append(l.Detail, "created "+c.Kind+" "+c.ID)
	}
	return l
}

func (r *Reader) describeItem(i *agent.Item, message string) (Line, bool) {
	l := Line{Status: Running, DurationMS: i.DurationMS, Minor: !i.Ended, Text: message}
	switch {
	case i.Failed():
		l.Status = Failed
	case i.Ended:
		l.Status = Succeeded
	}
	switch i.Kind {
	case agent.ItemPrompt: // the prompt is also an event of its own
		return l, false
	case agent.ItemMessage:
		return Line{Kind: Words, Text: cmp.Or(strings.TrimSpace(i.Text), message)}, i.Ended
	case agent.ItemReasoning:
		thought := message != string(agent.ItemReasoning) // otherwise its text is not known
		return Line{Kind: Note, Text: message, Minor: true}, i.Ended && thought
	case agent.ItemCommand:
		l.Kind = Command
		l.Text = cmp.Or(strings.TrimSpace(i.Command), message)
		l.Detail = linesOf(i.Output)
	case agent.ItemFileChange:
		l.Kind = Change
		l.Text = cmp.Or(r.changes(i.Changes), message)
		for _, c := range i.Changes {
			l.Detail = append(l.Detail, strings.TrimSpace(c.Kind+" "+r.short(c.Path)))
			l.Detail = append(l.Detail, linesOf(c.Diff)...)
		}
	case agent.ItemTool, agent.ItemMCPTool:
		l.Kind = Call
		l.Text = strings.TrimSpace(i.Tool + " " + i.Call)
		l.Detail = linesOf(plainError(i.Result))
	default:
		l.Kind = Call
	}
	switch {
	case i.Ended && i.Status == "declined":
		l.Ending = i.Status
	case i.ExitCode != nil && *i.ExitCode != 0:
		l.Ending = fmt.Sprintf("exit %d", *i.ExitCode)
	}
	return l, true
}

// plainError returns the result of a tool, of an error only its code and its text.
func plainError(result string) string {
	var failed struct {
		Error reconcile.Error `json:"error"`
	}
	if json.Unmarshal([]byte(result), &failed) != nil || failed.Error.Message == "" {
		return result
	}
	return failed.Error.Code + ": " + failed.Error.Message
}

// changes names the changed files with the numbers of added and removed lines: "edit a.go +3
// -1, add b.go +10".
func (r *Reader) changes(changes []agent.FileChange) string {
	var names []string
	for _, c := range changes {
		var change patch.Reader
		for _, line := range linesOf(c.Diff) {
			change.Line(line)
		}
		added, removed := change.Total()
		verb := c.Kind
		if verb == "update" {
			verb = "edit"
		}
		name := strings.TrimSpace(verb + " " + r.short(c.Path))
		if added > 0 {
			name += fmt.Sprintf(" +%d", added)
		}
		if removed > 0 {
			name += fmt.Sprintf(" -%d", removed)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// short returns a path without the workspace.
func (r *Reader) short(path string) string {
	if r.Workspace == "" {
		return path
	}
	return strings.ReplaceAll(path, r.Workspace+string(filepath.Separator), "")
}

func linesOf(s string) []string {
	s = strings.Trim(s, "\r\n")
	if strings.TrimSpace(s) == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}

// How many lines of detail Short keeps.
const (
	promptLines = 3
	outputLines = 10 // of a command that failed
	resultLines = 3  // of a call that failed
)

// Short returns the line with the parts that a reader wants at first: a command in a line, the
// beginning of a prompt, and the end of a failed command's output. It names the parts left
// out: "18 more lines", "3 earlier lines".
func (l Line) Short() (short Line, left string) {
	all := l.Detail
	short = l
	short.Detail = nil
	if l.Kind != Words {
		short.Text = text.OneLine(l.Text)
	}
	switch {
	case l.Kind == Prompt:
		short.Detail = all[:min(len(all), promptLines)]
		left = "more line"
	case l.Status != Failed:
		return short, ""
	case l.Kind == Call:
		short.Detail = all[:min(len(all), resultLines)]
		left = "more line"
	default:
		short.Detail = all[max(0, len(all)-outputLines):] // the last lines show the error
		left = "earlier line"
	}
	if more := len(all) - len(short.Detail); more > 0 {
		return short, text.Plural(more, left)
	}
	return short, ""
}
