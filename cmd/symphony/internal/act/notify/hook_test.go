package notify

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local"
)

func testHook(t *testing.T, script string) Hook {
	t.Helper()
	return Hook{
		Script:   script,
		Timeout:  time.Minute,
		Home:     t.TempDir(),
		Now:      time.Now,
		Commands: local.Machine{},
		Workflow: "/w/WORKFLOW.md",
		Env: []string{
			"PATH=/usr/bin:/bin",
			"CI_TOKEN=token-of-another",
			"LINEAR_API_KEY=lin_api_x",
			"SYMPHONY_ATTENTION_ID=old",
			"ALIAS=lin_api_x",
		},
		Secrets:      []string{"LINEAR_API_KEY"},
		SecretValues: []string{"lin_api_x"},
	}.OfPass(t.TempDir())
}

// The end of a hook's output is kept up to a limit, from the start of a line if possible.
// Output that is not text does not hide the reason of a failure.
func TestHookOutput(t *testing.T) {
	h := testHook(
		t,
		`head -c 5000000 /dev/zero | tr '\0' x; echo; printf 'the end: \377 lin_api_x\n\n'; exit 3`,
	)
	result := h.Run(context.Background(), reconcile.Attention{Kind: reconcile.AttentionHold})
	if len(result.Output) > longestLog || !strings.HasSuffix(string(result.Output), "lin_api_x\n\n") {
		t.Errorf(
			"%d bytes are kept, the end is %q",
			len(result.Output),
			result.Output[max(0, len(result.Output)-40):],
		)
	}
	if result.Err == nil ||
		!strings.HasSuffix(
			result.Err.Error(),
			"hooks.on_attention: exit status 3: the end: \uFFFD [redacted]",
		) ||
		result.Unfinished {
		t.Errorf("it ended with %v", result.Err)
	}
}

// Cut output does not begin within a secret, which would not be recognised there.
func TestHookOutputIsCutAtALine(t *testing.T) {
	h := testHook(t, "yes 'the key is lin_api_x, as always' | head -c 100000; echo; echo end")
	result := h.Run(context.Background(), reconcile.Attention{Kind: reconcile.AttentionHold})
	if !strings.HasPrefix(string(result.Output), "the key") ||
		!strings.HasSuffix(string(result.Output), "\nend\n") {
		t.Errorf("kept %.40q", result.Output)
	}
}

// A hook that can't be started is unfinished, and its error is the reason.
func TestHookThatCannotStart(t *testing.T) {
	h := testHook(t, "true").OfPass(filepath.Join(t.TempDir(), "gone"))
	result := h.Run(context.Background(), reconcile.Attention{Kind: reconcile.AttentionHold})
	test.Equal(t, "unfinished", result.Unfinished, true)
	test.Contains(t, "the error", fmt.Sprint(result.Err), "attention.tree: no such file")
}

// A hook that is killed together with its run is unfinished.
func TestHookEndsWithItsWorker(t *testing.T) {
	h := testHook(t, "echo begun; sleep 88")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	result := h.Run(ctx, reconcile.Attention{Kind: reconcile.AttentionHold})
	if !result.Unfinished || result.Err == nil ||
		!strings.HasSuffix(result.Err.Error(), "was killed together with the run") {
		t.Errorf("it ended with %v, unfinished: %v", result.Err, result.Unfinished)
	}
}

// A hook that takes too long gets two seconds to remove its lock, as pyenv rehash does.
func TestHookThatHangsRemovesItsLock(t *testing.T) {
	h := testHook(t, `sh -c 'trap "sleep 0.1; rm ~/lock; exit" TERM; touch ~/lock; sleep 1000 & wait'`)
	h.Env = append(h.Env, "HOME="+h.Home)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	result := h.Run(ctx, reconcile.Attention{Kind: reconcile.AttentionHold})
	test.Equal(t, "it fails", result.Err != nil, true)
	test.Equal(t, "the lock is left", test.Exists(t, filepath.Join(h.Home, "lock")), false)
}
