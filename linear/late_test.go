package linear_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/linear"
)

// late answers after so long, unless nobody waits for it any more.
type late struct{ after time.Duration }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(l.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`)),
	}, nil
}

// An answer within 30 s is one; then nobody waits any longer.
func TestAnswersLate(t *testing.T) {
	for _, c := range []struct {
		after, took time.Duration
		code        string
	}{
		{29 * time.Second, 29 * time.Second, ""},
		{30*time.Second - time.Millisecond, 30*time.Second - time.Millisecond, ""},
		{30*time.Second + time.Millisecond, 30 * time.Second, "linear_api_request"},
		{time.Hour, 30 * time.Second, "linear_api_request"},
	} {
		t.Run(c.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := linear.New(linear.Options{
					Endpoint: "http://linear.example/graphql", APIKey: testKey, ProjectSlug: "x", HTTP: &http.Client{Transport: late{c.after}},
				})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err = client.Candidates(t.Context(), []string{"Todo"})
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, not %v", took, c.took)
				}
				if c.code != "" {
					wantCode(t, err, c.code)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
