package doctor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/linear"
)

// trackerAnswer is what the tracker said when it was asked whether all exists that the workflow names.
type trackerAnswer struct {
	found linear.Verified
	err   error
	// date is the time that it says it is, at the instant now of this machine's clock; zero where it did not say.
	date, now time.Time
}

// trackerBound is for one answer of the tracker.
const trackerBound = 30 * time.Second

func (at *place) askTracker(ctx context.Context) *trackerAnswer {
	ctx, cancel := context.WithTimeout(ctx, trackerBound)
	defer cancel()
	t := at.cfg.Tracker
	watch := &dateWatch{next: at.transport(), now: at.p.Env.Now}
	client, err := linear.New(linear.Options{
		Endpoint: t.Endpoint, APIKey: t.APIKey.Reveal(), ProjectSlug: t.ProjectSlug,
		HTTP: &http.Client{Transport: watch, Timeout: trackerBound}, Now: at.p.Env.Now,
	})
	if err != nil {
		return &trackerAnswer{err: err}
	}
	defer watch.next.CloseIdleConnections()
	spec := linear.VerifySpec{States: slices.Concat(t.ActiveStates, t.TerminalStates), Labels: t.RequiredLabels, Assignee: t.Assignee}
	found, err := client.Verify(ctx, spec)
	date, now := watch.last()
	return &trackerAnswer{found: found, err: err, date: date, now: now}
}

// checkTracker asks the tracker whether all exists that the workflow names.
func checkTracker(_ context.Context, at *place) []finding {
	t := at.cfg.Tracker
	if t.APIKey == "" {
		return nil // the key's own check says so
	}
	answer := at.tracker()
	if answer.err != nil {
		return failed(answer.err)
	}
	found := answer.found
	list := []finding{well("%s answers %s for the project %s (%s)", t.Endpoint, found.Viewer.Name, found.Project.Name, found.Project.SlugID)}
	return append(list, unknownNames(t.NamedStates, found)...)
}

// unknownNames are those that the workflow names and the tracker does not have. A default that it does not have is no mistake.
func unknownNames(named []string, found linear.Verified) []finding {
	var list []finding
	for _, u := range found.UnknownStates {
		if slices.Contains(named, u.Name) {
			list = append(list, wary("the project has no state "+u.String(), "mend tracker.active_states or terminal_states, or add the state to the team"))
		}
	}
	for _, u := range found.UnknownLabels {
		list = append(list, wary("Linear has no label "+u.String(), "make it, or mend tracker.required_labels: until then no issue is taken"))
	}
	if u := found.UnknownAssignee; u != nil {
		list = append(list, wary("Linear knows nobody called "+u.String(), "mend tracker.assignee: until then no issue is taken"))
	}
	return list
}

// transport is that of a pass of this place: a proxy is known by variables of the process, not of the environment file.
func (at *place) transport() *http.Transport {
	t := &http.Transport{TLSHandshakeTimeout: 10 * time.Second}
	if at.as == asCalled {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// dateWatch notes what time the server says it is.
type dateWatch struct {
	next *http.Transport
	now  func() time.Time

	mu       sync.Mutex
	date, at time.Time
}

// RoundTrip implements http.RoundTripper.
func (w *dateWatch) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		w.mu.Lock()
		w.date, w.at = date, w.now()
		w.mu.Unlock()
	}
	return resp, nil
}

func (w *dateWatch) last() (date, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.date, w.at
}

// clockSlack is what a clock may be off before comments and due times are judged wrongly.
const clockSlack = time.Minute

// checkClock compares this machine's clock with the tracker's.
func checkClock(_ context.Context, at *place) []finding {
	if at.cfg.Tracker.APIKey == "" {
		return nil
	}
	answer := at.tracker()
	if answer.date.IsZero() {
		return nil // without an answer the tracker's check says so
	}
	off, side := answer.now.Sub(answer.date), "ahead of"
	if off < 0 {
		off, side = -off, "behind"
	}
	if off < clockSlack {
		return []finding{well("as the tracker's")}
	}
	return []finding{wary(fmt.Sprintf("it is %s %s the tracker's", strings.TrimSpace(term.Duration(off)), side),
		"set it (timedatectl set-ntp true): by it is judged which comments are new")}
}
