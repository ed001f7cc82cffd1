package host

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
)

func TestScrub(t *testing.T) {
	env := []string{
		"PATH=/bin", "SYMPHONY_RUN_ID=r", "SYMPHONY_ISSUE_ID=1", "SYMPHONY_ISSUE_TITLE=a=b", "SYMPHONY_ATTEMPT=2",
		"SYMPHONY_WORKSPACE=/w", "SYMPHONY_OUTCOME=failed", "CODEX_THREAD_ID=t", "SYMPHONY_WORKFLOW=w", "LINEAR_API_KEY=k",
		"LINEAR_API_KEY_FILE=f", "odd", "HOME=/h",
	}
	want := []string{"PATH=/bin", "SYMPHONY_WORKFLOW=w", "LINEAR_API_KEY_FILE=f", "odd", "HOME=/h"}
	if got := Scrub(env, "LINEAR_API_KEY", "NOT_THERE"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := Scrub(nil); got == nil || len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}

func TestLimitReached(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("start bash: %w", &os.PathError{Op: "fork/exec", Path: "/bin/bash", Err: syscall.EAGAIN}): true,
		fmt.Errorf("open: %w", syscall.EMFILE): true,
		fmt.Errorf("open: %w", syscall.ENFILE): true,
		syscall.ENOMEM:                         true,
		syscall.ENOSPC:                         false,
		syscall.EACCES:                         false,
	} {
		if LimitReached(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
