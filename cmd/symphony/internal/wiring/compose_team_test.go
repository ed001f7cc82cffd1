package wiring

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// silent is a remote that never answers.
type silent struct{ host.Claims }

func (silent) Look(ctx context.Context) ([]team.Entry, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A remote that never answers keeps neither a pass nor the renewal of a claim waiting.
func TestRequestAboutClaimsEnds(t *testing.T) {
	r := &teamRemote{claims: silent{}, limit: time.Millisecond}
	_, err := r.Look(t.Context())
	known, _ := errors.AsType[*reconcile.Error](err)
	if known == nil || known.Code != host.CodeClaimsUnavailable {
		t.Fatal(err)
	}
	test.Contains(t, "message", known.Message, "the answer of the remote about claims took longer than 1ms")
}
