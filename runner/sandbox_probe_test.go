package runner

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

const (
	noNamespace  = " --fault 'sandbox=bwrap: No permissions to create a new namespace'"
	defaultTried = "sandbox_tried:workspaceWrite"
)

func (r *rig) known(key string) string {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	return r.journal.meta[key]
}

// TestSandboxTried: before the first turn the machine's sandbox is tried, and no turn begins where there is none.
func TestSandboxTried(t *testing.T) {
	for _, c := range []struct {
		name, fault, policy string
		network             bool
		outcome             reconcile.Outcome
		code                string
		tried               string // the key under which it is remembered
	}{
		{name: "works", outcome: reconcile.Succeeded, tried: defaultTried},
		{name: "works with the network", network: true, outcome: reconcile.Succeeded, tried: defaultTried + ":network"},
		{name: "can't be had", fault: noNamespace, outcome: reconcile.Failed, code: "sandbox_unavailable"},
		{name: "can't be asked", fault: " --fault no-exec", outcome: reconcile.Succeeded},
		{name: "is not wanted", fault: noNamespace, policy: `{"type":"dangerFullAccess"}`, outcome: reconcile.Succeeded},
		{name: "is outside", fault: noNamespace, policy: `{"type":"externalSandbox"}`, outcome: reconcile.Succeeded},
		{name: "only reads", fault: noNamespace, policy: `{"type":"readOnly"}`, outcome: reconcile.Failed, code: "sandbox_unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "say here")
			r.Config.Command += c.fault
			r.Config.Network = c.network
			if c.policy != "" {
				r.Config.TurnSandboxPolicy = []byte(c.policy)
			}
			run := r.ends(c.outcome, c.code)
			if c.code != "" && (run.Turns != 0 || run.ThreadID != "" || !strings.Contains(run.ErrorText, "No permissions to create")) {
				t.Errorf("%d turns, thread %q, %q", run.Turns, run.ThreadID, run.ErrorText)
			}
			if c.tried != "" && r.known(c.tried) != triedWith(codextest.Version) {
				t.Errorf("remembered: %v", r.journal.meta)
			}
			for key := range r.journal.meta {
				if strings.HasPrefix(key, "sandbox_tried:") && key != c.tried {
					t.Errorf("remembered: %s", key)
				}
			}
		})
	}
}

// workedBefore gives the rig a workspace that is not new and a sandbox that has worked with a version of codex.
func (r *rig) workedBefore(version string) {
	r.t.Helper()
	r.Config.MaxTurns = 1
	r.ends(reconcile.Succeeded, "")
	r.journal.finished = nil
	r.journal.meta[defaultTried] = triedWith(version)
	r.next("run-2")
}

// TestSandboxRemembered: what has worked is not tried again by the same codex within a boot, and is by another, and in a
// workspace that is new.
func TestSandboxRemembered(t *testing.T) {
	r := newRig(t, "say here", in("Todo"))
	r.workedBefore(codextest.Version)
	r.Config.Command += noNamespace // would be found out
	r.ends(reconcile.Succeeded, "")

	r = newRig(t, "say here", in("Todo"))
	r.workedBefore("0.168.0")
	r.Config.Command += noNamespace
	r.ends(reconcile.Failed, "sandbox_unavailable")

	r = newRig(t, "say here")
	r.journal.meta[defaultTried] = triedWith(codextest.Version)
	r.Config.Command += noNamespace
	r.ends(reconcile.Failed, "sandbox_unavailable")
}

// TestSandboxLostInTurn: where the sandbox worked once and no longer does, the first command that shows it ends the turn,
// though the model would go on; and the next run tries the sandbox again.
func TestSandboxLostInTurn(t *testing.T) {
	r := newRig(t, "say here", in("Todo"))
	r.workedBefore(codextest.Version)
	r.Config.ResumeThread = false
	r.Prompt = scripted("sh true\nsh echo 'bwrap: Creating new namespace failed'; exit 1\nhang")
	r.Config.Command += noNamespace
	run := r.ends(reconcile.Failed, "sandbox_unavailable")
	if run.TurnsDone != 0 || r.known(defaultTried) != "" {
		t.Errorf("%d turns done, remembered %q", run.TurnsDone, r.known(defaultTried))
	}
}

// TestSandboxImitated: a command that prints what a sandbox would say costs its issue nothing, whether it does so always
// or once.
func TestSandboxImitated(t *testing.T) {
	r := newRig(t, "sh echo 'bwrap: Creating new namespace failed'; exit 1\nsh echo 'bwrap: no'; exit 1")
	r.ends(reconcile.Succeeded, "")
	if r.known(defaultTried) == "" {
		t.Error("what the sandbox worked with is forgotten")
	}
}

// TestSandboxWaysOut: whoever reads the hint knows what to switch on, and what giving up the sandbox means.
func TestSandboxWaysOut(t *testing.T) {
	for _, word := range []string{"user.max_user_namespaces", "bubblewrap", "container", "externalSandbox", "confines nothing", "dangerFullAccess", "no sandbox at all"} {
		if !strings.Contains(SandboxWaysOut("linux"), word) {
			t.Errorf("%q is not named", word)
		}
	}
	if strings.Contains(SandboxWaysOut("darwin"), "namespaces") {
		t.Error("a mac has no user namespaces")
	}
}
