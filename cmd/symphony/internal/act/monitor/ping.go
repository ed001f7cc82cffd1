// Package monitor tells others that passes run.
package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	// pingTime is how long an ended pass waits for the answer to its ping.
	pingTime = 3 * time.Second
	// longestBody is the size of the largest summary in bytes; healthchecks.io stores 100 kB.
	longestBody = 90_000
)

// Report tells a check in the protocol of healthchecks.io how a pass ended, with a summary, and
// waits for the answer. The check raises the alarm if it hears nothing for longer than its period
// and grace time. The error contains neither the URL nor the summary.
func Report(address workflow.Secret, failed bool, summary string) error {
	kind := ""
	if failed {
		kind = "fail"
	}
	return send(context.Background(), address, kind, text.Within(summary, longestBody))
}

// Check tells the check's log that symphony can reach it, which neither counts as a pass nor
// as a failure.
func Check(ctx context.Context, address workflow.Secret) error {
	return send(ctx, address, "log", "symphony doctor can reach this check")
}

// send makes a single request, to the URL of the check followed by the kind.
func send(ctx context.Context, address workflow.Secret, kind, body string) error {
	u, err := url.Parse(address.Reveal())
	if err != nil || u.Host == "" {
		return errors.New("not a URL")
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	answer, err := transport.Post(ctx, http.DefaultClient, u.JoinPath(kind).String(), header, []byte(body))
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("no answer within %s", pingTime)
	case err != nil: // the error may contain the server's answer, which may repeat the URL
		secrets := workflow.Monitor{PingURL: address}.Secrets()
		return errors.New(agent.NewRedactor(append(secrets, strings.Trim(u.Path, "/"))).Text(err.Error()))
	case answer.Status >= 300:
		// the answer may repeat the URL
		return fmt.Errorf("HTTP %d %s", answer.Status, http.StatusText(answer.Status))
	case bytes.Contains(answer.Body, []byte("(not found)")): // an old form of 404
		return errors.New("the check does not exist")
	}
	return nil
}
