package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
)

func TestProgramWord(t *testing.T) {
	for command, want := range map[string]string{
		"codex app-server":                       "codex",
		"  /opt/codex app-server -c model=x":     "/opt/codex",
		"exec codex app-server":                  "codex",
		"RUST_LOG=debug A=b ~/bin/codex":         "~/bin/codex",
		"env CODEX_HOME=/x codex app-server":     "codex",
		"$HOME/codex app-server":                 "",
		`"/opt/my codex" app-server`:             "",
		"cd /x && codex app-server":              "cd", // a builtin, which is found; the start reports the rest
		"(codex app-server)":                     "",
		"":                                       "",
		"npx codex@latest app-server | tee /tmp": "npx",
	} {
		if got := append(programWord().FindStringSubmatch(command), "", "")[1]; got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

// Findings that both environments have in common are printed once.
func TestMerge(t *testing.T) {
	good, other, wrong := ok("good")[0], ok("other")[0], fail("wrong", "mend it")[0]
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
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%v, %v: %s, want %s", c.called, c.scheduled, s, c.want)
		}
	}
}

func TestHangingCheckIsReported(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hangs := check{name: "x", run: func(context.Context, *environment) []finding { <-release; return nil }}
	found := (<-(&environment{}).start(t.Context(), hangs, time.Millisecond)).findings
	if len(found) != 1 || found[0].Status != statusFail || found[0].Message != "no answer within 1ms" || found[0].Check != "x" {
		t.Errorf("%+v", found)
	}
}

func TestExitCode(t *testing.T) {
	one := func(check, as string, s status) finding { return finding{Check: check, As: as, Status: s} }
	value := finding{Check: "workspace root", Status: statusFail, code: "invalid_config", As: asCalled}
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
		if got != c.want {
			t.Errorf("%+v: %d, want %d", c.findings, got, c.want)
		}
	}
}
