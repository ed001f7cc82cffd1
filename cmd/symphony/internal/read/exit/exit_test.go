package exit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// Each class of errors has its exit code, and an error without a code gets one.
func TestCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
		exit int
	}{
		{Usage("no flag %s", "-x"), "usage", UsageCode},
		{fmt.Errorf("pass: %w", reconcile.NewError("issue_not_found", "", "")), "issue_not_found", Failed},
		{fmt.Errorf("pass: %w", context.Canceled), "canceled", Failed},
		{errors.New("odd"), "internal", Failed},
		{&reconcile.Error{Code: "x", Class: reconcile.ClassIssue}, "x", OK},
		{&reconcile.Error{Code: "x", Class: reconcile.ClassLock}, "x", Lock},
		{&reconcile.Error{Code: "x", Class: reconcile.ClassWorkflow}, "x", Workflow},
		{&reconcile.Error{Code: "x", Class: reconcile.ClassTracker}, "x", Failed},
	} {
		known := From(c.err)
		test.Equal(
			t,
			fmt.Sprint(c.err),
			fmt.Sprint(known.Code, " ", Code(known)),
			fmt.Sprint(c.code, " ", c.exit),
		)
	}
	test.Equal(t, "the hint", From(ForCommand(Usage("x"), "tick")).Hint, "see symphony help tick")
	test.Equal(t, "an exit code alone", Only(7).Error(), "exit code 7")
}
