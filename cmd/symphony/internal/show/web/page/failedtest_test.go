package page

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/test"
)

// The first failed test in the output of common runners.
func TestFailedTest(t *testing.T) {
	for _, c := range []struct{ runner, output, want string }{
		{"go", "ok  \ta/b\t0.1s\n--- FAIL: TestLights (0.00s)\n    --- FAIL: TestLights/off (0.00s)\nFAIL", "TestLights/off"},
		{"go, in a package that does not compile", "# a/b\nb.go:1: undefined\nFAIL\ta/b [build failed]", "a/b"},
		{"pytest", "tests/test_a.py .F\nE   assert 1 == 2\nFAILED tests/test_a.py::test_off - assert 1 == 2\n1 failed", "tests/test_a.py::test_off"},
		{"pytest -v", "tests/test_a.py::test_on PASSED\ntests/test_a.py::test_off[1] FAILED [ 50%]", "tests/test_a.py::test_off[1]"},
		{"unittest", "FAIL: test_off (tests.test_a.Lights)", "test_off (tests.test_a.Lights)"},
		{"jest", "FAIL src/a.test.js\n  \x1b[1m● Lights › go off\x1b[22m\n", "Lights › go off"},
		{"jest --verbose", "  Lights\n    ✓ go on (2 ms)\n    ✕ go off (5 ms)\n", "go off"},
		{"vitest", " ❯ src/a.test.ts (2 tests | 1 failed)\n FAIL  src/a.test.ts > Lights > go off\n", "src/a.test.ts > Lights > go off"},
		{"cargo test", "test lights::on ... ok\ntest lights::off ... FAILED\n", "lights::off"},
		{"cargo nextest", "        FAIL [   0.012s] house lights::off\n", "house lights::off"},
		{
			"maven",
			"[ERROR] Tests run: 2, Failures: 1 <<< FAILURE! -- in a.LightsTest\n" +
				"[ERROR] a.LightsTest.off -- Time elapsed: 0.05 s <<< FAILURE!",
			"a.LightsTest.off",
		},
		{"an older maven", "[ERROR] off(a.LightsTest)  Time elapsed: 0.01 s  <<< FAILURE!", "off(a.LightsTest)"},
		{"gradle", "LightsTest > off() FAILED\n", "LightsTest > off()"},
		{"something else", "error: it did not work\n0 tests FAILED", ""},
	} {
		l := eventlog.Line{
			Kind:   eventlog.Command,
			Status: eventlog.Failed,
			Detail: strings.Split(c.output, "\n"),
		}
		got, _ := failedTest(l)
		test.Equal(t, c.runner, got, c.want)
		// its status may be that of a pipe
		l.Status = eventlog.Succeeded
		l.Text = "cat log"
		got, _ = failedTest(l)
		test.Equal(t, c.runner+", in a file", got, "")
		l.Text = "npm test | tail"
		got, _ = failedTest(l)
		test.Equal(t, c.runner+", in a pipe", got, c.want)
	}
}
