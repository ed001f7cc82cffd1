package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor/checktest"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Findings that both environments have in common are printed once.
func TestMerge(t *testing.T) {
	good := ok("good")[0]
	other := ok("other")[0]
	wrong := fail("wrong", "mend it")[0]
	list := func(f ...finding) []finding { return f }
	for _, c := range []struct {
		called, scheduled []finding
		want              string
	}{
		{list(good), nil, "good"},
		{list(good), list(good), "good"},
		{list(good), list(wrong), "as called: good, by the schedule: wrong"},
		{list(good, other), list(good), "good, as called: other"},
		{nil, list(wrong), "by the schedule: wrong"},
	} {
		var got []string
		for _, f := range (result{called: c.called, scheduled: c.scheduled}).merge() {
			got = append(got, f.Message)
		}
		test.Equal(t, fmt.Sprint(c.called, c.scheduled), strings.Join(got, ", "), c.want)
	}
}

func TestHangingCheckIsReported(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hangs := check{
		name: "x",
		run:  func(context.Context, *environment) []finding { <-release; return nil },
	}
	found := (<-(&environment{}).start(t.Context(), hangs, time.Millisecond)).findings
	if len(found) != 1 || found[0].Status != statusFail || found[0].Message != "no answer within 1ms" ||
		found[0].Check != "x" {
		t.Errorf("%+v", found)
	}
}

// An agent that hangs is not started a second time for the schedule: the checks that wait for it
// would give up, and name a disk or the login profile.
func TestHangingAgentIsStartedOnce(t *testing.T) {
	late := &agent.Error{Code: agent.CodeResponseTimeout, Message: "no answer to initialize"}
	config := &workflow.Config{}
	config.Chosen.Kind = "claude"
	called := &environment{
		config: config,
		agent:  func() (*runner.Inspection, error) { return nil, late },
	}
	scheduled := &environment{
		config: config,
		other:  called,
		p:      &wiring.Project{Env: &environ.Env{}},
		login:  func() loginShell { return loginShell{} },
	}
	_, err := scheduled.startAgent(t.Context())
	test.Equal(t, "the error by the schedule", err, error(late))
}

func TestExitCode(t *testing.T) {
	one := func(check, as string, s status) finding {
		return finding{
			Check:  check,
			As:     as,
			Status: s,
		}
	}
	value := finding{
		Check:  "workspace root",
		Status: statusFail,
		code:   "invalid_config",
		As:     asCalled,
	}
	for _, c := range []struct {
		findings []finding
		want     int
	}{
		{nil, exit.OK},
		{[]finding{one("git", asCalled, statusWarn)}, exit.OK},
		{[]finding{one("git", asCalled, statusFail)}, exit.Failed},
		{[]finding{one("key", asScheduled, statusFail)}, exit.Failed},
		{[]finding{one("key", asCalled, statusFail), one("git", asCalled, statusFail)}, exit.Workflow},
		{[]finding{value, one("git", asCalled, statusFail)}, exit.Workflow},
	} {
		got := exit.OK
		var code exit.Only
		if errors.As(exitCode(slices.Clone(c.findings)), &code) {
			got = int(code)
		}
		test.Equal(t, fmt.Sprint(c.findings), got, c.want)
	}
}

// What is wrong with the keys of monitor, each with a hint. Asking the check counts neither as
// a pass nor as a failure.
func TestCheckMonitor(t *testing.T) {
	s := checktest.New(time.Minute, time.Minute, time.Now)
	defer s.Close()
	dir := t.TempDir()
	p := &wiring.Project{
		Env:      &environ.Env{Home: dir},
		Path:     dir + "/WORKFLOW.md",
		StateDir: dir + "/shop-1",
	}
	for _, c := range []struct {
		monitor workflow.Monitor
		want    []string
	}{
		{workflow.Monitor{}, nil},
		{workflow.Monitor{
			PingURL: workflow.Secret(s.URL),
			PingVar: "PING",
		}, []string{"monitor.ping_url answers"}},
		{workflow.Monitor{PingVar: "PING"}, []string{"PING is not set"}},
		{workflow.Monitor{PingURL: workflow.Secret(s.URL)}, []string{"everyone who can read the repository sees it"}},
		{workflow.Monitor{PingURL: workflow.Secret(s.URL + "/nowhere")}, []string{"HTTP 404 Not Found"}},
	} {
		found := checkMonitor(t.Context(), &environment{
			p:      p,
			config: &workflow.Config{Monitor: c.monitor},
		})
		if len(found) != len(c.want) {
			t.Errorf("%+v: %+v", c.monitor, found)
			continue
		}
		for i, f := range found {
			good := strings.HasSuffix(c.want[0], " answers")
			if !strings.Contains(f.Message, c.want[i]) || (f.Hint == "") != good ||
				(f.Status == statusOK) != good {
				t.Errorf("%+v: %+v, want %s", c.monitor, f, c.want[i])
			}
		}
	}
	if pings := s.Pings(); len(pings) != 2 || pings[0].Kind != "log" || s.Status() != "new" {
		t.Errorf("pings: %+v", pings)
	}
}
