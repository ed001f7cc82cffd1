package linear_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
)

func TestRateLimits(t *testing.T) {
	ms := func(d time.Duration) string { return strconv.FormatInt(testNow.Add(d).UnixMilli(), 10) }
	const limited = `{"errors":[{"message":"slow down","extensions":{"code":"RATELIMITED"}}]}`
	for name, tc := range map[string]struct {
		status int
		body   string
		header []string
		want   time.Duration
	}{
		"400 with requests used up": {400, limited, []string{
			"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", ms(10 * time.Minute),
			"X-RateLimit-Complexity-Remaining", "5", "X-RateLimit-Complexity-Reset", ms(50 * time.Minute),
		}, 10 * time.Minute},
		"both used up": {400, limited, []string{
			"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", ms(10 * time.Minute),
			"X-RateLimit-Complexity-Remaining", "0", "X-RateLimit-Complexity-Reset", ms(50 * time.Minute),
		}, 50 * time.Minute},
		"endpoint's own":            {400, limited, []string{"X-RateLimit-Endpoint-Requests-Remaining", "0", "X-RateLimit-Endpoint-Requests-Reset", ms(3 * time.Minute)}, 3 * time.Minute},
		"200 with the code":         {200, limited, []string{"X-RateLimit-Requests-Reset", ms(2 * time.Minute)}, 2 * time.Minute},
		"429 without a body":        {429, "", nil, time.Minute},
		"Retry-After wins":          {429, limited, []string{"Retry-After", "90", "X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", ms(time.Hour)}, 90 * time.Second},
		"Retry-After as a date":     {429, "", []string{"Retry-After", testNow.Add(2 * time.Minute).Format("Mon, 02 Jan 2006 15:04:05 GMT")}, 2 * time.Minute},
		"nonsense in Retry-After":   {429, "", []string{"Retry-After", "soon"}, time.Minute},
		"400 without a body":        {400, "", []string{"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", ms(5 * time.Minute)}, 5 * time.Minute},
		"reset in seconds":          {429, "", []string{"X-RateLimit-Requests-Reset", strconv.FormatInt(testNow.Add(7*time.Minute).Unix(), 10)}, 7 * time.Minute},
		"reset in the past":         {429, "", []string{"X-RateLimit-Requests-Reset", ms(-time.Minute)}, time.Minute},
		"reset too far ahead":       {429, "", []string{"X-RateLimit-Requests-Reset", ms(100 * time.Hour)}, 2 * time.Hour},
		"Retry-After too far ahead": {429, "", []string{"Retry-After", "99999999"}, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, tc.status, tc.body, tc.header...)
			_, err := c.Candidates(t.Context(), []string{"Todo"})
			wantCode(t, err, "tracker_rate_limited")
			var r *linear.RateLimited
			if !errors.As(err, &r) {
				t.Fatalf("no RateLimited in %v", err)
			}
			equal(t, "reset in", r.Reset.Sub(testNow), tc.want)
		})
	}
	_, err := answering(t, 400, `{"errors":[{"message":"bad","extensions":{"code":"INPUT_ERROR"}}]}`,
		"X-RateLimit-Requests-Remaining", "0").Candidates(t.Context(), []string{"Todo"})
	wantCode(t, err, "linear_api_status") // the last request of an allowance may be a bad one
}

func TestLow(t *testing.T) {
	for _, tc := range []struct {
		requests, complexity int
		low                  bool
	}{
		{1000, 100000, false},
		{101, 10_100, false}, // the request itself takes one, and points
		{99, 100000, true},
		{1000, 9000, true},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			s := startLinear(t, lineartest.Config{RequestsPerHour: 1000, ComplexityPerHour: 100000, Now: func() time.Time { return testNow }})
			s.SetRemaining(tc.requests, tc.complexity)
			now := testNow
			c := newClient(t, s, func(o *linear.Options) { o.Now = func() time.Time { return now } })
			low := func() bool { return now.Before(c.Budget().LowUntil()) }
			if low() {
				t.Fatal("low before the first answer")
			}
			if _, err := c.ByIdentifier(t.Context(), "ABC-1"); err == nil {
				t.Fatal("found an issue that is none")
			}
			b := c.Budget()
			equal(t, "low", low(), tc.low)
			if now = b.Reset; low() {
				t.Error("still low when the allowance is full again")
			}
		})
	}
}

func TestBudgetKeepsWhatAnAnswerLeavesOut(t *testing.T) {
	s := startLinear(t, lineartest.Config{RequestsPerHour: 100})
	c := newClient(t, s)
	if _, err := c.Candidates(t.Context(), []string{"Todo"}); err != nil {
		t.Fatal(err)
	}
	before := c.Budget()
	check(t, s.Fail(lineartest.Failure{Kind: lineartest.FailStatus, Status: 502}))
	if _, err := c.Candidates(t.Context(), []string{"Todo"}); err == nil {
		t.Fatal("no error")
	}
	after := c.Budget()
	if after.Left != before.Left || after.Reset != before.Reset || before.Left >= 1 {
		t.Errorf("budget %+v, was %+v", after, before)
	}
}
