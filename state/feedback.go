package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const watchColumns = `d.issue_id, coalesce((SELECT max(identifier) FROM runs WHERE runs.issue_id = d.issue_id),
		(SELECT max(identifier) FROM releases AS r WHERE r.issue_id = d.issue_id), ''),
	d.url, d.branch, d."commit", d.base, d.at, coalesce(nullif(d.pull_request, ''), w.pull_request),
	d.workflow, d.origin, d.proof,
	coalesce(c.status, ''),
	coalesce((SELECT nullif(delivery, '') ->> '$.handover.blocked' FROM runs AS r WHERE r.issue_id = d.issue_id
		ORDER BY id DESC LIMIT 1), '') <> '',
	CASE WHEN w.pull_request IS NULL THEN '' WHEN ` + same + ` THEN w.watch
		ELSE json_object('told', json_extract(w.watch, '$.told'), 'failures', json_extract(w.watch, '$.failures')) END`

// same is the condition that the stored watch is about the present pull request. After a push
// its address is not known again yet. The handled causes of the issue's earlier pull requests
// stay known, because they may be opened again.
const same = `d.pull_request IN ('', w.pull_request)`

func watchFields(w *reconcile.Watch) []any {
	return slices.Concat(
		[]any{&w.IssueID, &w.Identifier},
		deliveredFields(&w.Delivered),
		[]any{&w.Claim, &w.Blocked, jsonOf(w)})
}

// watched joins the last deliveries with the stored watches of their pull requests.
const watched = ` FROM deliveries AS d
	LEFT JOIN claims AS c USING (issue_id) LEFT JOIN watches AS w ON w.issue_id = d.issue_id
	WHERE (d.pull_request <> '' OR w.issue_id IS NOT NULL)`

const oneWatch = `SELECT ` + watchColumns + watched + ` AND d.issue_id = ?`

// Watches returns the watches of the pull requests from which something is still expected.
func (c *conn) Watches(ctx context.Context) ([]reconcile.Watch, error) {
	return readAll(ctx, c, "read the pull requests to watch", watchFields,
		`SELECT `+watchColumns+watched+` AND NOT coalesce(w.ended AND `+same+`, 0) ORDER BY d.issue_id`)
}

// Watch returns the watch of the pull request of an issue; false if there is none.
func (c *conn) Watch(ctx context.Context, issueID string) (reconcile.Watch, bool, error) {
	return readOne(ctx, c, "read what is known of the pull request", watchFields, oneWatch, issueID)
}

// saveWatch writes nothing to the disk if the watch is stored already.
func saveWatch(t tx, w reconcile.Watch) error {
	if w.Renamed != "" {
		err := t.run(`UPDATE deliveries SET pull_request = ? WHERE issue_id = ? AND pull_request = ?`,
			w.Renamed, w.IssueID, w.Delivered.PullRequest)
		if err != nil {
			return err
		}
		w.Delivered.PullRequest = w.Renamed
	}
	return t.run(`INSERT INTO watches (issue_id, pull_request, ended, watch) VALUES (?, ?, ?, ?)
		ON CONFLICT (issue_id) DO UPDATE
		SET pull_request = excluded.pull_request, ended = excluded.ended, watch = excluded.watch
		WHERE (watches.pull_request, watches.ended, watches.watch)
			IS NOT (excluded.pull_request, excluded.ended, excluded.watch)`,
		w.IssueID, w.Delivered.PullRequest, w.Ended, jsonOf(&w))
}

// changeWatch changes the stored watch of an issue. If change returns false, or nothing is stored and
// mustExist is not set, nothing is written.
func changeWatch(t tx, issueID string, mustExist bool, change func(*reconcile.Watch) bool) error {
	w, err := row(t, watchFields, oneWatch, issueID)
	if errors.Is(err, sql.ErrNoRows) && !mustExist {
		return nil
	}
	if err != nil || !change(&w) {
		return err
	}
	return saveWatch(t, w)
}

// EndRework records that the causes for which an issue came back are answered.
func (j Journal) EndRework(ctx context.Context, issueID string) error {
	return j.update(ctx, "record that a pull request was answered", full, func(t tx) error {
		return changeWatch(t, issueID, false, func(w *reconcile.Watch) bool {
			came := w.Rework != nil
			w.Rework = nil
			return came
		})
	})
}

// TakeResult records that an operator has taken the result of an issue as its pull request is now.
func (o Operator) TakeResult(ctx context.Context, issueID, by string) error {
	return o.update(ctx, "record that a result was taken", full, func(t tx) error {
		return changeWatch(t, issueID, true, func(w *reconcile.Watch) bool {
			w.Take(by)
			return true
		})
	})
}

// AcceptBase records that an operator has accepted the base that the pull request of an issue has now.
// It returns the watch.
func (o Operator) AcceptBase(ctx context.Context, issueID, by string) (accepted reconcile.Watch, err error) {
	err = o.update(ctx, "record that the base of a pull request was accepted", full, func(t tx) error {
		return changeWatch(t, issueID, true, func(w *reconcile.Watch) bool {
			w.Accept(by)
			accepted = *w
			return true
		})
	})
	return accepted, err
}

// BeginDisarm records that symphony takes back what it has asked the forge for.
func (j Journal) BeginDisarm(ctx context.Context, issueID string) error {
	return j.update(ctx, "record that auto-merge is being ended", full, func(t tx) error {
		return changeWatch(t, issueID, false, func(w *reconcile.Watch) bool {
			if w.Merge == nil {
				return false
			}
			w.BeginDisarm()
			return true
		})
	})
}

// EndMerge records that the forge will not merge the pull request of an issue by itself.
func (j Journal) EndMerge(ctx context.Context, issueID string) error {
	return j.update(ctx, "record that a pull request is not merged", full, func(t tx) error {
		return changeWatch(t, issueID, false, func(w *reconcile.Watch) bool {
			asked := w.Merge != nil
			w.Merge = nil
			return asked
		})
	})
}

// LookError is why the last look at pull requests failed. It is kept until a look succeeds.
type LookError struct {
	// PullRequest is the address of the only pull request that the error is about; empty if
	// none could be read.
	PullRequest string    `json:"pull_request_url"`
	Code        string    `json:"code"`
	Message     string    `json:"message"`
	Since       time.Time `json:"since"` // when a look failed with this code first
}

// metaLookErrors is the key of the errors of the last look.
const metaLookErrors = "feedback_errors"

// LookErrors returns the errors of the last look at pull requests.
func (c *conn) LookErrors(ctx context.Context) ([]LookError, error) {
	list := []LookError{}
	stored, found, err := c.Meta(ctx, metaLookErrors)
	if err != nil || !found {
		return list, err
	}
	if err := json.Unmarshal([]byte(stored), &list); err != nil {
		return nil, fmt.Errorf("%w: the errors of the last look at pull requests", errStored)
	}
	return list, nil
}

// SaveLookErrors stores the errors of the last look at pull requests in place of earlier ones.
// An error that was there already keeps its time.
func (s Store) SaveLookErrors(ctx context.Context, list []LookError) error {
	last, err := s.LookErrors(ctx)
	if err != nil || len(last)+len(list) == 0 {
		return err
	}
	next := append([]LookError{}, list...)
	for i, e := range next {
		for _, old := range last {
			if old.PullRequest == e.PullRequest && old.Code == e.Code {
				next[i].Since = old.Since
			}
		}
	}
	stored, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("store the errors of the last look at pull requests: %w", err)
	}
	return s.SetMeta(ctx, metaLookErrors, string(stored))
}
