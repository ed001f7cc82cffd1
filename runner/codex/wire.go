package codex

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// object is a JSON object to send.
type object = wire.Object

// turnError is the error of a turn, of an error notification, and of some items. Some messages
// have a string in its place.
type turnError struct {
	Message string
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// UnmarshalJSON accepts an object or a string.
func (e *turnError) UnmarshalJSON(raw []byte) error {
	type plain turnError
	if json.Unmarshal(raw, &e.Message) != nil {
		wire.Unmarshal(raw, (*plain)(e))
	}
	return nil
}

type wireItem struct {
	ID, Type, Status, Text    string
	Command, Cwd              string
	AggregatedOutput          string
	ExitCode                  *int
	DurationMS                *int64
	Changes                   []wireChange
	Server, Tool, Query, Path string
	Success                   *bool
	Summary                   []string
	Error                     *turnError
	Arguments                 json.RawMessage
	ContentItems              []struct{ Text string }
}

type wireChange struct {
	Path, Diff string
	Kind       struct {
		Type string
		Move string `json:"move_path"`
	}
}

// itemKinds maps codex's types of items to the kinds of package agent. Other types are
// agent.ItemOther.
var itemKinds = map[string]agent.ItemKind{
	"userMessage":      agent.ItemPrompt,
	"agentMessage":     agent.ItemMessage,
	"reasoning":        agent.ItemReasoning,
	"commandExecution": agent.ItemCommand,
	"fileChange":       agent.ItemFileChange,
	"dynamicToolCall":  agent.ItemTool,
	"mcpToolCall":      agent.ItemMCPTool,
}

// item returns the item in the form of package agent.
func (w *wireItem) item(ended bool) *agent.Item {
	i := &agent.Item{
		ID:         w.ID,
		Kind:       cmp.Or(itemKinds[w.Type], agent.ItemOther),
		Ended:      ended,
		Status:     w.Status,
		Text:       w.Text,
		Command:    shellText(w.Command),
		Cwd:        w.Cwd,
		ExitCode:   w.ExitCode,
		DurationMS: w.DurationMS,
		Output:     w.AggregatedOutput,
		Changes:    fileChanges(w.Changes),
		Tool:       w.Tool,
	}
	if w.Success != nil && !*w.Success {
		i.Status = statusFailed
	}
	if i.Kind == agent.ItemMCPTool {
		i.Tool = w.Server + "/" + w.Tool
		i.Result = errorText(w.Error)
	}
	if len(w.Arguments) > 0 {
		i.Call = wire.Short(argumentText(w.Arguments), summaryLength)
	}
	texts := text.Map(w.ContentItems, func(c struct{ Text string }) string { return c.Text })
	i.Result += strings.Join(texts, "\n")
	return i
}

// argumentText returns the arguments of a call: the text itself if it is the only argument,
// otherwise all as JSON.
func argumentText(args json.RawMessage) string {
	var texts map[string]string
	if json.Unmarshal(args, &texts) == nil && len(texts) == 1 {
		for _, text := range texts {
			return text
		}
	}
	return string(args)
}

// movedTo separates the two paths of a moved file.
const movedTo = " → "

// moved returns the path of a file, or "OLD → NEW" if the file is moved.
func moved(path, to string) string {
	if to == "" {
		return path
	}
	return path + movedTo + to
}

func fileChanges(changes []wireChange) []agent.FileChange {
	return text.Map(changes, func(c wireChange) agent.FileChange {
		return agent.FileChange{
			Path: moved(c.Path, c.Kind.Move),
			Kind: c.Kind.Type,
			Diff: signed(c.Kind.Type, c.Diff),
		}
	})
}

// signed makes a diff of the text of an added or deleted file, which codex sends as it is.
func signed(kind, content string) string {
	sign := map[string]string{"add": "+", "delete": "-"}[kind]
	if sign == "" || content == "" {
		return content
	}
	return sign + strings.ReplaceAll(strings.TrimSuffix(content, "\n"), "\n", "\n"+sign) + "\n"
}

// codex reports a command as a quoted argument of a shell: /bin/bash -lc '…'. The model may
// name any program as the shell; only a system's usual shells match.
var (
	shellCommand = text.Pattern(
		`(?s)^(?:/bin/|/usr/bin/|/usr/local/bin/)?(?:bash|sh|zsh|dash|ksh|fish) -l?c ` +
			`((?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+)$`,
	)
	wordPart = text.Pattern(`(?s)'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)`)
	// within double quotes a backslash before another character stands for itself
	escaped = text.Pattern("\\\\([$`\"\\\\])")
)

// shellText removes the usual shell from a command. Operators decide by this text, so anything
// else stays in it.
func shellText(command string) string {
	m := shellCommand().FindStringSubmatch(command)
	if m == nil {
		return command
	}
	word := ""
	for _, part := range wordPart().FindAllStringSubmatch(m[1], -1) {
		word += part[1] + escaped().ReplaceAllString(part[2], "$1") + part[3] + part[4]
	}
	return cmp.Or(word, command)
}

const summaryLength = 500 // characters of a summary and a reason

// codeOverloaded is the code of an error: the server of the model is overloaded.
const codeOverloaded = -32001

// responseError turns a *wire.Error into an *agent.Error and returns other errors as they are.
func responseError(method string, err error) error {
	var refusal *wire.Error
	if !errors.As(err, &refusal) {
		return err
	}
	return asAgentError(refusal, method)
}

// handshakeError is responseError for the handshake, where a refusal is also a sign of an
// incompatible release.
func handshakeError(method string, err error) error {
	var refusal *wire.Error
	if !errors.As(err, &refusal) {
		return err
	}
	out := asAgentError(refusal, method)
	if out.Err == nil && refusal.Code != codeOverloaded && isNotUnderstood(refusal) {
		out.Code = agent.CodeIncompatible
	}
	return out
}

// asAgentError returns the refusal of a request in the words of the port.
func asAgentError(e *wire.Error, method string) *agent.Error {
	out := &agent.Error{
		Code:    agent.CodeResponseError,
		Message: wire.Short(method+": "+e.Message, wire.ErrorLength),
	}
	switch {
	case says(e, "no rollout found", "invalid session id", "This chat uses ", "thread's model provider"):
		out.Err = agent.ErrNoThread
	case says(e, "already has an active writer"):
		out.Err = agent.ErrThreadBusy
	case says(e, "no active turn to steer"): // codex ends a turn before it reports that
		out.Err = agent.ErrNoTurn
	case e.Code == codeOverloaded:
		out.Code = agent.CodeNetwork
	default:
		out.Code = cmp.Or(classify(nil, e.Message), out.Code)
	}
	return out
}

// isNotUnderstood reports whether codex does not know the method or a part of the parameters.
func isNotUnderstood(e *wire.Error) bool {
	return e.Code == wire.MethodNotFound ||
		says(e, "Invalid request", "unknown variant", "requires experimentalApi")
}

// says reports whether the message contains any of the texts.
func says(e *wire.Error, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(e.Message, text) })
}

// incompatible is the error of an answer that this program does not understand.
func incompatible(method, what string) *agent.Error {
	return &agent.Error{
		Code:    agent.CodeIncompatible,
		Message: wire.Short(method+": "+what, wire.ErrorLength),
	}
}

// class returns the class of the fault, "" for an ordinary failure of the turn.
func (e *turnError) class() agent.Code { return classify(e.Info, e.Message+" "+e.Details) }

// classes are the faults of the machine, the account and the network, and refusals, by
// codexErrorInfo. "" is an ordinary failure of the turn, whatever the message is.
var classes = map[string]agent.Code{
	"unauthorized":                   agent.CodeAgentAuth,
	"usageLimitExceeded":             agent.CodeAgentQuota,
	"rateLimitExceeded":              agent.CodeAgentQuota,
	"sessionBudgetExceeded":          agent.CodeAgentQuota,
	"httpConnectionFailed":           agent.CodeNetwork,
	"responseStreamConnectionFailed": agent.CodeNetwork,
	"responseStreamDisconnected":     agent.CodeNetwork,
	"responseTooManyFailedAttempts":  agent.CodeNetwork,
	"serverOverloaded":               agent.CodeNetwork,
	"internalServerError":            agent.CodeNetwork,
	"contextWindowExceeded":          agent.CodeContextFull,
	"badRequest":                     "",
	"sandboxError":                   "",
	"inferenceHookDenied":            agent.CodePolicy, // a hook of the operator's own
}

// messageClasses classify codex's own messages where codexErrorInfo does not. They are never
// applied to text of a model or a command.
var messageClasses = []struct {
	class agent.Code
	words func() *regexp.Regexp
}{
	{
		agent.CodeAgentAuth,
		text.Pattern(`(?i)missing environment variable|status 401|status 403|unauthorized|not logged in`),
	},
	{
		agent.CodeAgentQuota,
		text.Pattern(`(?i)usage limit|insufficient.quota|quota exceeded|status:? 429|rate.limit.exceeded`),
	},
	{
		agent.CodeNetwork,
		text.Pattern(`(?i)waiting for network|connection refused|connection failed|error sending request|` +
			`stream disconnected|failed to lookup address|network error|status 50[0234]|status: 5`),
	},
}

// classify returns the class of a fault of the machine, the account or the network, or of a
// refusal, "" for an ordinary failure of a turn.
func classify(info json.RawMessage, message string) agent.Code {
	kind, status := errorInfo(info)
	switch {
	case status == 401 || status == 403:
		return agent.CodeAgentAuth
	case status == 429:
		return agent.CodeAgentQuota
	case status >= 500 || status == 408:
		return agent.CodeNetwork
	case status > 0:
		return "" // such as a wrong address or model, where waiting does not help
	}
	if class, known := classes[kind]; known {
		return class
	}
	if strings.HasSuffix(kind, "Policy") || strings.HasSuffix(kind, "PolicyViolation") {
		// cyberPolicy, bioPolicy, misalignmentPolicyViolation, and additions of later releases
		return agent.CodePolicy
	}
	for _, c := range messageClasses {
		if c.words().MatchString(message) {
			return c.class
		}
	}
	return ""
}

// errorInfo reads codexErrorInfo: a word, or an object whose only key is the word and whose
// value may contain an HTTP status.
func errorInfo(info json.RawMessage) (kind string, status int) {
	if json.Unmarshal(info, &kind) == nil {
		return kind, 0
	}
	var object map[string]struct{ HTTPStatusCode int }
	wire.Unmarshal(info, &object)
	for k, detail := range object {
		return k, detail.HTTPStatusCode
	}
	return "", 0
}

// errorText returns the message of an error. If codex quotes an answer of the model's server
// as JSON, only the message of that answer remains.
func errorText(e *turnError) string {
	if e == nil {
		return ""
	}
	before, answer, _ := strings.Cut(e.Message, "{")
	var quoted struct {
		Message, Detail string
		Error           *turnError
	}
	decoder := json.NewDecoder(strings.NewReader("{" + answer))
	err := decoder.Decode(&quoted)
	said := cmp.Or(errorText(quoted.Error), quoted.Message, quoted.Detail)
	if err != nil || said == "" {
		return e.Message
	}
	return before + said + answer[decoder.InputOffset()-1:]
}
