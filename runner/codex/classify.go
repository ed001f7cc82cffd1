package codex

import (
	"encoding/json"
	"strings"
)

// classify tells the faults of the machine, the account and the network from
// those of a turn, by codexErrorInfo first and by the words of the message
// where that says only "other" (PROTOCOL, section 9). ok is false for a plain
// failure.
func classify(info json.RawMessage, message string) (class Code, ok bool) {
	kind, status := errorInfo(info)
	switch {
	case status == 401 || status == 403:
		return CodeAgentAuth, true
	case status == 429:
		return CodeAgentQuota, true
	case status >= 500 || status == 408:
		return CodeNetwork, true
	case status > 0:
		// A 404 and its like: the address or the model is wrong, which no
		// waiting mends.
		return "", false
	}
	switch kind {
	case "unauthorized":
		return CodeAgentAuth, true
	case "usageLimitExceeded", "rateLimitExceeded", "sessionBudgetExceeded":
		return CodeAgentQuota, true
	case "httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected",
		"responseTooManyFailedAttempts", "serverOverloaded", "internalServerError":
		return CodeNetwork, true
	case "contextWindowExceeded", "badRequest", "cyberPolicy", "sandboxError":
		return "", false
	}
	return classifyText(message)
}

// classifyText is asked only about codex's own messages, never about what a
// model or a command wrote.
func classifyText(message string) (Code, bool) {
	m := strings.ToLower(message)
	for _, c := range []struct {
		class Code
		words []string
	}{
		{CodeAgentAuth, []string{"missing environment variable", "status 401", "status 403", "unauthorized", "not logged in"}},
		{CodeAgentQuota, []string{
			"usage limit", "insufficient quota", "insufficient_quota", "quota exceeded", "status 429",
			"status: 429", "rate limit exceeded", "rate_limit_exceeded",
		}},
		{CodeNetwork, []string{
			"waiting for network", "connection refused", "connection failed", "error sending request",
			"stream disconnected", "failed to lookup address", "network error", "status 500", "status 502", "status 503",
			"status 504", "status: 5", "currently experiencing high demand", // older versions' word for a 500
		}},
	} {
		for _, w := range c.words {
			if strings.Contains(m, w) {
				return c.class, true
			}
		}
	}
	return "", false
}

// errorInfo reads codexErrorInfo: a word, or an object whose one key is the
// word and whose value may hold an HTTP status. Unknown shapes give "".
func errorInfo(info json.RawMessage) (kind string, status int) {
	if len(info) == 0 {
		return "", 0
	}
	if json.Unmarshal(info, &kind) == nil {
		return camelWord(kind), 0
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(info, &object) != nil {
		return "", 0
	}
	for k, v := range object {
		var detail struct {
			HTTPStatusCode int `json:"httpStatusCode"`
		}
		kind = camelWord(k)
		v, _ = camelKeys(v)
		if json.Unmarshal(v, &detail) == nil && detail.HTTPStatusCode > 0 {
			return kind, detail.HTTPStatusCode
		}
	}
	return kind, 0
}
