package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode"
)

// messageLength is where Event.Message is cut, in characters.
const messageLength = 200

// describe says in one line what a message of codex's tells, for people.
func describe(method string, p *params) string {
	return oneLine(describeLong(method, p), messageLength)
}

func describeLong(method string, p *params) string {
	switch method {
	case "item/started", "item/completed":
		return describeItem(method == "item/completed", &p.Item)
	case "turn/completed", "turn/failed", "turn/cancelled", "turn/canceled", "turn/interrupted":
		return describeEnd(endOf(method, p))
	case "error":
		return describeError(p)
	}
	if text, ok := describeDelta(method, p); ok {
		return text
	}
	if text, ok := describeRequest(method, p); ok {
		return text
	}
	if text, ok := describeThread(method, p); ok {
		return text
	}
	return describeNotice(method, p)
}

// describeDelta is for the parts in which items come.
func describeDelta(method string, p *params) (string, bool) {
	switch method {
	case "item/agentMessage/delta", "item/commandExecution/outputDelta", "item/fileChange/outputDelta", "item/plan/delta",
		"item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		return p.Delta, true
	case "item/reasoning/summaryPartAdded":
		return "reasoning goes on", true
	case "item/fileChange/patchUpdated":
		return "file change is now" + paths(p.Changes), true
	case "item/mcpToolCall/progress":
		return join("MCP tool", p.Message), true
	case "item/commandExecution/terminalInteraction":
		return "input to a running command", true
	}
	return "", false
}

// describeRequest is for requests of codex's, but for approvals: Ask.line has those.
func describeRequest(method string, p *params) (string, bool) {
	switch method {
	case "item/tool/call":
		return "tool " + p.Tool + " " + string(p.Arguments), true
	case "mcpServer/elicitation/request":
		return join("MCP server "+p.ServerName+" asks a person", p.Message), true
	case "item/tool/requestUserInput":
		return describeQuestions(p), true
	case "currentTime/read":
		return "codex asks for the time", true
	case "account/chatgptAuthTokens/refresh":
		return join("refused: codex asks for a new login, and symphony keeps none (codex login does)", p.Reason), true
	case "attestation/generate":
		return "refused: codex asks for an attestation, and symphony can't give one", true
	}
	return "", false
}

// describeThread is for what is said of threads and turns as a whole.
func describeThread(method string, p *params) (string, bool) {
	switch method {
	case "turn/started":
		return "turn started", true
	case "turn/diff/updated":
		return describeDiff(p.Diff), true
	case "turn/plan/updated":
		return describePlan(p), true
	case "thread/started":
		return "thread started", true
	case "thread/closed":
		return "thread closed", true
	case "thread/compacted":
		return "context compacted", true
	case "thread/status/changed":
		return "thread is " + statusText(p), true
	case "thread/settings/updated":
		return "settings of the thread changed", true
	case "thread/readState/changed":
		return "read state of the thread changed", true
	case "thread/tokenUsage/updated":
		return "tokens", true
	case "thread/goal/updated":
		return join("goal "+camelToWords(p.Goal.Status), p.Goal.Objective), true
	case "thread/goal/cleared":
		return "goal cleared", true
	}
	return "", false
}

// describeNotice is for all else; a method that is not known stands for itself.
func describeNotice(method string, p *params) string {
	switch method {
	case "serverRequest/resolved":
		return "request " + string(p.RequestID) + " is settled"
	case "account/rateLimits/updated":
		return describeLimits(p.RateLimits)
	case "warning":
		return join("warning", p.Message)
	case "guardianWarning":
		return join("guardian warns", p.Message)
	case "configWarning":
		return join("configuration", join(p.Summary, p.Details))
	case "deprecationNotice":
		return join("deprecated", join(p.Summary, p.Details))
	case "mcpServer/startupStatus/updated":
		text := "MCP server " + p.Name + " is " + p.statusWord()
		if p.Error != nil {
			text = join(text, p.Error.Message)
		}
		return text
	case "model/rerouted":
		return join("model "+p.ToModel+" instead of "+p.FromModel, camelToWords(p.Reason))
	case "modelProvider/authRecoveryStarted":
		return join("signing in to "+p.Provider+" again", p.Message)
	case "modelProvider/authRecoveryCompleted":
		return join("signed in to "+p.Provider+" again", p.Message)
	case "remoteControl/status/changed":
		return "remote control is " + p.statusWord()
	}
	return cmp.Or(p.Message, p.Summary, method)
}

// describeDiff counts what a unified diff changes: it may be as large as the work.
func describeDiff(diff string) string {
	files, added, removed := 0, 0, 0
	for line := range strings.Lines(diff) {
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
	return fmt.Sprintf("diff of the turn: %s, +%d -%d", count(files, "file"), added, removed)
}

func describePlan(p *params) string {
	done, now := 0, ""
	for _, step := range p.Plan {
		switch camelWord(step.Status) {
		case "completed":
			done++
		case "inProgress":
			now = cmp.Or(now, step.Step)
		}
	}
	return join(fmt.Sprintf("plan: %d of %s done", done, count(len(p.Plan), "step")), cmp.Or(now, p.Explanation))
}

// describeLimits names the windows that an update has; most have none.
func describeLimits(raw json.RawMessage) string {
	var limit struct {
		Primary   *limitWindow `json:"primary"`
		Secondary *limitWindow `json:"secondary"`
	}
	var parts []string
	if json.Unmarshal(raw, &limit) == nil {
		for _, w := range []*limitWindow{limit.Primary, limit.Secondary} {
			if w != nil {
				parts = append(parts, fmt.Sprintf("%.0f%% of %s used", w.Used, window(w.Minutes)))
			}
		}
	}
	if len(parts) == 0 {
		return "rate limits: nothing new"
	}
	return "rate limits: " + strings.Join(parts, ", ")
}

type limitWindow struct {
	Used    float64 `json:"usedPercent"`
	Minutes float64 `json:"windowDurationMins"`
}

func window(minutes float64) string {
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

// camelToWords gives "high risk cyber activity" for highRiskCyberActivity.
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

// describeItem tells of an item begun or ended.
func describeItem(ended bool, i *wireItem) string {
	state := "started"
	if ended {
		state = cmp.Or(i.Status, "completed")
	}
	switch i.Type {
	case itemAgentMessage:
		if !ended {
			return "agent message started"
		}
		return firstLine(i.Text)
	case itemCommand:
		text := "command " + state + ": " + shellText(i.Command)
		if ended && i.ExitCode != nil {
			text = fmt.Sprintf("command exited %d: %s", *i.ExitCode, shellText(i.Command))
		}
		return text
	case itemFileChange:
		if len(i.Changes) == 0 {
			return "file changes " + state
		}
		return fmt.Sprintf("%s %s%s", count(len(i.Changes), "file change"), state, paths(i.Changes))
	case "dynamicToolCall":
		return "tool " + i.Tool + " " + state
	case "mcpToolCall":
		text := "MCP tool " + i.Server + "/" + i.Tool + " " + state
		if i.Error != nil {
			text = join(text, i.Error.Message)
		}
		return text
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

func describeEnd(end turnEnd) string {
	text := "turn " + end.status
	if end.err != nil {
		return join(text, end.err.Message)
	}
	return text
}

func describeError(p *params) string {
	if p.Error == nil {
		return cmp.Or(p.Message, "error")
	}
	text := join(p.Error.Message, p.Error.AdditionalDetails)
	if p.WillRetry {
		return "retrying: " + text
	}
	return text
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
	if json.Unmarshal(p.Status, &status) != nil {
		return cmp.Or(p.statusWord(), "unknown")
	}
	return join(camelToWords(status.Type), camelToWords(strings.Join(status.ActiveFlags, ", ")))
}

// tokensText is the line for token usage.
func tokensText(u Usage) string {
	return fmt.Sprintf("tokens: %d in (%d cached), %d out, %d in all", u.Input, u.CachedInput, u.Output, u.Total)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// paths names the first files of a change.
func paths(changes []wireChange) string {
	const shown = 3
	names := make([]string, 0, shown)
	for _, c := range changes {
		if len(names) == shown {
			names = append(names, "…")
			break
		}
		names = append(names, path.Base(c.Path))
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}
