package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
	"github.com/symphony-cron/symphony/runner/codex/compat"
)

// passSaw lets the rig's worker find that its pass has looked at a codex of a version, and why it learned nothing.
func (r *rig) passSaw(version, unchecked string) {
	r.t.Helper()
	text, err := json.Marshal(compat.Report{Command: r.Config.Command, Version: version, Unchecked: unchecked})
	must(r.t, err)
	r.journal.meta[MetaCodex] = string(text)
}

// edited puts a script before the agent that notes when it is asked for its schema, and edits that.
func (r *rig) edited(sed string) (asked string) {
	r.t.Helper()
	dir := r.t.TempDir()
	asked = filepath.Join(dir, "asked")
	text := `#!/bin/sh
"$@" || exit
[ -n "$SYMPHONY_SCHEMA_OUT" ] || exit 0
touch ` + asked + `
sed -i '` + sed + `' "$SYMPHONY_SCHEMA_OUT"/*.json
`
	must(r.t, os.WriteFile(filepath.Join(dir, "codex.sh"), []byte(text), 0o700))
	r.Config.Command = filepath.Join(dir, "codex.sh") + " " + r.Config.Command
	return asked
}

func found(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestAnotherCodex: an agent that is not the codex which the pass has looked at is asked itself, before its thread
// begins; once for each version.
func TestAnotherCodex(t *testing.T) {
	for _, c := range []struct {
		name, saw, sed string
		unchecked      string
		policy         string
		code           string // of the run's end, "" for success
		text           string
		asked          bool
	}{
		{name: "the same", saw: codextest.Version, sed: "s/sandboxPolicy/confinement/g"},
		{name: "not known which", saw: "", asked: true},
		{name: "not known which, and it does not fit", saw: "", sed: "s/sandboxPolicy/confinement/g", asked: true, code: "codex_incompatible", text: "does not know turn/start.sandboxPolicy"},
		{name: "one that says nothing", saw: "", unchecked: "it ended with exit status 2", sed: "s/sandboxPolicy/confinement/g"},
		{name: "another that fits", saw: "0.100.0", asked: true},
		{name: "another that does not", saw: "0.100.0", sed: "s/sandboxPolicy/confinement/g", asked: true, code: "codex_incompatible", text: "does not know turn/start.sandboxPolicy"},
		{name: "another that does not take a value", saw: "0.100.0", policy: `"sometimes"`, asked: true, code: "codex_incompatible", text: `codex.approval_policy: "sometimes" is unknown to codex ` + codextest.Version},
		{name: "another that is not known", saw: "0.100.0", sed: "s/.*/{/", asked: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "say here")
			if c.policy != "" {
				r.Config.ApprovalPolicy = json.RawMessage(c.policy)
			}
			asked := r.edited(c.sed)
			r.passSaw(c.saw, c.unchecked)
			outcome := reconcile.Succeeded
			if c.code != "" {
				outcome = reconcile.Failed
			}
			run := r.ends(outcome, c.code)
			if c.code != "" && (run.ThreadID != "" || !strings.Contains(run.ErrorText, c.text)) {
				t.Errorf("thread %q, %q", run.ThreadID, run.ErrorText)
			}
			if found(asked) != c.asked {
				t.Errorf("asked: %v", found(asked))
			}
			var kept compat.Report
			if text := r.known(MetaCodexOfRuns); text != "" {
				must(t, json.Unmarshal([]byte(text), &kept))
			}
			if c.asked != (kept.Version == codextest.Version) {
				t.Errorf("kept: %+v", kept)
			}
			if found(filepath.Join(r.Dir, "codex-check")) {
				t.Error("the folder of the check is left")
			}
			if !c.asked {
				return
			}
			// What is known by then is not asked again.
			must(t, os.Remove(asked))
			next := newRig(t, "say here")
			next.Config.Command, next.Config.ApprovalPolicy, next.journal.meta = r.Config.Command, r.Config.ApprovalPolicy, r.journal.meta
			next.ends(outcome, c.code)
			if found(asked) {
				t.Error("asked again")
			}
		})
	}
}
