package transport

import (
	"errors"
	"slices"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/reconcile"
)

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
