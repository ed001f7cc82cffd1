package gitea

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// at returns an adapter to a server with these answers, by the ends of paths. Another path is a
// fault of the test.
func at(t *testing.T, answers map[string]string) *reconcile.Forge {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for end, body := range answers {
			if strings.HasSuffix(r.URL.Path, end) {
				_, _ = io.WriteString(w, body)
				return
			}
		}
		t.Errorf("asked for %s", r.URL)
	}))
	t.Cleanup(s.Close)
	return test.Must(Adapter(transport.ForgeOptions{
		Options:    transport.Options{Endpoint: s.URL + "/api/v1", Key: "0123456789abcdef0123456789abcdef01234567"},
		Repository: "acme/shop",
		By:         "$TEAM_TOKEN",
	}))
}

// The addresses of checks contain the numbers of runs and jobs on Forgejo, whatever release of Gitea
// it names, and on older releases of Gitea, and their ids on newer ones. Without ids a check has a
// state and an address, and neither its log nor another run of it is asked for.
func TestJobsByRelease(t *testing.T) {
	const commit = "1111111111111111111111111111111111111111"
	for version, hasIDs := range map[string]bool{
		"1.26.0":                    true,
		"1.27.0+dev-12-g0a1b2c3":    true,
		"1.25.3":                    false,
		"16.0.0+gitea-1.22.0":       false,
		"11.0.1-5-abc+gitea-1.22.0": false,
		"7.0.0+gitea-1.26.0":        false,
		"development":               false,
		"":                          false,
	} {
		f := at(t, map[string]string{
			"/version": `{"version": "` + version + `"}`,
			"/status": `{"sha": "` + commit + `", "statuses": [
				{"context": "ci / test (push)", "status": "failure", "target_url": "/acme/shop/actions/runs/7/jobs/8", "creator": null}]}`,
		})
		checks := test.Must(f.ReadChecks(t.Context(), commit))
		test.Equal(t, version+": state", checks.State, reconcile.CheckFailure)
		c := checks.List[0]
		test.Contains(t, version+": address", c.URL, "http://127.0.0.1:", "/acme/shop/actions/runs/7/jobs/8")
		test.Equal(t, version+": has ids", []bool{c.Run == 7, c.Job == 8}, []bool{hasIDs, hasIDs})
		if !hasIDs {
			test.Equal(t, version+": ids", []int64{c.Run, c.Job}, []int64{0, 0})
		}
	}
}

// Of 3,000 checks of a commit the first 2,000 are read and 500 kept, the failed ones first. A success
// of these says nothing about the others.
func TestManyChecks(t *testing.T) {
	const commit = "1111111111111111111111111111111111111111"
	requests := 0
	failing := 1900
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		var list []string
		for n := (page - 1) * 50; n < min(page*50, 3000); n++ {
			state := "success"
			if n == failing {
				state = "failure"
			}
			list = append(list, `{"context": "ci `+strconv.Itoa(n)+`", "status": "`+state+`", "creator": {"id": 1}}`)
		}
		_, _ = io.WriteString(w, `{"sha": "`+commit+`", "statuses": [`+strings.Join(list, ",")+`]}`)
	}))
	t.Cleanup(s.Close)
	f := test.Must(Adapter(transport.ForgeOptions{
		Options:    transport.Options{Endpoint: s.URL + "/api/v1", Key: "0123456789abcdef0123456789abcdef01234567"},
		Repository: "acme/shop",
	}))
	checks := test.Must(f.ReadChecks(t.Context(), commit))
	isFailed := func(c reconcile.Check) bool { return c.State == reconcile.CheckFailure }
	test.Equal(t, "checks", []any{len(checks.List), checks.Cut, checks.State, text.First(checks.List, isFailed).Name},
		[]any{reconcile.MaxChecks, true, reconcile.CheckFailure, "ci 1900"})
	test.Equal(t, "requests", requests, reconcile.MaxChecksRead/50)
	failing = 2900
	checks = test.Must(f.ReadChecks(t.Context(), commit))
	test.Equal(t, "state, of which a part is unknown", checks.State, reconcile.CheckOpen)
}
