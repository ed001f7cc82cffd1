package codex

// Protocol is what we say to codex and need of it, by message. A codex whose own schema does not have all of it is one
// that we can't work with (package compat); the tests hold what the session sends to it.
type Protocol struct {
	Requests      []Message // ours, and what codex answers
	Notifications []Message // ours
	Served        []Message // requests of codex's, and what we answer
	Notices       []Message // notifications of codex's
}

// Message is one message of the protocol.
type Message struct {
	Method string
	// Says are examples of what we send: params, or the answers to a request of codex's. Together they hold every
	// member that we ever send.
	Says []string
	// Reads are the members that we need of what codex sends.
	Reads []Member
	// Without says what does not work where codex does not know the message; empty where nothing does.
	Without string
	// Instead are examples among Says that older releases want otherwise.
	Instead map[string]string
	// Formerly is the event, of those that older releases sent in codex/event, that says the same.
	Formerly string
	// Spare are members of Says that codex may lack, with what does not work then; an empty text: nothing is lost.
	Spare map[string]string
}

// Member is one that we read.
type Member struct {
	Path string // as schema.Find takes it
	Type string // of JSON
	// Words are those among its values that we tell apart.
	Words []string
	// Without says what does not work without it; empty where nothing does.
	Without string
}

const (
	toolSays        = `{"contentItems":[{"type":"inputText","text":"{}"}],"success":true}`
	workspacePolicy = `{"type":"workspaceWrite","writableRoots":["/w/.git"],"networkAccess":false,"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`

	withoutTools   = "the tool linear_graphql is not offered to the model"
	withoutTokens  = "its tokens are not counted: the totals stay zero, and agent.max_tokens never holds an issue"
	withoutLimits  = "a used-up account is told only by the failure of a run, without the time at which it comes back"
	withoutResume  = "a resumed thread sends its whole history again"
	withoutSandbox = "codex.thread_sandbox is not known to it as this version of symphony writes it"
	withoutProbe   = "whether the machine can sandbox is known only once commands of a turn have failed"
	withoutLogin   = "symphony doctor can't tell whether it is logged in"
	withoutConfig  = "symphony doctor can't tell all that agents inherit from its home"
	withoutWords   = "the agent's last words are not shown"
	withoutThread  = "what a sub-agent does would count as the thread's own"
	withoutError   = "why a turn failed is not known: faults of the account or the network count as the issue's"
)

// Spoken is the protocol as the session speaks it.
func Spoken() Protocol {
	return Protocol{Requests: requestsSent(), Notifications: []Message{{Method: "initialized"}}, Served: requestsServed(), Notices: noticesRead()}
}

func requestsSent() []Message {
	thread := []Member{{Path: "thread.id", Type: "string"}}
	return []Message{
		{
			Method: "initialize",
			Says:   []string{`{"clientInfo":{"name":"symphony","version":"0"},"capabilities":{"experimentalApi":true}}`},
			// A codex that knows no capabilities has none to switch on.
			Spare: map[string]string{"capabilities": "", "capabilities.experimentalApi": withoutTools},
			Reads: []Member{{Path: "userAgent", Type: "string"}},
		},
		{
			Method: "thread/start",
			Says: []string{`{"cwd":"/w","approvalPolicy":"never","sandbox":"workspace-write","config":{"features.goals":false},` +
				`"dynamicTools":[{"type":"function","name":"linear_graphql","description":"d","inputSchema":{"type":"object"}}]}`},
			// There were tools before there were types of them.
			Spare: map[string]string{"dynamicTools": withoutTools, "dynamicTools[0].type": "", "sandbox": withoutSandbox},
			Reads: thread,
		},
		{
			Method: "thread/resume",
			Says: []string{`{"threadId":"t","excludeTurns":true,"cwd":"/w","approvalPolicy":"never","sandbox":"workspace-write",` +
				`"config":{"features.goals":false}}`},
			Spare: map[string]string{"excludeTurns": withoutResume, "sandbox": withoutSandbox},
			Reads: thread,
		},
		{
			Method: "turn/start",
			Says: []string{`{"threadId":"t","input":[{"type":"text","text":"do it"}],"cwd":"/w","title":"A-1: it","approvalPolicy":"never",` +
				`"sandboxPolicy":` + workspacePolicy + `}`},
			Spare: map[string]string{"title": ""}, // the specification has it; codex does not look at it
			Reads: []Member{{Path: "turn.id", Type: "string"}},
		},
		{Method: "turn/interrupt", Says: []string{`{"threadId":"t","turnId":"u"}`}},
		{
			Method: "command/exec", Without: withoutProbe,
			Says: []string{
				`{"command":["/bin/sh","-c",":"],"cwd":"/w","sandboxPolicy":` + workspacePolicy + `,"timeoutMs":10000}`,
				`{"command":["/bin/sh","-c",":"],"cwd":"/w","sandboxPolicy":{"type":"readOnly","networkAccess":false},"timeoutMs":10000}`,
			},
			// A policy that had no such member gave its commands no network.
			Spare: map[string]string{"sandboxPolicy": withoutProbe, "sandboxPolicy.networkAccess": "", "timeoutMs": withoutProbe},
			Reads: []Member{
				{Path: "exitCode", Type: "integer", Without: withoutProbe}, {Path: "stderr", Type: "string", Without: withoutProbe},
			},
		},
		{
			Method: "account/read", Says: []string{`{}`}, Without: withoutLogin,
			Reads: []Member{{Path: "requiresOpenaiAuth", Type: "boolean", Without: withoutLogin}, {Path: "account.type", Type: "string", Without: withoutLogin}},
		},
		{
			Method: "config/read", Says: []string{`{"cwd":"/w"}`}, Without: withoutConfig, Spare: map[string]string{"cwd": withoutConfig},
			Reads: []Member{{Path: "config", Without: withoutConfig}},
		},
		{
			Method: "experimentalFeature/list", Says: []string{`{"cursor":"c"}`}, Without: withoutConfig, Spare: map[string]string{"cursor": withoutConfig},
			Reads: []Member{
				{Path: "data[].name", Type: "string", Without: withoutConfig},
				{Path: "data[].enabled", Type: "boolean", Without: withoutConfig},
				{Path: "data[].defaultEnabled", Type: "boolean", Without: withoutConfig},
				{Path: "nextCursor", Type: "string", Without: withoutConfig},
			},
		},
		{
			Method: "hooks/list", Says: []string{`{"cwds":["/w"]}`}, Without: withoutConfig, Spare: map[string]string{"cwds": withoutConfig},
			Reads: []Member{{Path: "data[].hooks[].eventName", Type: "string", Without: withoutConfig}},
		},
	}
}

// requestsServed need no method to be there: what codex does not ask is not answered.
func requestsServed() []Message {
	decisions := []string{`{"decision":"accept"}`, `{"decision":"acceptForSession"}`, `{"decision":"decline"}`, `{"decision":"cancel"}`}
	reviews := []string{
		`{"decision":"approved"}`, `{"decision":"approved_for_session"}`, `{"decision":{"denied":{"rejection":"no"}}}`, `{"decision":"abort"}`,
	}
	forSession := map[string]string{`{"decision":"acceptForSession"}`: `{"decision":"accept","acceptSettings":{"forSession":true}}`}
	nothing := map[string]string{"decision": ""} // asked by the threads of older versions only, of which there are none
	return []Message{
		{Method: "item/commandExecution/requestApproval", Says: decisions, Instead: forSession},
		{Method: "item/fileChange/requestApproval", Says: decisions, Instead: forSession},
		{Method: "execCommandApproval", Says: reviews, Spare: nothing},
		{Method: "applyPatchApproval", Says: reviews, Spare: nothing},
		{Method: "item/permissions/requestApproval", Says: []string{
			`{"permissions":{},"scope":"turn"}`, `{"permissions":{"network":{"enabled":true},"fileSystem":{"write":["/opt"]}},"scope":"session"}`,
		}},
		{Method: "item/tool/requestUserInput", Says: []string{`{"answers":{}}`, `{"answers":{"q1":{"answers":["Yes"]}}}`}},
		{Method: "mcpServer/elicitation/request", Says: []string{
			`{"action":"accept","content":{"region":"eu"},"_meta":{"persist":"session"}}`, `{"action":"decline","content":null,"_meta":null}`,
			`{"action":"cancel","content":null,"_meta":null}`,
		}},
		{
			Method: "item/tool/call", Says: []string{toolSays},
			Instead: map[string]string{toolSays: `{"output":"{}","success":true}`},
			Reads:   []Member{{Path: "tool", Type: "string"}, {Path: "arguments"}},
		},
		{Method: "currentTime/read", Says: []string{`{"currentTimeAt":1795160235}`}},
		// Refused, for they are for clients that keep codex's login.
		{Method: "account/chatgptAuthTokens/refresh"},
		{Method: "attestation/generate"},
	}
}

func noticesRead() []Message {
	thread := Member{Path: "threadId", Type: "string", Without: withoutThread}
	item := []Member{thread, {Path: "item.type", Type: "string"}}
	return []Message{
		{Method: "turn/started", Reads: []Member{thread, {Path: "turn.id", Type: "string"}}},
		{Method: "turn/completed", Reads: []Member{
			thread,
			{Path: "turn.id", Type: "string"},
			{Path: "turn.status", Type: "string", Words: []string{"completed", "failed", "interrupted"}},
			{Path: "turn.error.message", Type: "string", Without: withoutError},
		}},
		{Method: "item/started", Reads: append(item, Member{Path: "item.id", Type: "string"})},
		{Method: "item/completed", Reads: append(
			item,
			Member{Path: "item.id", Type: "string"},
			Member{Path: "item(agentMessage).text", Type: "string", Without: withoutWords},
			Member{Path: "item(commandExecution).status", Type: "string", Words: []string{"completed", "failed"}},
			Member{Path: "item(commandExecution).aggregatedOutput", Type: "string", Without: withoutProbe},
		)},
		{Method: "error", Formerly: "error", Without: withoutError, Reads: []Member{
			{Path: "error.message", Type: "string"}, {Path: "willRetry", Type: "boolean", Without: "notices of retries may be taken for the last word"},
		}},
		{Method: "thread/tokenUsage/updated", Formerly: "token_count", Without: withoutTokens, Reads: []Member{
			{Path: "threadId", Type: "string"},
			{Path: "tokenUsage.total.totalTokens", Type: "integer"},
			{Path: "tokenUsage.total.inputTokens", Type: "integer"},
			{Path: "tokenUsage.total.cachedInputTokens", Type: "integer"},
			{Path: "tokenUsage.total.outputTokens", Type: "integer"},
			{Path: "tokenUsage.total.reasoningOutputTokens", Type: "integer"},
		}},
		{Method: "account/rateLimits/updated", Without: withoutLimits, Reads: []Member{
			{Path: "rateLimits.primary.usedPercent", Type: "integer", Without: withoutLimits},
			{Path: "rateLimits.primary.resetsAt", Type: "integer", Without: withoutLimits},
		}},
	}
}
