package runner

import (
	"errors"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// endedLink is a link to a host that serves the run no more.
type endedLink struct {
	Link
	err error
}

func (l endedLink) Err() error { return l.err }

// A run that its host has ended is interrupted. A call may report that, or only the link.
func TestEndedThere(t *testing.T) {
	ended := reconcile.NewError(host.CodeEnded, "a signal", "")
	j := &farStep{&job{Worker: &Worker{}}}
	outcome, code, message := j.judge(t.Context(), errors.Join(errors.New("thread"), ended))
	test.Equal(
		t,
		"a call",
		[]string{string(outcome), code, message},
		[]string{"interrupted", "host_ended", "a signal"},
	)
	outcome, code, _ = j.judge(t.Context(), reconcile.NewError(host.CodeDied, "killed", ""))
	test.Equal(
		t,
		"its server has died",
		[]string{string(outcome), code},
		[]string{"interrupted", "host_died"},
	)
	code, _ = j.endOfLink()
	test.Equal(t, "here", code, "")
	j.link = endedLink{}
	code, _ = j.endOfLink()
	test.Equal(t, "a link", code, "")
	j.link = endedLink{err: ended}
	code, message = j.endOfLink()
	test.Equal(t, "an ended link", []string{code, message}, []string{"host_ended", "a signal"})
}
