package transport

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// Words complete the errors of a client for an operator.
type Words struct {
	Token string // who needs the rights, such as $GITLAB_TOKEN
	Place string // the repositories to which the token needs access
	Renew string // the remedy if the service does not accept the token
	// LimitCode is the code of the error of a limit; tracker_rate_limited if empty.
	LimitCode string
}

// At is a clause about the repositories, after the words in front of it: " and access to acme/shop".
// It is empty while no repository is known, as while init looks for one.
func (w Words) At(before string) string {
	if w.Place == "" {
		return ""
	}
	return before + w.Place
}

// Explain completes an error with the words and the next step for an operator. lacks says what
// the token may lack, if it was not allowed to make the request.
func (c *Client) Explain(err error, w Words, lacks string) error {
	e, known := errors.AsType[*reconcile.Error](err)
	if !known {
		return err
	}
	_, isLimit := errors.AsType[*RateLimited](err)
	switch {
	case isLimit && w.LimitCode != "":
		e.Code = w.LimitCode
	case e.Status == http.StatusUnauthorized:
		e.Hint = w.Renew
	case errors.Is(err, ErrKey):
		e.Hint = lacks
	case errors.Is(err, reconcile.ErrGone):
		e.Hint = fmt.Sprintf("it does not exist at %s, or %s", c.Endpoint, lacks)
	}
	if status, isStatus := strings.CutPrefix(e.Message, "HTTP "); isStatus {
		e.Message = c.Name + " answers " + status
	}
	return err
}
