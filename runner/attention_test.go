package runner

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local"
)

func attentionHook(t *testing.T, script string) AttentionHook {
	t.Helper()
	return AttentionHook{
		Script: script, Timeout: time.Minute, Home: t.TempDir(), Now: time.Now, Host: &local.Host{}, Workflow: "/w/WORKFLOW.md",
		Env:     []string{"PATH=/usr/bin:/bin", "CI_TOKEN=token-of-another", "LINEAR_API_KEY=lin_api_x", "SYMPHONY_ATTENTION_ID=old", "ALIAS=lin_api_x"},
		Secrets: []string{"LINEAR_API_KEY"}, SecretValues: []string{"lin_api_x"},
	}.OfPass(t.TempDir())
}

// The end of a hook's output is kept, up to a bound. Output that is not text does not hide the reason.
func TestAttentionOutput(t *testing.T) {
	h := attentionHook(t, `head -c 5000000 /dev/zero | tr '\0' x; echo; printf 'the end: \377 lin_api_x\n\n'; exit 3`)
	told := h.Run(context.Background(), reconcile.Attention{Kind: reconcile.AttentionHold})
	if len(told.Output) > attentionLog || !strings.HasSuffix(string(told.Output), "lin_api_x\n\n") {
		t.Errorf("%d bytes are kept, the end is %q", len(told.Output), told.Output[max(0, len(told.Output)-40):])
	}
	if told.Err == nil || !strings.HasSuffix(told.Err.Error(), "hooks.on_attention: exit status 3: the end: \uFFFD [redacted]") || told.Unfinished {
		t.Errorf("it ended with %v", told.Err)
	}
}

// A hook that can't be started is unfinished, and the error says why.
func TestAttentionThatCannotStart(t *testing.T) {
	h := attentionHook(t, "true").OfPass(filepath.Join(t.TempDir(), "gone"))
	told := h.Run(context.Background(), reconcile.Attention{Kind: reconcile.AttentionHold})
	if !told.Unfinished || told.Err == nil || !strings.Contains(told.Err.Error(), "attention.tree: no such file") {
		t.Errorf("it ended with %v, unfinished: %v", told.Err, told.Unfinished)
	}
}

// A hook is ended with its worker, and then counts as unfinished.
func TestAttentionEndsWithItsWorker(t *testing.T) {
	h := attentionHook(t, "echo begun; sleep 88")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	told := h.Run(ctx, reconcile.Attention{Kind: reconcile.AttentionHold})
	if !told.Unfinished || told.Err == nil || !strings.HasSuffix(told.Err.Error(), "was ended with the run") {
		t.Errorf("it ended with %v, unfinished: %v", told.Err, told.Unfinished)
	}
}
