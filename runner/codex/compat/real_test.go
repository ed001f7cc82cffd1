package compat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// realCodex is the codex of the tests, and a home for it.
func realCodex(t *testing.T) (bin string, o Options) {
	t.Helper()
	if bin = os.Getenv("SYMPHONY_TEST_CODEX"); bin == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	home := t.TempDir()
	return bin, Options{
		Command: bin + " app-server", Home: home, Dir: filepath.Join(t.TempDir(), "check"),
		Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")},
	}
}

// The codex that this version was made for has all that we say and need, and nothing is left to warn about.
func TestRealCodexFits(t *testing.T) {
	bin, o := realCodex(t)
	r, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Err() != nil || len(r.Warning()) > 0 || r.Absent {
		t.Errorf("it does not fit: %v, %q", r.Err(), r.Warning())
	}
	if real, err := filepath.EvalSymlinks(bin); err != nil || r.Binary != real {
		t.Errorf("binary %s, want %s", r.Binary, real)
	}
	if r.Version == "" {
		t.Error("it has no version")
	}
	got := map[string][]string{}
	for _, key := range []string{KeyApprovalPolicy, KeyThreadSandbox, KeyTurnSandboxPolicy} {
		got[key] = r.Allowed.Values(key)
	}
	want := map[string][]string{
		KeyApprovalPolicy:    {"untrusted", "on-request", "never", "granular"},
		KeyThreadSandbox:     {"read-only", "workspace-write", "danger-full-access"},
		KeyTurnSandboxPolicy: {"dangerFullAccess", "readOnly", "externalSandbox", "workspaceWrite"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	kept, err := json.Marshal(r)
	if err != nil || len(kept) > 8<<10 {
		t.Errorf("%d bytes to keep, %v", len(kept), err)
	}
	if left, err := os.ReadDir(filepath.Dir(o.Dir)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if !r.Current(o.Command, o.Home) || r.Current(o.Command+" ", o.Home) || r.Current(o.Command, "") {
		t.Error("it does not hold for what was asked, or for something else")
	}
	if !slices.ContainsFunc(r.Programs, func(p Program) bool { return p.Path == bin }) {
		t.Errorf("programs %v", r.Programs)
	}
}
