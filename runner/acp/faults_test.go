package acp

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// OpenCode passes on what the service of its model says, and nothing else.
func TestWordsOfServices(t *testing.T) {
	for said, class := range map[string]agent.Code{
		"Rate limited, wait": agent.CodeAgentQuota,
		"This request would exceed your account's rate limit":        agent.CodeAgentQuota,
		"429 Too Many Requests":                                      agent.CodeAgentQuota,
		"You exceeded your current quota":                            agent.CodeAgentQuota,
		"Your credit balance is too low":                             agent.CodeAgentQuota,
		"Insufficient Balance":                                       agent.CodeAgentQuota,
		"Insufficient credits. Add more at https://pay.example":      agent.CodeAgentQuota,
		"You have reached your limit":                                agent.CodeAgentQuota,
		"You’ve hit your limit · resets 3pm":                         agent.CodeAgentQuota,
		"invalid x-api-key":                                          agent.CodeAgentAuth,
		"Cannot connect to API: ECONNREFUSED":                        agent.CodeNetwork,
		"prompt is too long: 210000 tokens > 200000 maximum":         "",
		"The limit of this tool is 30 calls, of which you have used": "",
	} {
		refusal := &wire.Error{Code: -32603, Message: "Internal error: " + said}
		test.Equal(t, "the class of "+said, kindNamed("opencode").classify(refusal), class)
	}
}

// The errors that the agents have sent for a login, a limit, a network and an ordinary fault.
func TestFaultsOfKinds(t *testing.T) {
	for _, c := range []struct {
		kind  string
		code  int
		said  string
		data  string
		class agent.Code
	}{
		{"claude", -32000, "Authentication required", "", agent.CodeAgentAuth},
		{"claude", -32603, "Failed to authenticate", `{"errorKind":"authentication_failed"}`, agent.CodeAgentAuth},
		{"claude", -32603, "Not allowed here", `{"errorKind":"oauth_org_not_allowed"}`, agent.CodeAgentAuth},
		{
			"claude", -32603, "API Error: Request rejected (429) · Rate limited, wait",
			`{"errorKind":"rate_limit"}`, agent.CodeAgentQuota,
		},
		{"claude", -32603, "Credit balance is too low", `{"errorKind":"billing_error"}`, agent.CodeAgentQuota},
		{"claude", -32603, "You've hit your limit · resets 3pm", `{"errorKind":"unknown"}`, agent.CodeAgentQuota},
		{"claude", -32603, "Your org is out of usage", "", agent.CodeAgentQuota},
		{"claude", -32603, "Overloaded", `{"errorKind":"overloaded"}`, agent.CodeNetwork},
		{"claude", -32603, "API Error: 500", `{"errorKind":"server_error"}`, agent.CodeNetwork},
		{"claude", -32603, "the quota of this model", `{"errorKind":"model_not_found"}`, ""},
		{"claude", -32603, "Prompt is too long · usage limit", `{"errorKind":"invalid_request"}`, ""},
		{"opencode", -32603, "invalid x-api-key", `{"errorName":"APIError"}`, agent.CodeAgentAuth},
		{"opencode", -32603, "Rate limited, wait", `{"errorName":"APIError"}`, agent.CodeAgentQuota},
		{"opencode", -32603, "Overloaded", `{"errorName":"APIError"}`, agent.CodeNetwork},
		{"opencode", -32603, "model: no-such-model", `{"errorName":"APIError"}`, ""},
		{"gemini", -32000, "Gemini API key is missing or not configured.", "", agent.CodeAgentAuth},
		{"gemini", 401, `{"error":{"message":"invalid x-api-key"}}`, "", agent.CodeAgentAuth},
		{
			"gemini", 400, `{"error":{"message":"API key not valid. Please pass a valid API key."}}`,
			"", agent.CodeAgentAuth,
		},
		{"gemini", 429, "no words", "", agent.CodeAgentQuota},
		{"gemini", 400, `{"error":{"message":"Your credit balance is too low"}}`, "", agent.CodeAgentQuota},
		{"gemini", 503, "no words", "", agent.CodeNetwork},
		{"gemini", 400, `{"error":{"message":"prompt is too long: 250000 tokens"}}`, "", ""},
		{"gemini", 500, "model: no-such-model", "", ""},
		{"acp", -32603, "You've hit your limit", "", agent.CodeAgentQuota},
		{"acp", -32603, "the tests failed", "", ""},
	} {
		refusal := &wire.Error{Code: c.code, Message: "Internal error: " + c.said}
		if c.code > 0 {
			refusal.Message = c.said
		}
		if c.data != "" {
			refusal.Data = []byte(c.data)
		}
		test.Equal(t, c.kind+": "+c.said, kindNamed(c.kind).classify(refusal), c.class)
	}
}
