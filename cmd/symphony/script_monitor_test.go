package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor/checktest"
)

// checkedService is the service that watches a script's passes.
type checkedService struct {
	*checktest.Server
	later atomic.Int64 // how far its clock is ahead, in nanoseconds
}

// healthchecksCmd controls a service that expects a ping every minute and allows one minute
// more:
//
//	healthchecks start           starts it, and sets PING to the URL of the check
//	healthchecks pings           prints the accepted pings: kind and body
//	healthchecks refuse STATUS   answers later pings with that status; 0: accepts them
//	healthchecks later DURATION  lets that time pass for the service only
//	healthchecks is STATUS       checks that the check is new, up or down
func healthchecksCmd(ts *testscript.TestScript, neg bool, args []string) {
	stage := stageOf(ts)
	verb := args[0]
	rest := strings.Join(args[1:], "")
	switch verb {
	case "start":
		s := &checkedService{}
		s.Server = checktest.New(
			time.Minute,
			time.Minute,
			func() time.Time { return time.Now().Add(time.Duration(s.later.Load())) },
		)
		ts.Defer(s.Close)
		setVar(ts, "PING", s.URL)
		stage.service = s
	case "pings":
		for _, p := range stage.service.Pings() {
			fmt.Fprintf(ts.Stdout(), "%s: %s\n", p.Kind, strings.TrimSpace(p.Body))
		}
	case "refuse":
		status, err := strconv.Atoi(rest)
		ts.Check(err)
		stage.service.Refuse(status)
	case "later":
		d, err := time.ParseDuration(rest)
		ts.Check(err)
		stage.service.later.Add(int64(d))
	case "is":
		if got := stage.service.Status(); got != rest {
			ts.Fatalf("the check is %s, not %s", got, rest)
		}
	default:
		ts.Fatalf("healthchecks: unknown verb %q", verb)
	}
}
