package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
)

// blockIsDue makes the account's block, if there is one, due for its next try.
func (c *crashScene) blockIsDue() bool {
	c.t.Helper()
	files := c.glob("home", ".local", "state", "symphony", "accounts", "*", "limits.json")
	if len(files) == 0 {
		return false
	}
	path := filepath.Join(filepath.Dir(files[0]), "limits.lock")
	file := test.Must(lock.Take(c.t.Context(), path, lock.Exclusive, test.Patience()))
	defer lock.Release(file)
	text, err := os.ReadFile(files[0])
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	c.must(err)
	var record map[string]any
	c.must(json.Unmarshal(text, &record))
	block, blocked := record["block"].(map[string]any)
	if !blocked {
		return false
	}
	block["next_try"] = time.Now().UTC()
	next := files[0] + ".test"
	c.must(os.WriteFile(next, test.Must(json.Marshal(record)), 0o600))
	c.must(os.Rename(next, files[0]))
	return true
}

// TestSlotIsFreeWhenTheRunIsOver checks that the pass that a worker starts at its end finds
// the slot free, even if the worker is still alive.
func TestSlotIsFreeWhenTheRunIsOver(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	program := builtProgram(t, "crashpoints")
	s := crashScenario{
		name:   "slot",
		issue:  handOver,
		ends:   "Human Review",
		keeps:  true,
		deaths: 1,
		stands: true,
	}
	s.play = func(c *crashScene) {
		c.passes("the worker is stopped", c.died)
		slots := c.glob("home", ".local", "state", "symphony", "accounts", "*", "slots", "1")
		if len(slots) != 1 {
			t.Fatalf("slots: %q", slots)
		}
		slot, err := lock.Take(t.Context(), slots[0], lock.Exclusive, 0)
		test.OK(t, err)
		test.OK(t, lock.Release(slot))
		c.waitFor("the worker is killed", func() bool { return !c.kill(syscall.SIGKILL) }, nil)
	}
	newCrashScene(t, program, s, "worker:worker.closed").play()
}

// toldPlay has a request of an agent and a hold by the operator: the worker delivers the first
// notification, a pass the second.
func toldPlay(c *crashScene) {
	c.edit("hooks:\n", "hooks:\n  on_attention: "+c.path("witness")+" attention\n")
	c.edit("agent:\n", "agent:\n  on_approval: ask\n")
	c.arm()
	c.passes("asked and told", func() bool {
		return c.number(
			`SELECT count(*) FROM attentions a JOIN requests r ON a.ref = r.identifier || '.' || r.number
			JOIN runs ON runs.id = r.run_id WHERE runs.outcome IS NULL AND a.done_at IS NOT NULL`,
		) > 0 ||
			c.died() && c.number(`SELECT count(*) FROM attentions WHERE taken_at IS NOT NULL`) > 0
	})
	// This notification is from a pass that died twice while its hook ran.
	c.query(`INSERT INTO attentions (key, kind, text, at, taken_at, taken_by, error)
		VALUES ('left', 'hold', 'left', 1, 1, 'pass', 'not finished by pass')`)
	c.order("stop", "ABC-1")
	c.passes("held and told", func() bool {
		return c.claim() == "held operator" && c.unsettled() == 0 &&
			c.number(`SELECT count(*) FROM attentions WHERE kind = 'hold' AND taken_at IS NOT NULL`) > 0
	})
	c.edit("  on_approval: ask\n", "")
	c.order("retry", "ABC-1")
}

// edit replaces a part of the workflow.
func (c *crashScene) edit(old, text string) {
	c.t.Helper()
	c.edits++
	c.write("WORKFLOW.md", strings.Replace(c.read("WORKFLOW.md"), old, text, 1), 0o600)
}

// checkAttentions checks that the delivery of every notification has begun, and none was
// delivered twice without a death. A request for approval whose run has ended need not be
// delivered.
func (c *crashScene) checkAttentions() {
	if left := c.query(`SELECT key FROM attentions a WHERE taken_at IS NULL AND done_at IS NULL AND NOT EXISTS (
		SELECT 1 FROM requests q JOIN runs r ON r.id = q.run_id WHERE q.issue_id = a.issue_id
			AND a.ref = q.identifier || '.' || q.number AND q.kind <> 'question' AND r.outcome IS NOT NULL)`); len(
		left,
	) > 0 {
		c.t.Errorf("not delivered: %q", left)
	}
	if undone := c.query(`SELECT key FROM attentions WHERE done_at IS NULL`); len(undone) > 0 && !c.died() &&
		c.deaths == 0 {
		c.t.Errorf("not recorded as delivered: %q", undone)
	}
	delivered := strings.Count("\n"+c.read("ledger/log"), "\nattention ")
	most := c.number(`SELECT count(*) FROM attentions WHERE taken_at IS NOT NULL`)
	if c.died() {
		most++
	}
	if delivered > most {
		c.t.Errorf("%d deliveries, at most %d are allowed", delivered, most)
	}
}

func (c *crashScene) read(name string) string {
	c.t.Helper()
	return string(test.Must(os.ReadFile(c.path(name))))
}
