package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// requests answers codex's requests. It answers every one, because without an answer the turn
// would wait forever.
type requests struct {
	o      *agent.Options
	conn   *conn
	thread *thread

	mu   sync.Mutex
	open map[string]*request // those that are answered in a goroutine, by id

	granted sync.Map // what was approved for the session, by grantKey
}

// request is a request of codex. Its event shows how it was answered.
type request struct {
	*params
	id    json.RawMessage
	event agent.Event

	asked  bool // an operator is asked
	ctx    context.Context
	cancel context.CancelFunc
}

// serve handles a request without blocking. The reader calls it.
func (q *requests) serve(m *message) {
	p := readParams(m.Params)
	r := &request{
		params: p,
		id:     m.ID,
		event:  agent.Event{ThreadID: p.threadID(), TurnID: p.turnID(), Raw: m.raw},
	}
	switch m.Method {
	case "item/tool/call":
		q.serveTool(r)
	case "item/commandExecution/requestApproval":
		q.serveApproval(r, commandRequest(p), itemAnswers)
	case "item/fileChange/requestApproval":
		changes, turn := q.thread.patch(p)
		q.serveApproval(r, patchRequest(p, changes, turn), itemAnswers)
	case "execCommandApproval": // this and the next one are of the first version of the protocol
		q.serveApproval(r, commandRequest(p), reviewAnswers)
	case "applyPatchApproval":
		_, turn := q.thread.patch(p)
		q.serveApproval(r, patchRequest(p, p.reviewedChanges(), turn), reviewAnswers)
	case "item/permissions/requestApproval":
		q.serveApproval(r, permissionsRequest(p), permissionAnswers(p.Permissions))
	case "mcpServer/elicitation/request":
		q.serveElicitation(r)
	case "item/tool/requestUserInput":
		q.serveQuestions(r)
	case "currentTime/read":
		q.reply(
			r,
			agent.EventNotification,
			"codex asks for the time",
			object{"currentTimeAt": time.Now().Unix()},
		)
	default: // unknown, or for clients that manage codex's login
		text := "symphony does not support " + m.Method
		refusal := object{"id": m.ID, "error": object{"code": codeMethodNotFound, "message": text}}
		q.send(r, agent.EventRequestRefused, join("refused: "+text, p.Reason), refusal, nil)
	}
}

// reply answers a request with a result.
func (q *requests) reply(r *request, event, line string, result object) {
	q.send(r, event, line, object{"id": r.id, "result": result}, nil)
}

// send sends an answer, and then emits an event about it. sent, which may be nil, is called
// once the answer has been written.
func (q *requests) send(r *request, event, line string, answer object, sent func()) {
	if err := q.conn.send(answer, sent); err != nil {
		line += " (not answered: " + err.Error() + ")"
	}
	q.emit(r, event, line)
}

// emit emits an event about a request. Only the first event of a request has the request
// itself as its payload.
func (q *requests) emit(r *request, name, line string) {
	e := r.event
	e.Name = name
	e.Message = line
	r.event.Raw = nil
	q.conn.emit(e)
}

// begin records a request whose answer takes time. Its context ends with the turn, the request
// or the session.
func (q *requests) begin(r *request, asked bool) {
	parent := q.thread.life
	if t := q.thread.current(); t != nil {
		parent = t.ctx
	}
	r.asked = asked
	r.ctx, r.cancel = context.WithCancel(parent)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open[string(r.id)] = r
}

// finish ends a request that was answered, or that codex has resolved. It returns false if the
// request had ended before.
func (q *requests) finish(id json.RawMessage) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.open[string(id)]
	if r != nil {
		// first: a check of the clock must find either the open request or this progress
		q.thread.sawLine(true)
		delete(q.open, string(id))
		r.cancel()
	}
	return r != nil
}

// pending counts the unanswered requests, and those of them that wait for an operator.
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
func (q *requests) serveTool(r *request) {
	answer := func(event string, result agent.ToolResult) {
		q.reply(r, event, "tool "+r.Tool+" "+string(r.Arguments), object{
			"contentItems": []object{{"type": "inputText", "text": result.Text}},
			"success":      result.Success,
		})
	}
	if q.o.CallTool == nil ||
		!slices.ContainsFunc(q.o.Tools, func(t agent.Tool) bool { return t.Name == r.Tool }) {
		text := fmt.Sprintf(`{"success":false,"error":"unsupported_tool_call","tool":%q}`, r.Tool)
		answer(agent.EventUnsupportedToolCall, agent.ToolResult{Text: text})
		return
	}
	q.begin(r, false)
	go func() {
		result := q.o.CallTool(r.ctx, r.Tool, r.Arguments)
		event := agent.EventToolCallCompleted
		if !result.Success {
			event = agent.EventToolCallFailed
		}
		q.finish(r.id)
		answer(event, result)
	}()
}

// verdict returns the event and the answer for an operator's decision.
type verdict func(agent.Decision) (event, line string, answer object)

// ask passes a request to an operator. The clock of the turn is paused until it ends.
func (q *requests) ask(r *request, what agent.Request, event, line string, verdict verdict) {
	if q.o.Ask == nil {
		event, line, answer := verdict(agent.Decision{Reason: "no operator can be asked"})
		q.reply(r, event, line, answer)
		return
	}
	q.begin(r, true)
	q.emit(r, event, line)
	go func() {
		decision := q.o.Ask(r.ctx, what)
		// the turn or the session has ended, or codex has resolved the request
		cancelled := r.ctx.Err() != nil
		settled := !q.finish(r.id) // codex has resolved it
		withdrawn := "withdrawn before a decision: " + kindText(&what) + ": " + what.Summary
		switch {
		case settled, cancelled && q.thread.isOurs(r.params):
			q.emit(r, agent.EventRequestWithdrawn, withdrawn)
		case cancelled:
			// The turn of a sub-agent may outlive ours, and would wait forever.
			_, _, answer := verdict(agent.Decision{Reason: "the turn has ended"})
			q.reply(r, agent.EventRequestWithdrawn, withdrawn, answer)
		default:
			event, line, answer := verdict(decision)
			q.send(r, event, line, object{"id": r.id, "result": answer}, decision.Sent)
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
	once, denied object
	// nil: symphony remembers the approval, because codex would compare names, which can
	// become links
	session   object
	automatic object // for agent.ApprovalApprove: once or session
	ended     object // denies, and ends the turn if the method allows that
}

// itemAnswers are the answers for commands and patches.
var itemAnswers = answers{
	once: object{"decision": "accept"}, automatic: object{"decision": "acceptForSession"},
	denied: object{"decision": "decline"}, ended: object{"decision": "cancel"},
}

// reviewAnswers are the answers for commands and patches in the first version of the protocol.
var reviewAnswers = answers{
	once: object{"decision": "approved"}, automatic: object{"decision": "approved_for_session"},
	denied: object{"decision": "denied"}, ended: object{"decision": "abort"},
}

// toolAnswers are the answers for tools of MCP servers. "always" is not among them: codex
// would write it into its configuration.
var toolAnswers = answers{
	once: object{"action": "accept", "content": object{}, "_meta": nil},
	session: object{
		"action":  "accept",
		"content": object{},
		"_meta":   object{"persist": "session"},
	},
	automatic: object{
		"action":  "accept",
		"content": object{},
		"_meta":   object{"persist": "session"},
	},
	denied: object{"action": "decline", "content": nil, "_meta": nil},
	ended:  object{"action": "cancel", "content": nil, "_meta": nil},
}

// permissionAnswers grant exactly what was requested. Members that are null are left out,
// because codex refuses them in an answer.
func permissionAnswers(asked json.RawMessage) answers {
	var wanted map[string]map[string]any
	unmarshal(asked, &wanted)
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
	what := asked.Request
	line := join("approve "+kindText(&what), what.Summary)
	if what.OutsideSandbox {
		line += " (outside the sandbox)"
	}
	line = join(line, what.Reason)
	switch q.o.OnApproval {
	case agent.ApprovalApprove:
		q.reply(r, agent.EventApprovalAutoApproved, line, a.automatic)
	case agent.ApprovalDeny:
		q.reply(r, agent.EventApprovalDenied, line, a.denied)
	case agent.ApprovalAsk:
		_, turn := q.thread.patch(r.params)
		if path := asked.replaceable(turn); path != "" {
			q.reply(
				r,
				agent.EventApprovalDenied,
				"denied: the agent could replace "+path+" by a link later: "+line,
				a.denied,
			)
			return
		}
		key := asked.grantKey()
		if _, granted := q.granted.Load(key); granted {
			q.reply(r, agent.EventApprovalGranted, "approved for the session before: "+line, a.once)
			return
		}
		for _, t := range asked.targets {
			if t.access == accessCwd {
				what.Cwd = t.place.Path
			}
		}
		q.ask(
			r,
			what,
			agent.EventApprovalRequested,
			line,
			func(d agent.Decision) (event, line string, answer object) {
				line = kindText(&what) + ": " + what.Summary
				switch {
				case d.Expired:
					return agent.EventRequestExpired, "no decision in time, denied: " + line, a.denied
				case d.Approve && slices.ContainsFunc(asked.targets, target.moved):
					return agent.EventApprovalDenied, "denied: it would take effect elsewhere now, because a link was made meanwhile: " + line, a.denied
				case !d.Approve:
					return agent.EventApprovalDenied, join("denied"+by(d)+": "+line, d.Reason), a.denied
				case d.ForSession:
					if answer = a.session; answer == nil {
						q.granted.Store(key, true)
						answer = a.once
					}
					return agent.EventApprovalGranted, "approved" + by(
						d,
					) + " for the session: " + line, answer
				}
				return agent.EventApprovalGranted, "approved" + by(d) + ": " + line, a.once
			},
		)
	default:
		// first, because the turn is interrupted next
		q.reply(r, agent.EventApprovalRequired, line, a.ended)
		q.thread.fail(agent.CodeApprovalRequired, "the agent asks for approval: "+line)
	}
}

// serveQuestions answers item/tool/requestUserInput.
func (q *requests) serveQuestions(r *request) {
	nothing := object{"answers": object{}}
	what := questionsRequest(r.params)
	switch {
	case q.o.OnQuestion != agent.QuestionAsk:
		q.reply(r, agent.EventTurnInputRequired, what.Summary, nothing)
		q.thread.fail(agent.CodeTurnInputRequired, "the agent asks a question: "+what.Summary)
	case len(what.Questions) == 0:
		q.reply(r, agent.EventQuestionDeclined, "a request without questions got an empty answer", nothing)
	default:
		q.askQuestions(r, what, nothing, func(given map[string][]string) (object, error) {
			answers := object{}
			for _, question := range what.Questions {
				if texts := given[question.ID]; len(texts) > 0 {
					answers[question.ID] = object{"answers": texts}
				}
			}
			return object{"answers": answers}, nil
		})
	}
}

// serveElicitation answers mcpServer/elicitation/request: a form of an MCP server, or codex's
// question whether a tool of the server may run.
func (q *requests) serveElicitation(r *request) {
	f, err := readForm(r.params)
	if tool, ok := toolRequest(r.params); ok && err == nil && len(f) == 0 {
		q.serveApproval(r, approval{tool, cwdTargets(r.params)}, toolAnswers)
		return
	}
	if q.o.OnQuestion != agent.QuestionAsk || err != nil {
		line := "declined"
		if err != nil {
			line += ", " + err.Error()
		}
		q.reply(
			r,
			agent.EventQuestionDeclined,
			line+": "+join("a form of MCP server "+r.ServerName, r.Message),
			toolAnswers.denied,
		)
		return
	}
	what := newRequest(
		r.params,
		agent.RequestQuestion,
		oneLine("MCP server "+r.ServerName+": "+cmp.Or(r.Message, "a form"), summaryLength),
	)
	what.Server = r.ServerName
	what.Reason = oneLine(r.Message, summaryLength)
	what.Questions = f.questions()
	q.askQuestions(r, what, toolAnswers.denied, func(given map[string][]string) (object, error) {
		content, err := f.content(given)
		return object{"action": "accept", "content": content, "_meta": nil}, err
	})
}

// askQuestions passes questions to an operator. nothing is the answer if no question is
// answered; give encodes the answers.
func (q *requests) askQuestions(
	r *request,
	what agent.Request,
	nothing object,
	give func(map[string][]string) (object, error),
) {
	q.ask(
		r,
		what,
		agent.EventQuestionAsked,
		"asks the operator: "+what.Summary,
		func(d agent.Decision) (event, line string, answer object) {
			var shown []string // questions and answers, without secrets
			for _, question := range what.Questions {
				if texts := d.Answers[question.ID]; len(texts) > 0 && question.Secret {
					shown = append(shown, question.Text+" → (not shown)")
				} else if len(texts) > 0 {
					shown = append(shown, question.Text+" → "+strings.Join(texts, ", "))
				}
			}
			if d.Expired {
				return agent.EventRequestExpired, "no answer in time: " + what.Summary, nothing
			}
			if len(shown) == 0 {
				return agent.EventQuestionDeclined, join(
					"not answered"+by(d)+": "+what.Summary,
					d.Reason,
				), nothing
			}
			answer, err := give(d.Answers)
			if err != nil {
				return agent.EventQuestionDeclined, "declined, " + err.Error() + ": " + what.Summary, nothing
			}
			return agent.EventQuestionAnswered, "answered" + by(d) + ": " + strings.Join(shown, " / "), answer
		},
	)
}
