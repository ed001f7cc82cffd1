package mcpserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// expiring is a context whose deadline has come once over is closed.
type expiring struct {
	context.Context
	over chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A message that did not arrive in time is sent again by its id, also if the host chose none:
// otherwise the agent would get it twice.
func TestMessageTooLateNamesItsID(t *testing.T) {
	m := newMachine(t)
	test.OK(t, m.state.DB.Journal.BeginCall(t.Context(), "t", time.Now()))
	c := conversationTools{caller: caller{agents: m.state, timeout: time.Minute}}
	ctx := expiring{t.Context(), make(chan struct{})}
	failed := make(chan error, 1)
	go func() {
		_, err := c.message(ctx, "one", MessageParams{
			ConversationID: "c",
			Items:          []item{{Type: "text", Text: "hello"}},
		})
		failed <- err
	}()
	var steer reconcile.Call
	test.Until(t, "the message is stored", func() bool {
		for _, call := range test.Must(m.state.DB.Clients.CallsOf(t.Context(), m.run.ID)) {
			if call.Verb == reconcile.CallSteer {
				steer = call
			}
		}
		return steer.ID != ""
	})
	close(ctx.over)
	known := exit.From(<-failed)
	test.Equal(t, "the code", known.Code, agents.CodeTimeout)
	id := chosenID("one", steer.ID[:len(steer.ID)-len(steerSuffix)])
	test.Contains(t, "the hint", known.Hint, fmt.Sprintf("with the id %q", id))
}

// A conversation that has no thread yet is not the conversation without a name.
func TestConversationWithoutID(t *testing.T) {
	m := newMachine(t)
	c := conversationTools{caller: caller{agents: m.state}}
	_, found, err := c.find(t.Context(), "one", "")
	test.OK(t, err)
	test.Equal(t, "found", found, false)
}

// A workflow that can't be read does not mean that the operator permits no deliveries.
func TestDeliveryWithUnreadableWorkflow(t *testing.T) {
	m := newMachine(t)
	p := wiring.NewProject(m.env, filepath.Join(t.TempDir(), "WORKFLOW.md"), t.TempDir())
	_, err := changeTools{agents: m.state, project: p}.destination()
	test.Equal(t, "the code", exit.From(err).Code, "missing_workflow_file")
}

// Without permission nothing can be delivered, and there is no tool for it. One that a workflow has
// permitted is refused once that has changed.
func TestDeliveryNotPermitted(t *testing.T) {
	m := newMachine(t)
	test.Equal(t, "without a workflow", changeTools{agents: m.state}.canDeliver(), false)
	path := filepath.Join(t.TempDir(), "WORKFLOW.md")
	c := changeTools{agents: m.state, project: wiring.NewProject(m.env, path, t.TempDir())}
	for settings, permitted := range map[string]bool{
		"": false,
		"repository:\n  url: https://git.example.org/x.git\n  deliver: branch\n": true,
	} {
		workflow := "---\ntracker:\n  kind: file\n  provider:\n    path: issues\n" + settings + "---\nDo it.\n"
		test.OK(t, os.WriteFile(path, []byte(workflow), 0o600))
		test.Equal(t, "with the settings "+settings, c.canDeliver(), permitted)
		if _, err := c.destination(); !permitted {
			test.Equal(t, "the code", exit.From(err).Code, "not_permitted")
		}
	}
}

// The number in an answer is written as an operator writes it.
func TestNumbersInForms(t *testing.T) {
	r := reconcile.Request{Kind: reconcile.QuestionRequest}
	r.Detail.Questions = make([]reconcile.RequestQuestion, 3)
	content := map[string]any{"answer1": 1e6, "answer2": 0.5, "answer3": true}
	want := requests.Decision{How: reconcile.DecideAnswer, Texts: []string{"1000000", "0.5", "true"}}
	test.Equal(t, "the decision", decisionOf(r, content), want)
}
