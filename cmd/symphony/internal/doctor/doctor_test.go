package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

func TestProgramOf(t *testing.T) {
	for command, want := range map[string]string{
		"codex app-server":                       "codex",
		"  /opt/codex app-server -c model=x":     "/opt/codex",
		"exec codex app-server":                  "codex",
		"RUST_LOG=debug A=b ~/bin/codex":         "~/bin/codex",
		"env CODEX_HOME=/x codex app-server":     "codex",
		"$HOME/codex app-server":                 "",
		`"/opt/my codex" app-server`:             "",
		"cd /x && codex app-server":              "cd", // a builtin: found, and the start tells the rest
		"(codex app-server)":                     "",
		"":                                       "",
		"codex-`arch` app-server":                "",
		"/opt/a=b/codex app-server":              "/opt/a=b/codex",
		"A=1":                                    "",
		"npx codex@latest app-server | tee /tmp": "npx",
	} {
		if got := programOf(command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

// Whatever stands in the address of a server, only where it is may be shown.
func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/mcp":             "https://example.com",
		"https://ann:pass@example.com/mcp?k=": "https://example.com",
		"https://example.com?key=pass":        "https://example.com",
		"https://a@b@example.com":             "https://example.com",
		"no address":                          "",
		"":                                    "",
	} {
		if got := origin(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

func TestUTF8(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    bool
	}{
		{nil, false},
		{[]string{"LANG=en_US.UTF-8"}, true},
		{[]string{"LANG=de_DE.utf8"}, true},
		{[]string{"LANG=en_US.UTF-8", "LC_ALL=C"}, false},
		{[]string{"LANG=C", "LC_CTYPE=C.UTF-8"}, true},
		{[]string{"LC_ALL=", "LANG=C.UTF-8"}, true},
	} {
		if got := (&term.Env{Environ: c.environ}).UTF8(); got != c.want {
			t.Errorf("%v: %v", c.environ, got)
		}
	}
}

// What two places have in common is said once; what they have not is named.
func TestDoctorLines(t *testing.T) {
	at := func(as string, list ...finding) []finding {
		list = slices.Clone(list)
		for i := range list {
			list[i].As = as
		}
		return list
	}
	good, other, wrong := well("good"), well("other"), bad("wrong", "mend it")
	for _, c := range []struct {
		called, schedule []finding
		want             string
	}{
		{at(asCalled, good), nil, "ok good|"},
		{at(asCalled, good), at(asSchedule, good), "ok good|"},
		{at(asCalled, good), at(asSchedule, wrong), "fail as called good; by the schedule wrong|mend it"},
		{at(asCalled, wrong), at(asSchedule, good), "fail as called wrong; by the schedule good|mend it"},
		{at(asCalled, good), at(asSchedule, other), "ok as called good; by the schedule other|"},
		{at(asCalled, good, other), at(asSchedule, good), "ok good|, ok as called other|"},
		{at(asCalled, good, other), at(asSchedule, wrong), "ok as called good|, ok as called other|, fail by the schedule wrong|mend it"},
		{nil, at(asSchedule, wrong), "fail by the schedule wrong|mend it"},
		{nil, nil, ""},
	} {
		var got []string
		for _, f := range (diagnosis{called: c.called, schedule: c.schedule}).lines() {
			got = append(got, statusWords[f.Status]+" "+f.Message+"|"+f.Hint)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%v, %v:\n%s, want\n%s", c.called, c.schedule, s, c.want)
		}
	}
}

// A check that hangs holds up no other, and says so.
func TestDoctorBound(t *testing.T) {
	d := &doctor{w: &term.Env{}, patience: time.Millisecond}
	at := &place{as: asCalled, d: d, p: &project.Project{Env: d.w}}
	d.called, d.schedule = at, at
	release := make(chan struct{})
	defer close(release)
	hangs := check{name: "x", bound: time.Millisecond, run: func(context.Context, *place) []finding { <-release; return nil }}
	found := d.ask(t.Context(), hangs, at)
	if len(found) != 1 || found[0].Status != statusFail || found[0].Message != "no answer within 1ms" || found[0].Check != "x" {
		t.Errorf("%+v", found)
	}
	late := check{name: "x", bound: time.Millisecond, run: func(ctx context.Context, _ *place) []finding {
		<-ctx.Done()
		return failed(ctx.Err())
	}}
	d.patience = time.Minute
	if found = d.ask(t.Context(), late, at); len(found) != 1 || !strings.HasPrefix(found[0].Message, "response_timeout: ") {
		t.Errorf("%+v", found)
	}
}

// Nothing that a check says holds the key, wherever it got it from.
func TestDoctorHidesTheKey(t *testing.T) {
	const key = "lin_api_verysecret"
	d := &doctor{w: &term.Env{Environ: []string{"LINEAR_API_KEY=" + key}}, patience: time.Minute}
	at := &place{as: asCalled, d: d, p: &project.Project{Env: d.w}}
	d.called, d.schedule = at, at
	tells := check{name: "x", bound: time.Minute, run: func(context.Context, *place) []finding {
		return []finding{bad("said "+key, "do not say "+key)}
	}}
	for _, f := range d.ask(t.Context(), tells, at) {
		if strings.Contains(f.Message+f.Hint, key) || f.Message != "said [key]" {
			t.Errorf("%+v", f)
		}
	}
}

func TestStandingOf(t *testing.T) {
	for _, c := range []struct {
		proc.Standing
		want status
	}{
		{proc.Standing{}, statusOK},
		{proc.Standing{Booted: true, Root: true, Manager: true}, statusOK},
		{proc.Standing{Booted: true, Manager: true, Lingers: true}, statusOK},
		{proc.Standing{Booted: true, Manager: true}, statusWarn},
		{proc.Standing{Booted: true}, statusOK},
	} {
		if f := standingOf(c.Standing); f.Status != c.want || f.Status != statusOK && f.Hint == "" {
			t.Errorf("%+v: %+v", c.Standing, f)
		}
	}
}

// The schedule's codex waits for the other one's start, and is not started at all where it has no home.
func TestDoctorStartsOneAfterTheOther(t *testing.T) {
	d := &doctor{w: &term.Env{}}
	first := false
	d.called = &place{as: asCalled, cfg: &workflow.Config{}, agent: func() (*runner.Inspection, error) {
		first = true
		return nil, nil
	}}
	at := &place{as: asSchedule, d: d, cfg: &workflow.Config{Codex: workflow.Codex{Home: t.TempDir() + "/none"}}, p: &project.Project{Env: d.w}}
	_, err := at.startAgent(t.Context())
	var e *reconcile.Error
	if !errors.As(err, &e) || e.Code != "agent_auth" || !first {
		t.Errorf("%v, called first: %v", err, first)
	}
}

func TestDoctorExitCode(t *testing.T) {
	one := func(check, as string, s status) finding { return finding{Check: check, As: as, Status: s} }
	value := bad("invalid_config: x", "")
	value.code, value.As = "invalid_config", asCalled
	for _, c := range []struct {
		found []finding
		want  int
	}{
		{nil, exit.OK},
		{[]finding{one("git", asCalled, statusWarn)}, exit.OK},
		{[]finding{one("git", asCalled, statusFail)}, exit.Failed},
		{[]finding{one("key", asSchedule, statusFail)}, exit.Failed},
		{[]finding{one("key", asCalled, statusFail), one("git", asCalled, statusFail)}, exit.Workflow},
		{[]finding{value, one("git", asCalled, statusFail)}, exit.Workflow},
	} {
		r := report{c.found}
		got := exit.OK
		if err := r.code(); err != nil {
			var code exit.Only
			errors.As(err, &code)
			got = int(code)
		}
		if got != c.want {
			t.Errorf("%+v: %d, want %d", c.found, got, c.want)
		}
	}
}

// What a session says keeps its code, and what the agent said at its end.
func TestDoctorError(t *testing.T) {
	said := &agent.Error{Code: agent.CodePortExit, Message: "it ended"}
	for _, c := range []struct {
		err        error
		code, text string
	}{
		{said, "port_exit", "it ended"},
		{errors.Join(said), "port_exit", "it ended"},
		{&reconcile.Error{Code: "x", Message: "y"}, "x", "y"},
		{context.DeadlineExceeded, "response_timeout", "context deadline exceeded"},
		{errors.New("z"), "internal", "z"},
	} {
		if e := doctorError(c.err); e.Code != c.code || e.Message != c.text {
			t.Errorf("%v: %s: %s", c.err, e.Code, e.Message)
		}
	}
}
