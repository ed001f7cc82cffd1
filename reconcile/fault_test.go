package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
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
		{&Error{Code: "tracker_api_status", Class: ClassTracker}, ClassTracker},
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
		"issue_elsewhere":         ClassTracker,
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

func TestMomentary(t *testing.T) {
	answer := func(status int) *Error { return &Error{Code: "tracker_api_status", Status: status} }
	for _, row := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("plain"), false},
		{NewError("linear_api_request", "connection refused", ""), true},
		{NewError("linear_unknown_payload", "a page of a proxy", ""), true},
		{NewError("linear_graphql_errors", "no such field", ""), false},
		{NewError("command_timeout", "", ""), false},
		{answer(502), true},
		{fmt.Errorf("wrapped: %w", answer(500)), true},
		{answer(404), false},
		{NewError("linear_api_request", "", "").WithCause(context.DeadlineExceeded), false},
		{NewError("linear_api_request", "", "").WithCause(ErrRejected), false},
		{NewError("linear_api_request", "", "").WithCause(limitedUntil{}), false},
	} {
		equal(t, fmt.Sprint(row.err), Momentary(row.err), row.want)
	}
}

// limitedUntil is the error of a rate limit.
type limitedUntil struct{ time.Time }

func (l limitedUntil) Error() string { return "limited" }

func (l limitedUntil) ResetAt() time.Time { return l.Time }

// A code with which a run ends and which holds its issue is a fault of the issue, without a
// row in the table of faults.
func TestFaultsThatHold(t *testing.T) {
	equal(
		t,
		"codes",
		strings.Join(HoldCodes(), " "),
		"agent_policy hand_over_refused never_starts verify_failed workspace_foreign",
	)
	for _, code := range HoldCodes() {
		equal(t, code, ClassOf(&Error{Code: code}), ClassIssue)
		equal(t, code, RunClass(code), ClassIssue)
	}
}
