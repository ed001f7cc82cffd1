package acp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// asks is a permission that an agent asks for.
func asks(id, title string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s",` +
		`"toolCall":{"toolCallId":"` + title + `","kind":"execute","title":"` + title + `"},` +
		`"options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}`
}

// Two permissions with one id are both cancelled: an operator's answer to the first would be
// taken for an answer to the second.
func TestTwoPermissionsWithOneID(t *testing.T) {
	_, p, wait := inTurn(t, "acp", agent.Options{OnApproval: agent.ApprovalAsk, Ask: waitForEnd})
	p.say(asks("7", "ls"), asks("7", "rm"))
	m := p.hear()
	test.Equal(t, "id", string(m.ID), "7")
	test.Equal(t, "answer", string(compact(m.Result)), `{"outcome":{"outcome":"cancelled"}}`)
	p.say(asks("8", "make"), `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":8}}`, ended)
	_, err := wait()
	test.OK(t, err)
	test.Equal(t, "withdrawn", strings.Count(p.names(), agent.EventRequestWithdrawn), 3)
}

// Only some requests wait for an operator, and none that is long: they are in the memory of the
// worker, which no sandbox limits.
func TestManyPermissions(t *testing.T) {
	_, p, wait := inTurn(t, "acp", agent.Options{OnApproval: agent.ApprovalAsk, Ask: waitForEnd})
	p.say(asks("1", strings.Repeat("x", longestRequest)))
	test.Equal(t, "cancelled first", string(p.hear().ID), "1")
	for i := range mostRequests + 1 {
		p.say(asks(strconv.Itoa(100+i), "ls"))
	}
	m := p.hear()
	test.Equal(t, "cancelled then", string(m.ID), strconv.Itoa(100+mostRequests))
	test.Equal(t, "answer", string(compact(m.Result)), `{"outcome":{"outcome":"cancelled"}}`)
	p.say(ended)
	_, err := wait()
	test.OK(t, err)
}

// What is too long for an operator is not repeated in memory, whatever the policy is.
func TestLongRequest(t *testing.T) {
	s, p, wait := inTurn(t, "acp", agent.Options{})
	long := toolCall{Title: "t", RawInput: []byte(`"` + strings.Repeat("x", longestRequest) + `"`)}
	test.Equal(t, "the summary", s.asRequest(&long, &call{title: "t"}).Summary, "t")
	p.say(ended)
	_, err := wait()
	test.OK(t, err)
}

// What comes after the end of a turn, and an answer that comes twice, change neither that turn
// nor the next one.
func TestAfterTheEnd(t *testing.T) {
	s, p, wait := inTurn(t, "acp", agent.Options{})
	p.say(chunk("One."), ended, ended, chunk("Late."), asks("0", "late"),
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",`+
			`"toolCallId":"c","kind":"execute","title":"late"}}}`)
	test.Contains(t, "answer to a permission without a turn", string(p.hear().Result), "cancelled")
	turn, err := wait()
	test.OK(t, err)
	test.Equal(t, "last message", turn.LastMessage, "One.")
	next := p.prompt(s, "go on")
	p.say(chunk("Two."), `{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}`)
	turn, err = next()
	test.OK(t, err)
	test.Equal(t, "last message", turn.LastMessage, "Two.")
}

// A flood is read to its end, whatever it consists of, and little of it is kept.
func TestFlood(t *testing.T) {
	s, p, wait := inTurn(t, "acp", agent.Options{})
	for i := range 3 * mostCalls {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{`+
			`"sessionUpdate":"tool_call","toolCallId":"c%d","kind":"other","title":"%[1]d"}}}`, i))
	}
	s.mu.Lock()
	kept := len(s.turn.calls)
	s.mu.Unlock()
	if kept > mostCalls {
		t.Errorf("%d calls are kept", kept)
	}
	p.say(chunk("Done."), ended)
	turn, err := wait()
	test.OK(t, err)
	test.Equal(t, "last message", turn.LastMessage, "Done.")
}

// What an agent says of calls that it does not end, and of itself, is kept as far as it is short.
func TestLongTexts(t *testing.T) {
	s, p, wait := inTurn(t, "acp", agent.Options{})
	long := strings.Repeat("x", 1<<20)
	for i := range 2 * mostOfCalls / len(long) {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{`+
			`"sessionUpdate":"tool_call","toolCallId":"c%d","kind":"execute","title":"%s"}}}`, i, long))
	}
	s.mu.Lock()
	kept := 0
	for _, c := range s.turn.calls {
		kept += len(c.title)
	}
	s.mu.Unlock()
	if kept < mostOfCalls/2 || kept > mostOfCalls {
		t.Errorf("%d bytes of titles are kept", kept)
	}
	p.say(chunk(long), ended)
	turn, err := wait()
	test.OK(t, err)
	test.Equal(t, "the message is cut", len(turn.LastMessage) < 2*maxBody, true)
}

// Long words and many denials of an agent are not repeated to it: what it does not read is in the
// memory of the worker.
func TestNothingLongIsRepeated(t *testing.T) {
	s, p := connect(t, "opencode", agent.Options{OnApproval: agent.ApprovalDeny})
	go p.answer(`{"sessionId":"s","configOptions":[{"id":"mode","currentValue":"build"},{"id":"model","currentValue":"m"}]}`)
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w", Model: "m"}))
	wait := p.prompt(s, "work")
	long := strings.Repeat("x", 1<<20)
	p.say(`{"jsonrpc":"2.0","id":7,"method":"` + long + `"}`)
	test.Equal(t, "the length of the answer", len(p.hear().Error.Message) < 1000, true)
	p.say(`{"jsonrpc":"2.0","id":"` + long + `","method":"a"}`) // is no request
	for i := range 2 * mostDenied {
		p.say(asks(strconv.Itoa(100+i), "ls"))
		p.hear()
	}
	p.say(`{"id":2,"result":{"stopReason":"end_turn"}}`)
	_, err := wait()
	test.OK(t, err)
	test.Equal(t, "denials that the next prompt names", len(s.denied), mostDenied)
}

// A session has an id that is no option of the agent's terminal.
func TestSessionIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"ses_1f-2.3:x": true, "": false, "--mcp-config=x": false, "a\x1b": false,
		strings.Repeat("x", 1000): false,
	} {
		test.Equal(t, id, isSessionID(id), want)
	}
}

// Tokens that can't be true are ignored, and the turn counts.
func TestImpossibleTokens(t *testing.T) {
	const most = "9223372036854775807"
	for name, used := range map[string]string{
		"negative":  `"inputTokens":-9999999999,"outputTokens":5`,
		"too many":  `"inputTokens":` + most,
		"overflows": `"inputTokens":` + most + `,"cachedWriteTokens":` + most + `,"cachedReadTokens":5`,
	} {
		t.Run(name, func(t *testing.T) {
			s, p, wait := inTurn(t, "acp", agent.Options{})
			p.say(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{` + used + `}}}`)
			_, err := wait()
			test.OK(t, err)
			test.Equal(t, "tokens", s.Usage(), agent.Usage{})
			test.Equal(t, "threads with known tokens", len(s.UsageByThread()), 0)
		})
	}
}

// An agent that ends in a turn ends the turn, also while a permission waits for an operator.
func TestDeathInATurn(t *testing.T) {
	asked := make(chan struct{})
	_, p, wait := inTurn(t, "acp", agent.Options{
		OnApproval: agent.ApprovalAsk,
		Ask: func(ctx context.Context, r agent.Request) agent.Decision {
			close(asked)
			return waitForEnd(ctx, r)
		},
	})
	p.say(asks("0", "make"))
	<-asked
	_ = p.out.Close()
	_, err := wait()
	test.Equal(t, "code", codeOf(err), agent.CodePortExit)
}
