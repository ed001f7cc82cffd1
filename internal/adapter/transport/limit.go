package transport

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// limitUnknown is how long a rate limit is assumed to last if the tracker does not say.
	limitUnknown = time.Minute
	// LongestLimit bounds the effect of a wrong clock on either side; the windows of trackers
	// are an hour.
	LongestLimit = 2 * time.Hour
	// longestWait bounds how long a call of an agent's tool waits for the end of a limit,
	// because the agent's turn is suspended meanwhile. shortestWait separates the repetitions
	// if the tracker keeps announcing an immediate end.
	longestWait  = time.Minute
	shortestWait = 100 * time.Millisecond
)

// RateLimited is wrapped by an error with the code tracker_rate_limited.
type RateLimited struct {
	Reset   time.Time // when the next request may be made
	Limited string    // the state until then
}

func (r *RateLimited) Error() string {
	return r.Limited + " until " + r.Reset.UTC().Format(time.RFC3339)
}

func (r *RateLimited) ResetAt() time.Time { return r.Reset }

// RateLimit returns the error of a limit.
func (s Service) RateLimit(until time.Time) error {
	limited := &RateLimited{Reset: until, Limited: s.Limited}
	return reconcile.NewError("tracker_rate_limited", limited.Error(),
		"run passes less often, or use a separate "+s.Separate+
			" for symphony; no request is made until then, or until symphony resume").WithCause(limited)
}

// LimitEnd returns the time of Retry-After, or else the announced time, but always a plausible
// time after now. "Retry-After: 0" in the answer that refuses a request says nothing.
func LimitEnd(h http.Header, now, announced time.Time) time.Time {
	end := retryAfter(h.Get("Retry-After"), now)
	if end.After(now) {
		announced = end
	}
	return PlausibleEnd(now, announced)
}

// retryAfter reads the value of Retry-After: seconds, such as 90, or a date. It returns zero
// for any other.
func retryAfter(value string, now time.Time) time.Time {
	seconds, err := strconv.ParseFloat(value, 64)
	if err == nil {
		const longest = 1e9 // a Duration holds nine times as much
		if seconds > 0 {    // and no NaN
			return now.Add(time.Duration(min(seconds, longest) * float64(time.Second)))
		}
		return time.Time{}
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return time.Time{}
	}
	return date
}

// PlausibleEnd returns the end of a limit from the time that a tracker announced; announced is
// zero if it announced none.
func PlausibleEnd(now, announced time.Time) time.Time {
	switch {
	case !announced.After(now):
		return now.Add(limitUnknown)
	case announced.After(now.Add(LongestLimit)):
		return now.Add(LongestLimit)
	}
	return announced
}

// Allowance is the remaining quota of a key. Numbers that are missing in the headers of an
// answer are NaN.
type Allowance struct {
	Limit, Left float64
	Reset       time.Time
}

// ReadAllowance reads the headers that begin with X-RateLimit- and kind, or else, as GitLab
// writes them, with RateLimit-.
func ReadAllowance(h http.Header, kind string) Allowance {
	number := func(what string) float64 {
		written := cmp.Or(h.Get("X-RateLimit-"+kind+what), h.Get("RateLimit-"+kind+what))
		f, err := strconv.ParseFloat(strings.TrimSpace(written), 64)
		if err != nil || f < 0 || f > 1e15 {
			return math.NaN()
		}
		return f
	}
	a := Allowance{Limit: number("Limit"), Left: number("Remaining")}
	// milliseconds since 1970; a number too small for that counts as seconds
	reset := number("Reset")
	switch {
	case reset >= 1e11:
		a.Reset = time.UnixMilli(int64(reset)).UTC()
	case reset > 0:
		a.Reset = time.UnixMilli(int64(reset * 1000)).UTC()
	}
	return a
}

// Patiently calls ask, and calls it again after the end of a rate limit, as long as that is
// soon.
func (c *Client) Patiently(ctx context.Context, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		limited, is := errors.AsType[*RateLimited](err)
		if !is {
			return err
		}
		pause := max(limited.Reset.Sub(c.Now()), shortestWait)
		if time.Since(began)+pause > longestWait {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}
