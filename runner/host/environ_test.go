package host

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestScrub(t *testing.T) {
	env := []string{
		"PATH=/bin", "SYMPHONY_RUN_ID=r", "SYMPHONY_ISSUE_ID=1", "SYMPHONY_ISSUE_TITLE=a=b", "SYMPHONY_ATTEMPT=2",
		"SYMPHONY_WORKSPACE=/w", "SYMPHONY_OUTCOME=failed", "CODEX_THREAD_ID=t", "SYMPHONY_WORKFLOW=w", "LINEAR_API_KEY=k",
		"LINEAR_API_KEY_FILE=f", "odd", "HOME=/h",
	}
	want := []string{"PATH=/bin", "SYMPHONY_WORKFLOW=w", "LINEAR_API_KEY_FILE=f", "odd", "HOME=/h"}
	test.Equal(t, "the environment", Scrub(env, "LINEAR_API_KEY", "NOT_THERE"), want)
	test.Equal(t, "nothing becomes", Scrub(nil), []string{})
}
