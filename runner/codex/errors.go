package codex

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// errorLength is the longest message of an error, in characters: codex answers an unknown method with a list of all methods.
const errorLength = 400

// Codes of JSON-RPC errors.
const (
	codeMethodNotFound = -32601
	codeOverloaded     = -32001 // the server of the model is overloaded
)

// responseError turns a *wireError into an *agent.Error and returns other errors as they are. Only during the handshake does
// it take a refusal for a sign of an incompatible release.
func responseError(method string, err error, handshake bool) error {
	var e *wireError
	if !errors.As(err, &e) {
		return err
	}
	out := &agent.Error{Code: agent.CodeResponseError, Message: oneLine(method+": "+e.Message, errorLength)}
	has := func(text string) bool { return strings.Contains(e.Message, text) }
	switch {
	case has("no rollout found"), has("invalid session id"), has("This chat uses "), has("thread's model provider"):
		out.Err = agent.ErrNoThread
	case has("already has an active writer"):
		out.Err = agent.ErrThreadBusy
	case has("no active turn to steer"): // codex ends a turn before it reports that
		out.Err = agent.ErrNoTurn
	case e.Code == codeOverloaded:
		out.Code = agent.CodeNetwork
	case handshake && (e.Code == codeMethodNotFound || has("Invalid request") || has("unknown variant") || has("requires experimentalApi")):
		out.Code = agent.CodeIncompatible // it does not understand the request
	default:
		out.Code = cmp.Or(classify(nil, e.Message), out.Code)
	}
	return out
}

func incompatible(method, what string) *agent.Error {
	return &agent.Error{Code: agent.CodeIncompatible, Message: oneLine(method+": "+what, errorLength)}
}

// class returns the class of the fault, "" for an ordinary failure of the turn.
func (e *turnError) class() agent.Code { return classify(e.Info, e.Message+" "+e.Details) }

// classes are the faults of the machine, the account and the network, by codexErrorInfo. "" is an ordinary failure of the
// turn, whatever the message is.
var classes = map[string]agent.Code{
	"unauthorized":       agent.CodeAgentAuth,
	"usageLimitExceeded": agent.CodeAgentQuota, "rateLimitExceeded": agent.CodeAgentQuota, "sessionBudgetExceeded": agent.CodeAgentQuota,
	"httpConnectionFailed": agent.CodeNetwork, "responseStreamConnectionFailed": agent.CodeNetwork,
	"responseStreamDisconnected": agent.CodeNetwork, "responseTooManyFailedAttempts": agent.CodeNetwork,
	"serverOverloaded": agent.CodeNetwork, "internalServerError": agent.CodeNetwork,
	"contextWindowExceeded": "", "badRequest": "", "cyberPolicy": "", "sandboxError": "",
}

// messageClasses classify codex's own messages where codexErrorInfo does not. They are never applied to text of a model or a command.
var messageClasses = []struct {
	class agent.Code
	words func() *regexp.Regexp
}{
	{agent.CodeAgentAuth, text.Pattern(`(?i)missing environment variable|status 401|status 403|unauthorized|not logged in`)},
	{agent.CodeAgentQuota, text.Pattern(`(?i)usage limit|insufficient.quota|quota exceeded|status:? 429|rate.limit.exceeded`)},
	{agent.CodeNetwork, text.Pattern(`(?i)waiting for network|connection refused|connection failed|error sending request|` +
		`stream disconnected|failed to lookup address|network error|status 50[0234]|status: 5`)},
}

// classify returns the class of a fault of the machine, the account or the network, "" for an ordinary failure of a turn.
func classify(info json.RawMessage, message string) agent.Code {
	switch kind, status := errorInfo(info); {
	case status == 401 || status == 403:
		return agent.CodeAgentAuth
	case status == 429:
		return agent.CodeAgentQuota
	case status >= 500 || status == 408:
		return agent.CodeNetwork
	case status > 0:
		return "" // such as a wrong address or model, where waiting does not help
	default:
		if class, known := classes[kind]; known {
			return class
		}
	}
	for _, c := range messageClasses {
		if c.words().MatchString(message) {
			return c.class
		}
	}
	return ""
}

// errorInfo reads codexErrorInfo: a word, or an object whose only key is the word and whose value may contain an HTTP status.
func errorInfo(info json.RawMessage) (kind string, status int) {
	if json.Unmarshal(info, &kind) == nil {
		return kind, 0
	}
	var object map[string]struct{ HTTPStatusCode int }
	unmarshal(info, &object)
	for k, detail := range object {
		return k, detail.HTTPStatusCode
	}
	return "", 0
}
