package notify

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state"
)

// A worker that ends while a notification is due logs no error. One whose database fails does.
func TestEndIsNoError(t *testing.T) {
	dir := t.TempDir() + "/state"
	db := test.Must(state.Create(t.Context(), dir, time.Now()))
	env := &environ.Env{Now: time.Now}
	n := Notifier{P: wiring.NewProject(env, "/w/WORKFLOW.md", dir), DB: db, Hook: testHook(t, "true")}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.deliver(ctx, log)
	test.Equal(t, "logged", out.String(), "")
	test.OK(t, db.Close())
	n.deliver(t.Context(), log)
	test.Contains(t, "logged", out.String(), "level=WARN msg=attention")
}
