package runner

import (
	"strings"
	"testing"
)

// A message that was cut in the middle of a secret keeps nothing of it worth having.
func TestSecretCutOff(t *testing.T) {
	s := newSecrets([]string{testKey})
	for text, want := range map[string]string{
		"token " + testKey[:23] + "…":                         "token " + redacted + "…",
		"a… " + testKey[:12] + "… after 3s, " + testKey + "…": "a… " + redacted + "… after 3s, " + redacted + "…",
		"short " + testKey[:4] + "…":                          "short " + testKey[:4] + "…",
		"whole " + testKey + " and so on…":                    "whole " + redacted + " and so on…",
		"…":                                                   "…",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// The same for an agent's error: it stands in the run's row, its events and its log.
func TestSecretCutOffInAnError(t *testing.T) {
	r := newRig(t, "fail other "+strings.Repeat("x", 385)+testKey)
	run, err := r.work()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(run.ErrorText, "…") {
		t.Fatalf("not cut: %q", run.ErrorText)
	}
	if half := testKey[:tellingCut+2]; strings.Contains(run.ErrorText, half) || strings.Contains(r.log.String(), half) {
		t.Errorf("half of the key stands in %q", run.ErrorText)
	}
}
