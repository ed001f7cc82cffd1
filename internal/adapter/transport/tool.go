package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// MaxToolAnswer and MaxToolBody bound what an agent's tool receives and sends, in bytes.
const (
	MaxToolAnswer = 1 << 20
	MaxToolBody   = 1 << 20
)

// Answered is the answer of an agent's tool that sends requests, as upstream's tool answers:
// {"status": 200, "body": …}. A body that is no JSON, such as the log of a job, becomes a text.
func (c *Client) Answered(a Answer) reconcile.ToolAnswer {
	body := json.RawMessage(bytes.TrimSpace(a.Body))
	switch {
	case len(body) == 0:
		body = json.RawMessage("null")
	case !json.Valid(body):
		body = text.JSON(string(body))
	}
	answer := text.JSON(struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}{a.Status, body})
	return reconcile.ToolAnswer{Text: c.Scrub(string(answer)), Success: a.Status/100 == 2}
}

// Refused is the answer of an agent's tool to a call that failed.
func (c *Client) Refused(err error) reconcile.ToolAnswer {
	answer := agenttool.Refused(c.Prefix+"_api_request", err)
	answer.Text = c.Scrub(answer.Text)
	return answer
}

// Unsure extends the error of a change that the tracker may have made, so that the agent does
// not simply repeat it.
func (c *Client) Unsure(err error) error {
	sent := []string{c.Prefix + "_api_request", c.Prefix + "_unknown_payload", "answer_too_large"}
	e, is := errors.AsType[*reconcile.Error](err)
	if !is || !slices.Contains(sent, e.Code) && !errors.Is(err, ErrServer) {
		return err // refused, and not carried out
	}
	extended := *e
	extended.Message += "; the change may have been made nevertheless: check before you send it again"
	return &extended
}
