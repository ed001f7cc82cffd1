package codex

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/wire"
)

// Warnings about which an operator can do nothing are not shown.
func TestNeedlessWarnings(t *testing.T) {
	for said, routine := range map[string]bool{
		"Codex could not find bubblewrap on PATH. Install bubblewrap with your OS package " +
			"manager.": true,
		"Under-development features enabled: default_mode_request_user_input. Under-development features " +
			"are incomplete.": true,
		"Under-development features enabled: default_mode_request_user_input, x. Under-development " +
			"features are incomplete.": false,
		"Project-local config, hooks, and exec policies are disabled in the following folders until the " +
			"project is trusted, but": false,
	} {
		test.Equal(
			t,
			said,
			eventOf(&wire.Message{Method: "configWarning"}, &remark{Summary: said}).Routine,
			routine,
		)
		test.Equal(t, said, eventOf(&wire.Message{Method: "warning"}, &remark{Message: said}).Routine, routine)
	}
}
