package main

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/state"
)

const runStamp = "20060102T150405.000"

// newRunID gives ids that sort by time, to the millisecond.
func newRunID(now time.Time) string {
	return now.UTC().Format(runStamp) + "-" + strings.ToLower(rand.Text()[:6])
}

// runIDs gives ids that sort in the order in which they were given. After the clock was set back they go on from the
// newest one there is: by its id a run is known to be an issue's last, whose thread is gone on with.
func runIDs(db *state.DB, now func() time.Time) func() string {
	var last string
	known := false
	return func() string {
		if !known {
			// Where it can't be read the row can't be written either, and the action says so.
			if runs, err := db.RecentRuns(context.Background(), 1); err == nil && len(runs) > 0 {
				last = runs[0].ID
			}
			known = true
		}
		id := newRunID(now())
		if len(last) > len(runStamp) && id[:len(runStamp)] <= last[:len(runStamp)] {
			if at, err := time.Parse(runStamp, last[:len(runStamp)]); err == nil {
				id = newRunID(at.Add(time.Millisecond))
			}
		}
		last = id
		return id
	}
}
