package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestClassOf(t *testing.T) {
	for _, row := range []struct {
		err  error
		want Class
	}{
		{nil, ""},
		{errors.New("plain"), ""},
		{&Error{Code: "issue_not_found"}, ""},
		{&Error{Code: "usage"}, ClassUsage},
		{fmt.Errorf("wrapped: %w", &Error{Code: "locked"}), ClassLock},
		{&Error{Code: "template_render_error"}, ClassWorkflow},
		{&Error{Code: "jira_api_status", Class: ClassTracker}, ClassTracker},
	} {
		equal(t, fmt.Sprint(row.err), ClassOf(row.err), row.want)
	}
}

func TestRunClass(t *testing.T) {
	for code, want := range map[string]Class{
		"disk_full":               ClassMachine,
		CodeResourceLimit:         ClassMachine,
		"workspace_root_unusable": ClassMachine,
		"workspace_taken":         ClassTracker,
		"state_busy":              ClassMachine,
		"state_replaced":          ClassMachine,
		"linear_api_status":       ClassTracker,
		"missing_tracker_api_key": ClassTracker,
		"answer_too_large":        ClassTracker,
		"template_render_error":   ClassIssue,
		CodeSpawnFailed:           ClassIssue,
		CodeWorkerLost:            ClassIssue,
		"hook_failed":             ClassIssue,
		"workspace_failed":        ClassIssue,
		"tracker_of_tomorrow":     ClassIssue,
		"":                        ClassIssue,
	} {
		equal(t, code, RunClass(code), want)
		equal(t, code, MachineFault(code), want == ClassMachine || want == ClassTracker)
	}
}

// A code with which a run ends and which holds its issue is a fault of the issue, without a
// row in the table of faults.
func TestFaultsThatHold(t *testing.T) {
	equal(
		t,
		"codes",
		strings.Join(HoldCodes(), " "),
		"agent_policy hand_over_refused never_starts verify_failed",
	)
	for _, code := range HoldCodes() {
		equal(t, code, ClassOf(&Error{Code: code}), ClassIssue)
		equal(t, code, RunClass(code), ClassIssue)
	}
}
