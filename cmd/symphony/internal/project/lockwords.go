package project

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// commandPatience is how long an operator's command waits for another pass.
const CommandPatience = 10 * time.Second

func LockedError(h *state.Holder) *reconcile.Error {
	return &reconcile.Error{Code: "locked", Message: "another pass holds the lock: " + HolderText(h), Hint: "try again, or give --lock-timeout more time"}
}

func HolderText(h *state.Holder) string {
	if h.PID == 0 {
		return "unknown holder"
	}
	return fmt.Sprintf("%s pass, pid %d, since %s", h.Trigger, h.PID, h.Since.UTC().Format(time.RFC3339))
}

// living names the runs whose alive files are held.
func LivingRuns(p *Project) (ids []string) {
	entries, err := os.ReadDir(filepath.Join(p.StateDir, "runs"))
	if err != nil {
		return nil // then none has ever been
	}
	for _, e := range entries {
		if runner.Alive(p.StateDir, e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids
}
