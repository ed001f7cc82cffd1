package github

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// logTimeout bounds the transfer of a log, which may have hundreds of megabytes.
const logTimeout = 2 * time.Minute

// readLog implements reconcile.Forge. GitHub redirects to a log at another host for a minute.
func (h hub) readLog(ctx context.Context, job int64) (string, error) {
	a, err := h.do(ctx, readActions, http.MethodGet, fmt.Sprintf("/actions/jobs/%d/logs", job), nil)
	if err != nil {
		if e, known := errors.AsType[*reconcile.Error](err); known && errors.Is(err, reconcile.ErrGone) {
			e.Hint = "the job is still at work, or its log was deleted; otherwise " + h.lacks(readActions)
		}
		return "", err
	}
	end := &text.Tail{Limit: reconcile.MaxLog}
	if err := h.download(ctx, a, end); err != nil {
		return "", h.Fail(
			"forge_api_request",
			fmt.Sprintf("the log of job %d was not transferred: %v", job, err),
		)
	}
	log, _ := end.Text()
	return strings.ToValidUTF8(h.Scrub(string(log)), "\uFFFD"), nil
}

// download writes the file to which an answer leads. The token is not sent there, and errors
// do not contain the address, which is a secret.
func (h hub) download(ctx context.Context, a transport.Answer, to io.Writer) error {
	at := a.Header.Get("Location")
	isSafe := strings.HasPrefix(at, "https://") || !strings.HasPrefix(h.Endpoint, "https://")
	if a.Status != http.StatusFound || !isSafe {
		return fmt.Errorf("the answer %d leads to no log", a.Status)
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return errors.New("its address is malformed")
	}
	answer, err := h.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("its host answers %d", answer.StatusCode)
	}
	_, err = io.Copy(to, answer.Body)
	return err
}

// rerun implements reconcile.Forge: it starts the failed jobs of a run again.
func (h hub) rerun(ctx context.Context, run int64) error {
	path := fmt.Sprintf("/actions/runs/%d/rerun-failed-jobs", run)
	_, err := h.do(ctx, runActions, http.MethodPost, path, nil)
	if err != nil && strings.Contains(err.Error(), "already running") {
		return nil
	}
	return err
}
