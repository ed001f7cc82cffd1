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
