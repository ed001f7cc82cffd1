package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
)

type object = map[string]any

// The names of the GenAI conventions are drafts and will change. The names below are of this
// version.
const schema = "https://opentelemetry.io/schemas/1.41.0"

// span is a span in the JSON of OTLP.
type span struct {
	TraceID    string   `json:"traceId"`
	SpanID     string   `json:"spanId"`
	Parent     string   `json:"parentSpanId,omitempty"`
	Name       string   `json:"name"`
	Kind       int      `json:"kind"`
	Start      int64    `json:"startTimeUnixNano,string"`
	End        int64    `json:"endTimeUnixNano,string"`
	Attributes []object `json:"attributes"`
	Status     object   `json:"status,omitempty"`
}

// Numbers of OTLP.
const (
	kindInternal = 1
	kindClient   = 3
	statusError  = 2
)

// trace collects the spans of a run.
type trace struct {
	project  string
	machine  string // on which symphony runs, as its team names it
	prices   reconcile.Prices
	content  bool // also prompts, messages, commands and their output
	redactor *agent.Redactor

	run   reconcile.Run
	spans []*span
	turns []*turn          // in the log
	turn  *turn            // the running turn, or nil
	items map[string]*span // that have not ended, by thread and id
	used  reconcile.Tokens // by all threads so far, also in earlier runs
}

// turn is a turn of the agent, and the tokens that its threads had used at its end.
type turn struct {
	*span
	number int
	used   reconcile.Tokens
	words  string // the agent's last message
}

// read makes the spans of an ended run, its turns and their items. Without a log there is only
// the span of the run.
func (t *trace) read(stateDir string) error {
	r := t.run
	t.items = map[string]*span{}
	s := t.add(agent.SpanID(r.ID, "run"), nil, "invoke_workflow", t.project, r.StartedAt)
	// The totals of a run and of a turn have different names, so that no sum over spans counts
	// twice.
	t.set(
		s,
		"gen_ai.workflow.name",
		t.project,
		"symphony.issue.identifier",
		r.Identifier,
		"symphony.run.id",
		r.ID,
		"symphony.run.attempt",
		r.Attempt,
		"symphony.run.outcome",
		string(r.Outcome),
		"symphony.run.host",
		r.Host,
		"symphony.run.input_tokens",
		r.Tokens.Input,
		"symphony.run.output_tokens",
		r.Tokens.Output,
	)
	t.setCost(s, "symphony.run.cost", r.Tokens)
	if r.Outcome != reconcile.Succeeded && r.Outcome != reconcile.Canceled {
		t.fail(s, cmp.Or(r.ErrorCode, string(r.Outcome)), r.ErrorText)
	}
	s.End = r.EndedAt.UnixNano()
	err := eventlog.Each(stateDir, r.ID, t.onEvent)
	t.endTurn(r.EndedAt)
	for _, s := range t.items {
		s.End = max(s.Start, r.EndedAt.UnixNano())
		t.fail(s, "unended", "")
	}
	t.addUsage()
	return err
}

// add begins a span. Only the span of the run is without a parent.
func (t *trace) add(id string, parent *span, operation, name string, start time.Time) *span {
	s := &span{
		TraceID: agent.TraceID(t.run.ID),
		SpanID:  id,
		Name:    operation + " " + name,
		Kind:    kindInternal,
		Start:   start.UnixNano(),
	}
	if parent != nil {
		s.Parent = parent.SpanID
	}
	t.set(s, "gen_ai.operation.name", operation)
	t.spans = append(t.spans, s)
	return s
}

// set adds attributes, pairs of a key and a value, without secrets. It leaves out empty texts.
func (t *trace) set(s *span, pairs ...any) {
	for pair := range slices.Chunk(pairs, 2) {
		value := pair[1]
		if words, is := value.(string); is {
			value = t.redactor.Text(words)
		}
		s.Attributes = append(s.Attributes, attributes(pair[0], value)...)
	}
}

// attributes returns pairs of a key and a value as attributes of OTLP. It leaves out empty
// texts.
func attributes(pairs ...any) (list []object) {
	for pair := range slices.Chunk(pairs, 2) {
		value := object{"doubleValue": pair[1]}
		switch v := pair[1].(type) {
		case string:
			if v == "" {
				continue
			}
			value = object{"stringValue": v}
		case int, int64:
			value = object{"intValue": fmt.Sprint(v)}
		}
		list = append(list, object{"key": pair[0], "value": value})
	}
	return list
}

// setContent is set for texts that leave the machine only with --content.
func (t *trace) setContent(s *span, pairs ...any) {
	if t.content {
		t.set(s, pairs...)
	}
}

// setCost sets the cost of tokens, if the model of the run has a price.
func (t *trace) setCost(s *span, key string, used reconcile.Tokens) {
	price, known := t.prices.Of(t.run.Model)
	several := strings.Contains(t.run.Model, "+") // how much each of them used is not recorded
	if !known || several {
		return
	}
	t.set(s, key, price.Cost(used), "symphony.cost.currency", t.prices.Currency)
}

// fail marks a span as failed. The message is content, because it may quote the agent.
func (t *trace) fail(s *span, code, message string) {
	t.set(s, "error.type", code)
	s.Status = object{"code": statusError}
	if t.content && message != "" {
		s.Status["message"] = t.redactor.Text(message)
	}
}

// onEvent adds an event of the log to the spans.
func (t *trace) onEvent(e agent.Event) {
	u := e.Usage // of a thread, or of all at the end of a turn
	if u != nil && u.Total > t.used.Total {
		t.used = reconcile.Tokens{
			Input:     u.Input,
			Cached:    u.CachedInput,
			Output:    u.Output,
			Reasoning: u.Reasoning,
			Total:     u.Total,
		}
	}
	switch e.Name {
	case agent.EventPrompt:
		t.endTurn(e.At)
		t.beginTurn(e)
	case agent.EventTurnFailed, agent.EventTurnCancelled, agent.EventTurnEndedWithError:
		if t.turn != nil {
			t.fail(t.turn.span, e.Name, e.Message)
		}
		t.endTurn(e.At)
	case agent.EventTurnCompleted:
		t.endTurn(e.At)
	default:
		i := e.Item
		switch {
		case i.Works():
			t.addItem(e)
		case i != nil && i.Kind == agent.ItemMessage && i.Ended && t.turn != nil && e.ThreadID == t.run.ThreadID:
			t.turn.words = i.Text
		}
	}
}

// beginTurn begins the span of a turn at its prompt.
func (t *trace) beginTurn(e agent.Event) {
	var prompt agent.PromptEvent
	_ = json.Unmarshal(e.Raw, &prompt) // as the worker wrote it
	kind := cmp.Or(t.run.Agent.Kind, workflow.DefaultAgent)
	row, _ := wiring.AgentOf(kind) // a kind without a row has no provider
	s := t.add(agent.SpanID(t.run.ID, "turn", prompt.Turn), t.spans[0], "invoke_agent", kind, e.At)
	s.Kind = kindClient
	t.set(
		s,
		"gen_ai.agent.name",
		kind,
		"gen_ai.provider.name",
		row.Provider,
		"gen_ai.request.model",
		t.run.Model,
		"gen_ai.conversation.id",
		t.run.ThreadID,
		"symphony.turn.number",
		prompt.Turn,
	)
	t.setContent(s, "gen_ai.input.messages", message("user", prompt.Text))
	t.turn = &turn{span: s, number: prompt.Turn}
	t.turns = append(t.turns, t.turn)
}

// message returns a message in the form of the conventions.
func message(role, words string) string {
	return string(text.JSON([]any{object{
		"role":          role,
		"finish_reason": "stop",
		"parts":         []any{object{"type": "text", "content": words}},
	}}))
}

// endTurn ends the running turn, if there is one.
func (t *trace) endTurn(at time.Time) {
	if t.turn == nil {
		return
	}
	t.turn.End = at.UnixNano()
	t.turn.used = t.used
	t.setContent(t.turn.span, "gen_ai.output.messages", message("assistant", t.turn.words))
	t.turn = nil
}

// addUsage adds the usage of each turn. Before the first turn, a resumed thread had used the
// difference to the total of the run. If the beginning of the log is lost, the usage of its
// first turn is unknown.
func (t *trace) addUsage() {
	before := t.used.Since(t.run.Tokens)
	for i, turn := range t.turns {
		used := turn.used.Since(before)
		if used.Total > 0 && (i > 0 || turn.number == 1) {
			t.set(
				turn.span,
				"gen_ai.usage.input_tokens",
				used.Input,
				"gen_ai.usage.cache_read.input_tokens",
				used.Cached,
				"gen_ai.usage.output_tokens",
				used.Output,
				"gen_ai.usage.reasoning.output_tokens",
				used.Reasoning,
			)
			t.setCost(turn.span, "symphony.turn.cost", used)
		}
		if turn.used.Total > 0 {
			before = turn.used
		}
	}
}

// addItem adds the start or the end of an item. Either may be missing in a log.
func (t *trace) addItem(e agent.Event) {
	i := e.Item
	key := e.ThreadID + "/" + e.Item.ID
	s := t.items[key]
	if s == nil {
		parent := t.spans[0]
		if t.turn != nil {
			parent = t.turn.span
		}
		var other struct {
			Params struct{ Item struct{ Type string } }
		}
		_ = json.Unmarshal(e.Raw, &other) // which only items of other kinds have
		kinds := map[agent.ItemKind]string{
			agent.ItemCommand:    "shell",
			agent.ItemFileChange: "apply_patch",
		}
		name := cmp.Or(kinds[i.Kind], i.Tool, other.Params.Item.Type, string(i.Kind))
		s = t.add(agent.SpanID(t.run.ID, "item", key, len(t.spans)), parent, "execute_tool", name, e.At)
		t.set(s, "gen_ai.tool.name", name, "gen_ai.tool.call.id", i.ID)
		t.items[key] = s
	}
	if !i.Ended {
		return
	}
	delete(t.items, key)
	s.End = e.At.UnixNano()
	if i.DurationMS != nil { // the agent may report the start only at the end
		s.Start = min(s.Start, s.End-*i.DurationMS*int64(time.Millisecond))
	}
	if i.ExitCode != nil {
		t.set(s, "process.exit.code", *i.ExitCode)
	}
	if i.Failed() {
		t.fail(s, cmp.Or(i.Status, "failed"), "")
	}
	arguments := i.Command + i.Call
	if len(i.Changes) > 0 {
		arguments = string(text.JSON(i.Changes))
	}
	t.setContent(s, "gen_ai.tool.call.arguments", arguments, "gen_ai.tool.call.result", i.Output+i.Result)
}
