package codex

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/internal/text"
)

// messageLength is where the message of an event is cut, in characters.
const messageLength = 200

func constant(line string) func(*params) string { return func(*params) string { return line } }

func describeDelta(p *params) string { return p.Delta }

func describeReason(p *params) string { return cmp.Or(p.reason(), "no reason given") }

func describeStarted(p *params) string { return describeItem(&p.Item, false) }

func describeEnded(p *params) string { return describeItem(&p.Item, true) }

func describeItem(i *wireItem, ended bool) string {
	state := "started"
	if ended {
		state = cmp.Or(i.Status, "completed")
	}
	switch i.Type {
	case "agentMessage":
		if !ended {
			return "agent message started"
		}
		return firstLine(i.Text)
	case "commandExecution":
		if ended && i.ExitCode != nil {
			return fmt.Sprintf("command exited %d: %s", *i.ExitCode, shellText(i.Command))
		}
		return "command " + state + ": " + shellText(i.Command)
	case "fileChange":
		if len(i.Changes) == 0 {
			return "file changes " + state
		}
		return fmt.Sprintf("%s %s%s", text.Plural(len(i.Changes), "file change"), state, baseNames(i.Changes))
	case "dynamicToolCall":
		return "tool " + i.Tool + " " + state
	case "mcpToolCall":
		line := "MCP tool " + i.Server + "/" + i.Tool + " " + state
		if i.Error != nil {
			line = join(line, i.Error.Message)
		}
		return line
	case "collabAgentToolCall":
		return "sub-agent " + i.Tool + " " + state
	case "reasoning":
		return join("reasoning", strings.Join(i.Summary, " "))
	case "webSearch":
		return join("web search", i.Query)
	case "userMessage":
		return "prompt"
	case "contextCompaction":
		return "compaction of the context " + state
	case "plan":
		return join("plan", firstLine(i.Text))
	case "imageView":
		return join("looks at an image", i.Path)
	}
	return join(camelToWords(i.Type), state)
}

func describeError(p *params) string {
	if p.Error == nil {
		return cmp.Or(p.Message, "error")
	}
	line := join(p.Error.Message, p.Error.Details)
	if p.WillRetry {
		return "retrying: " + line
	}
	return line
}

// describeDiff counts what a diff changes: the diff itself may be as large as the work.
func describeDiff(p *params) string {
	files, added, removed := 0, 0, 0
	for line := range strings.Lines(p.Diff) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			files++
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return fmt.Sprintf("diff of the turn: %s, +%d -%d", text.Plural(files, "file"), added, removed)
}

func describePlan(p *params) string {
	done, now := 0, ""
	for _, step := range p.Plan {
		switch step.Status {
		case "completed":
			done++
		case "inProgress":
			now = cmp.Or(now, step.Step)
		}
	}
	return join(fmt.Sprintf("plan: %d of %s done", done, text.Plural(len(p.Plan), "step")), cmp.Or(now, p.Explanation))
}

// describeLimits names the windows that an update has; most have none.
func describeLimits(p *params) string {
	type window struct {
		Used    float64 `json:"usedPercent"`
		Minutes float64 `json:"windowDurationMins"`
	}
	var limit struct {
		Primary   *window `json:"primary"`
		Secondary *window `json:"secondary"`
	}
	unmarshal(p.RateLimits, &limit)
	var parts []string
	for _, w := range []*window{limit.Primary, limit.Secondary} {
		if w != nil {
			parts = append(parts, fmt.Sprintf("%.0f%% of %s used", w.Used, windowText(w.Minutes)))
		}
	}
	return "rate limits: " + cmp.Or(strings.Join(parts, ", "), "nothing new")
}

func windowText(minutes float64) string {
	switch hours := minutes / 60; {
	case minutes <= 0:
		return "a window"
	case hours >= 48:
		return fmt.Sprintf("%.0f days", hours/24)
	case hours >= 1:
		return fmt.Sprintf("%.0f h", hours)
	}
	return fmt.Sprintf("%.0f min", minutes)
}

func describeServer(p *params) string {
	line := "MCP server " + p.Name + " is " + p.statusWord()
	if p.Error != nil {
		line = join(line, p.Error.Message)
	}
	return line
}

func describeRerouted(p *params) string {
	return join("model "+p.ToModel+" instead of "+p.FromModel, camelToWords(p.Reason))
}

func describeQuestions(p *params) string {
	texts := make([]string, 0, len(p.Questions))
	for _, q := range p.Questions {
		texts = append(texts, cmp.Or(q.Question, q.Header))
	}
	return cmp.Or(strings.Join(texts, " / "), "a question without text")
}

// statusText reads {"type":"active","activeFlags":["waitingOnApproval"]}.
func statusText(p *params) string {
	var status struct {
		Type        string   `json:"type"`
		ActiveFlags []string `json:"activeFlags"`
	}
	unmarshal(p.Status, &status)
	return cmp.Or(join(camelToWords(status.Type), camelToWords(strings.Join(status.ActiveFlags, ", "))), p.statusWord(), "unknown")
}

// camelToWords turns highRiskCyberActivity into "high risk cyber activity".
func camelToWords(word string) string {
	var b strings.Builder
	for _, r := range word {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// join puts a colon between two texts; an empty one is left out.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

// baseNames names the first files of a change.
func baseNames(changes []wireChange) string {
	const shown = 3
	names := make([]string, 0, shown+1)
	for _, c := range changes[:min(len(changes), shown)] {
		names = append(names, path.Base(c.Path))
	}
	if len(changes) > shown {
		names = append(names, "…")
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}

// requestText is one line for a request that is no approval.
func requestText(method string, p *params) string {
	switch method {
	case "item/tool/call":
		return "tool " + p.Tool + " " + string(p.Arguments)
	case "mcpServer/elicitation/request":
		return join("MCP server "+p.ServerName+" asks a person", p.Message)
	case "item/tool/requestUserInput":
		return describeQuestions(p)
	case "currentTime/read":
		return "codex asks for the time"
	case "account/chatgptAuthTokens/refresh":
		return join("refused: codex asks for a new login, and symphony keeps none (codex login does)", p.Reason)
	case "attestation/generate":
		return "refused: codex asks for an attestation, and symphony can't give one"
	}
	return "refused: " + method + " is not known"
}
