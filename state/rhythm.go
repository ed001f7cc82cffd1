package state

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rhythm is how regularly a schedule's passes came (triggers cron, timer and loop).
type Rhythm struct {
	Passes int
	// Usual is the median of the gaps between them, 0 where there are fewer than two.
	Usual time.Duration
	Gaps  []Gap // those much longer than usual, the oldest first
}

// Gap is a time without a scheduled pass.
type Gap struct {
	From, To time.Time
	// Missed is how many passes the schedule would have had in it.
	Missed int
	// Open: no pass has come since; To is the end of the time that was asked for.
	Open bool
}

const (
	// longGap is from how many times the usual gap on a pass counts as missed: one that came late because the machine
	// was busy, or because the pass before it took its time, is not.
	longGap = 3
	// shortestGap is what no gap below is told of: a loop may pass every second.
	shortestGap = 3 * time.Minute
)

const rhythmQuery = `SELECT coalesce(group_concat(started_at), '') FROM passes
	WHERE "trigger" IN ('cron', 'timer', 'loop') AND started_at < ?1 AND started_at >= coalesce((SELECT max(started_at)
	FROM passes WHERE "trigger" IN ('cron', 'timer', 'loop') AND started_at < ?2), ?2)`

// readRhythm looks from the last pass before the time on, so that a gap in which it begins is seen. A month may have
// tens of thousands of passes, whose times come in one text: row by row they would take half as long again.
func readRhythm(ctx context.Context, tx *sql.Tx, since, until time.Time) (r Rhythm, err error) {
	var list string
	err = tx.QueryRowContext(ctx, rhythmQuery, stamp(until), stamp(since)).Scan(&list)
	if err != nil || list == "" {
		return r, err
	}
	var starts []int64
	for text := range strings.SplitSeq(list, ",") {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return r, fmt.Errorf("%w: the time of a pass", errStored)
		}
		starts = append(starts, ms)
	}
	slices.Sort(starts)
	return rhythmOf(starts, since, until), nil
}

// rhythmOf finds the long gaps between passes that began at these milliseconds, and to the end of the time.
func rhythmOf(starts []int64, since, until time.Time) Rhythm {
	r := Rhythm{}
	for _, ms := range starts {
		if ms >= since.UnixMilli() {
			r.Passes++
		}
	}
	if len(starts) < 2 {
		return r // of one pass nobody knows when the next is due
	}
	gaps := make([]int64, len(starts)-1)
	for i := range gaps {
		gaps[i] = starts[i+1] - starts[i]
	}
	slices.Sort(gaps)
	r.Usual = time.Duration(gaps[len(gaps)/2]) * time.Millisecond
	for i, from := range starts {
		to, open := until.UnixMilli(), true
		if i+1 < len(starts) {
			to, open = starts[i+1], false
		}
		gap := time.Duration(to-from) * time.Millisecond
		if gap > max(longGap*r.Usual, shortestGap) {
			r.Gaps = append(r.Gaps, Gap{
				From: time.UnixMilli(from).UTC(), To: time.UnixMilli(to).UTC(), Missed: missed(gap, r.Usual), Open: open,
			})
		}
	}
	return r
}

// missed is how many passes lie between two, where none is missing after the usual gap.
func missed(gap, usual time.Duration) int {
	if usual < time.Second {
		usual = time.Second // a loop's shortest
	}
	return int((gap+usual/2)/usual) - 1
}
