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

	"github.com/google/uuid"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	// pingTime is how long an ended pass waits for its pings. The first half is for a start
	// that was not answered yet.
	pingTime = 3 * time.Second
	// longestBody is the size of the largest summary in bytes; healthchecks.io stores 100 kB.
	longestBody = 90_000
)

// Ping reports a pass to a check in the protocol of healthchecks.io: that it starts, then
// whether it succeeded. The check raises the alarm if it hears nothing for longer than its
// period and grace time.
type Ping struct {
	url     *url.URL
	run     string // tells this pass from others
	started chan struct{}
	stop    context.CancelFunc // gives up the start
}

// Start reports in the background that a pass starts. It returns nil if the address is no URL.
func Start(address workflow.Secret) *Ping {
	u, err := url.Parse(address.Reveal())
	if err != nil || u.Host == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTime)
	p := &Ping{url: u, run: uuid.NewString(), started: make(chan struct{}), stop: cancel}
	go func() {
		defer close(p.started)
		_ = p.send(ctx, "start", "") // the end of the pass matters, and reports the error
	}()
	return p
}

// End reports how the pass ended, with a summary, and waits for the answer, at most for
// pingTime. The error contains neither the URL nor the summary.
func (p *Ping) End(failed bool, summary string) error {
	ctx, cancel := context.WithTimeout(context.Background(), pingTime)
	defer cancel()
	defer p.stop()
	select { // a start that arrives after the end would look like another pass
	case <-p.started:
	case <-time.After(pingTime / 2):
		p.stop()
	}
	kind := ""
	if failed {
		kind = "fail"
	}
	return p.send(ctx, kind, text.Within(summary, longestBody))
}

// Check tells the check's log that symphony can reach it, which neither counts as a pass nor
// as a failure.
func Check(ctx context.Context, address workflow.Secret) error {
	u, err := url.Parse(address.Reveal())
	if err != nil {
		return errors.New("not a URL")
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	p := &Ping{url: u, run: uuid.NewString()}
	return p.send(ctx, "log", "symphony doctor can reach this check")
}

// send makes a single request, to the URL of the check followed by the kind.
func (p *Ping) send(ctx context.Context, kind, body string) error {
	u := p.url.JoinPath(kind)
	query := u.Query()
	query.Set("rid", p.run)
	u.RawQuery = query.Encode()
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	answer, err := transport.Post(ctx, http.DefaultClient, u.String(), header, []byte(body))
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("no answer within %s", pingTime)
	case err != nil: // the error may contain the server's answer, which may repeat the URL
		secrets := workflow.Monitor{PingURL: workflow.Secret(p.url.String())}.Secrets()
		return errors.New(agent.NewRedactor(append(secrets, strings.Trim(p.url.Path, "/"))).Text(err.Error()))
	case answer.Status >= 300:
		// the answer may repeat the URL
		return fmt.Errorf("HTTP %d %s", answer.Status, http.StatusText(answer.Status))
	case bytes.Contains(answer.Body, []byte("(not found)")): // an old form of 404
		return errors.New("the check does not exist")
	}
	return nil
}
