package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// requests answers all of codex's requests, because without an answer the turn would wait
// forever.
type requests struct {
	o      *agent.Options
	conn   *conn
	thread *thread

	mu   sync.Mutex
	open map[string]*request // requests that a goroutine answers, by id

	granted sync.Map // approvals for the session, by grantKey
}

// request is a request of codex. Its event shows how it was answered.
type request struct {
	origin *origin
	id     json.RawMessage
	event  agent.Event

	asked  bool // an operator is asked
	ctx    context.Context
	cancel context.CancelFunc
}

// serve handles a request without blocking. The reader calls it.
func (q *requests) serve(m *wire.Message) {
	from := wire.Read[origin](m.Params)
	r := &request{
		origin: from,
		id:     m.ID,
		event:  agent.Event{ThreadID: from.threadID(), TurnID: from.turnID(), Raw: bytes.Clone(m.Raw)},
	}
	switch m.Method {
	case "item/tool/call":
		q.serveTool(r, wire.Read[toolCall](m.Params))
	case "item/commandExecution/requestApproval":
		p := wire.Read[commandAsked](m.Params)
		q.serveApproval(r, commandRequest(p, q.thread.workplace()), itemAnswers)
	case "item/fileChange/requestApproval":
		p := wire.Read[patchAsked](m.Params)
		q.serveApproval(r, patchRequest(p, q.thread.patch(from), q.thread.workplace()), itemAnswers)
	case "execCommandApproval": // this method and the next belong to the first version of the protocol
		p := wire.Read[commandAsked](m.Params)
		q.serveApproval(r, commandRequest(p, q.thread.workplace()), reviewAnswers)
	case "applyPatchApproval":
		p := wire.Read[patchAsked](m.Params)
		q.serveApproval(r, patchRequest(p, p.reviewedChanges(), q.thread.workplace()), reviewAnswers)
	case "item/permissions/requestApproval":
		p := wire.Read[permissionsAsked](m.Params)
		answers := permissionAnswers(p.Permissions)
		q.serveApproval(r, permissionsRequest(p, q.thread.workplace()), answers)
	case "mcpServer/elicitation/request":
		q.serveElicitation(r, wire.Read[elicitation](m.Params))
	case "item/tool/requestUserInput":
		q.serveQuestions(r, wire.Read[inputAsked](m.Params))
	case "currentTime/read":
		now := object{"currentTimeAt": time.Now().Unix()}
		q.reply(r, agent.EventNotification, "codex asks for the time", now)
	default: // unknown, or for clients that manage codex's login
		message := "symphony does not support " + m.Method
		refusal := object{"id": m.ID, "error": object{"code": wire.MethodNotFound, "message": message}}
		reason := wire.Read[demand](m.Params).Reason
		q.send(r, agent.EventRequestRefused, wire.Join("refused: "+message, reason), refusal, nil)
	}
}

// reply answers a request with a result.
func (q *requests) reply(r *request, event, line string, result object) {
	q.send(r, event, line, object{"id": r.id, "result": result}, nil)
}

// send sends an answer, and then emits an event about it. sent, which may be nil, is called
// after the answer is written.
func (q *requests) send(r *request, event, line string, answer object, sent func()) {
	if err := q.conn.Send(answer, sent); err != nil {
		line += " (not answered: " + err.Error() + ")"
	}
	q.emit(r, event, line)
}

// emit emits an event about a request. Only the first event of a request carries the request
// itself as its payload.
func (q *requests) emit(r *request, name, line string) {
	e := r.event
	e.Name = name
	e.Message = line
	r.event.Raw = nil
	q.conn.Emit(e)
}

// begin records a request whose answer takes time. Its context ends with the turn, the request
// or the session.
func (q *requests) begin(r *request) {
	parent := q.thread.life
	if t := q.thread.current(); t != nil {
		parent = t.ctx
	}
	r.ctx, r.cancel = context.WithCancel(parent)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open[string(r.id)] = r
}

// finish ends a request that was answered, or that codex resolved. It returns false if the
// request had already ended.
func (q *requests) finish(id json.RawMessage) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.open[string(id)]
	if r != nil {
		// first: a check of the clock must find either the open request or this progress
		q.thread.progressed()
		delete(q.open, string(id))
		r.cancel()
	}
	return r != nil
}

// pending counts the unanswered requests, and how many of them wait for an operator.
func (q *requests) pending() (open, asked int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.open {
		if r.asked {
			asked++
		}
	}
	return len(q.open), asked
}

// serveTool runs a tool in a goroutine and answers its call. A resumed thread may have tools
// that this session does not offer.
func (q *requests) serveTool(r *request, p *toolCall) {
	answer := func(event string, result agent.ToolResult) {
		q.reply(r, event, "tool "+p.Tool+" "+string(p.Arguments), object{
			"contentItems": []object{{"type": "inputText", "text": result.Text}},
			"success":      result.Success,
		})
	}
	isOffered := slices.ContainsFunc(q.o.Tools, func(t agent.Tool) bool { return t.Name == p.Tool })
	if q.o.CallTool == nil || !isOffered {
		refusal := text.JSON(struct {
			Success bool   `json:"success"`
			Error   string `json:"error"`
			Tool    string `json:"tool"`
		}{Error: "unsupported_tool_call", Tool: p.Tool})
		answer(agent.EventUnsupportedToolCall, agent.ToolResult{Text: string(refusal)})
		return
	}
	q.begin(r)
	go func() {
		result := q.o.CallTool(r.ctx, p.Tool, p.Arguments)
		event := agent.EventToolCallCompleted
		if !result.Success {
			event = agent.EventToolCallFailed
		}
		q.finish(r.id)
		answer(event, result)
	}()
}

// response is an answer to codex, with the event that reports it.
type response struct {
	event, line string
	result      object
}

// ask passes a request to an operator, and answers with the result of respond for the
// decision. The clock of the turn is paused until then.
func (q *requests) ask(
	r *request, what agent.Request, event, line string, respond func(agent.Decision) response,
) {
	if q.o.Ask == nil {
		to := respond(agent.Decision{Reason: "no operator can be asked"})
		q.reply(r, to.event, to.line, to.result)
		return
	}
	r.asked = true
	q.begin(r)
	q.emit(r, event, line)
	go func() {
		decision := q.o.Ask(r.ctx, what)
		cancelled := r.ctx.Err() != nil // the turn or the session ended
		settled := !q.finish(r.id)      // codex resolved the request
		withdrawn := "withdrawn before a decision: " + kindText(&what) + ": " + what.Summary
		switch {
		case settled, cancelled && q.thread.isOurs(r.origin):
			q.emit(r, agent.EventRequestWithdrawn, withdrawn)
		case cancelled:
			// The turn of a sub-agent may outlive ours, and would wait forever.
			to := respond(agent.Decision{Reason: "the turn has ended"})
			q.reply(r, agent.EventRequestWithdrawn, withdrawn, to.result)
		default:
			to := respond(decision)
			q.send(r, to.event, to.line, object{"id": r.id, "result": to.result}, decision.Sent)
		}
	}()
}

func by(d agent.Decision) string {
	if d.By == "" {
		return ""
	}
	return " by " + d.By
}

// answers are the possible answers to a request for approval, in the shape that its method
// wants.
type answers struct {
	once object
	// for the session; nil if symphony remembers the approval itself, because codex would
	// compare names, which can become links
	session   object
	automatic object // for agent.ApprovalApprove: once or session
	denied    object
	ended     object // denies, and ends the turn if the method allows that
}

// itemAnswers are the answers for commands and patches.
var itemAnswers = answers{
	once:      object{"decision": "accept"},
	automatic: object{"decision": "acceptForSession"},
	denied:    object{"decision": "decline"},
	ended:     object{"decision": "cancel"},
}

// reviewAnswers are the answers for commands and patches in the first version of the protocol.
var reviewAnswers = answers{
	once:      object{"decision": "approved"},
	automatic: object{"decision": "approved_for_session"},
	denied:    object{"decision": "denied"},
	ended:     object{"decision": "abort"},
}

// toolAnswers are the answers for tools of MCP servers. "always" is not among them: codex
// would write it into its configuration.
var toolAnswers = answers{
	once:      object{"action": "accept", "content": object{}, "_meta": nil},
	session:   acceptForSession,
	automatic: acceptForSession,
	denied:    object{"action": "decline", "content": nil, "_meta": nil},
	ended:     object{"action": "cancel", "content": nil, "_meta": nil},
}

var acceptForSession = object{
	"action":  "accept",
	"content": object{},
	"_meta":   object{"persist": "session"},
}

// permissionAnswers grant exactly the requested permissions. Members that are null are left
// out, because codex refuses them in an answer.
func permissionAnswers(asked json.RawMessage) answers {
	var wanted map[string]map[string]any
	wire.Unmarshal(asked, &wanted)
	granted := object{}
	for name, fields := range wanted {
		if fields != nil {
			maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
			granted[name] = fields
		}
	}
	none := object{"permissions": object{}, "scope": "turn"}
	once := object{"permissions": granted, "scope": "turn"}
	return answers{
		once:      once,
		session:   object{"permissions": granted, "scope": "session"},
		automatic: once,
		denied:    none,
		ended:     none,
	}
}

// serveApproval answers a request for approval according to the policy, or passes it to an
// operator.
func (q *requests) serveApproval(r *request, asked approval, a answers) {
	line := wire.Join("approve "+kindText(&asked.Request), asked.Summary)
	if asked.OutsideSandbox {
		line += " (outside the sandbox)"
	}
	line = wire.Join(line, asked.Reason)
	switch q.o.OnApproval {
	case agent.ApprovalApprove:
		q.reply(r, agent.EventApprovalAutoApproved, line, a.automatic)
	case agent.ApprovalDeny:
		q.reply(r, agent.EventApprovalDenied, line, a.denied)
	case agent.ApprovalAsk:
		q.askApproval(r, asked, line, a)
	default:
		// first, because the turn is interrupted next
		q.reply(r, agent.EventApprovalRequired, line, a.ended)
		q.thread.fail(agent.CodeApprovalRequired, "the agent asks for approval: "+line)
	}
}

// askApproval passes a request for approval to an operator, unless an operator approved the
// same for the session before, or an approval could take effect elsewhere.
func (q *requests) askApproval(r *request, asked approval, line string, a answers) {
	if path := asked.replaceable(); path != "" {
		line = "denied: the agent could replace " + path + " by a link later: " + line
		q.reply(r, agent.EventApprovalDenied, line, a.denied)
		return
	}
	key := asked.grantKey()
	if _, granted := q.granted.Load(key); granted {
		q.reply(r, agent.EventApprovalGranted, "approved for the session before: "+line, a.once)
		return
	}
	shown := asked.Request
	if asked.cwd != nil {
		shown.Cwd = asked.cwd.real.Path
	}
	q.ask(r, shown, agent.EventApprovalRequested, line, func(d agent.Decision) response {
		line := kindText(&shown) + ": " + shown.Summary
		switch {
		case d.Expired:
			return response{agent.EventRequestExpired, "no decision in time, denied: " + line, a.denied}
		case !d.Approve:
			return response{agent.EventApprovalDenied, wire.Join("denied"+by(d)+": "+line, d.Reason), a.denied}
		case slices.ContainsFunc(asked.targets(), target.moved):
			line = "denied: it would take effect elsewhere now, because a link was made meanwhile: " + line
			return response{agent.EventApprovalDenied, line, a.denied}
		case !d.ForSession:
			return response{agent.EventApprovalGranted, "approved" + by(d) + ": " + line, a.once}
		}
		line = "approved" + by(d) + " for the session: " + line
		if a.session != nil {
			return response{agent.EventApprovalGranted, line, a.session}
		}
		q.granted.Store(key, true)
		return response{agent.EventApprovalGranted, line, a.once}
	})
}

// serveQuestions answers item/tool/requestUserInput.
func (q *requests) serveQuestions(r *request, p *inputAsked) {
	nothing := object{"answers": object{}}
	what := questionsRequest(p)
	switch {
	case q.o.OnQuestion != agent.QuestionAsk:
		q.reply(r, agent.EventTurnInputRequired, what.Summary, nothing)
		q.thread.fail(agent.CodeTurnInputRequired, "the agent asks a question: "+what.Summary)
	case len(what.Questions) == 0:
		q.reply(r, agent.EventQuestionDeclined, "a request without questions got an empty answer", nothing)
	default:
		q.askQuestions(r, what, nothing)
	}
}

// serveElicitation answers mcpServer/elicitation/request: codex's question whether a tool of an
// MCP server may run. A form of the server itself is declined, and the turn goes on.
func (q *requests) serveElicitation(r *request, p *elicitation) {
	tool, isTool := toolRequest(p)
	if !isTool {
		line := "declined: " + wire.Join("a form of MCP server "+p.ServerName, p.Message)
		q.reply(r, agent.EventQuestionDeclined, line, toolAnswers.denied)
		return
	}
	q.serveApproval(r, newApproval(tool, q.thread.workplace(), nil), toolAnswers)
}

// askQuestions passes questions to an operator. nothing is the answer if none is answered.
func (q *requests) askQuestions(r *request, what agent.Request, nothing object) {
	line := "asks the operator: " + what.Summary
	q.ask(r, what, agent.EventQuestionAsked, line, func(d agent.Decision) response {
		if d.Expired {
			return response{agent.EventRequestExpired, "no answer in time: " + what.Summary, nothing}
		}
		shown := withoutSecrets(what.Questions, d.Answers)
		if len(shown) == 0 {
			line := wire.Join("not answered"+by(d)+": "+what.Summary, d.Reason)
			return response{agent.EventQuestionDeclined, line, nothing}
		}
		answers := object{}
		for _, question := range what.Questions {
			if texts := d.Answers[question.ID]; len(texts) > 0 {
				answers[question.ID] = object{"answers": texts}
			}
		}
		line := "answered" + by(d) + ": " + strings.Join(shown, " / ")
		return response{agent.EventQuestionAnswered, line, object{"answers": answers}}
	})
}

// withoutSecrets returns the questions that were answered with their answers, such as "Which
// way? → left". It hides the answers to secret ones.
func withoutSecrets(questions []agent.Question, answers map[string][]string) []string {
	var shown []string
	for _, question := range questions {
		texts := answers[question.ID]
		if len(texts) == 0 {
			continue
		}
		answer := strings.Join(texts, ", ")
		if question.Secret {
			answer = "(not shown)"
		}
		shown = append(shown, question.Text+" → "+answer)
	}
	return shown
}
