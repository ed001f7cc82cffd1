package proc

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestEnviron(t *testing.T) {
	h := start(t, []string{"ONE=1", "TWO=a b\nc=d", "NONE="}, "idle")
	up := h.up()
	env, err := Environ(up)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ONE=1", "TWO=a b\nc=d", "NONE="} {
		if !slices.Contains(env, want) {
			t.Errorf("%q is missing in %q", want, env)
		}
	}
	// Another that has its number since is not meant.
	if env, err := Environ(reconcile.Process{PID: up.PID, Start: up.Start + 1}); !errors.Is(err, os.ErrProcessDone) || env != nil {
		t.Errorf("of another process: %q, %v", env, err)
	}
}
