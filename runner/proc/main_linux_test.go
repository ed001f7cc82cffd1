package proc

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func TestMain(m *testing.M) { proctest.Main(m) }

// wantSaid checks that a text has parts, and that it has not others.
func wantSaid(t *testing.T, text string, parts []string, not ...string) {
	t.Helper()
	test.Contains(t, "the text", text, parts...)
	test.Lacks(t, "the text", text, not...)
}

func boot(t *testing.T) string {
	t.Helper()
	return test.Must(BootID())
}
