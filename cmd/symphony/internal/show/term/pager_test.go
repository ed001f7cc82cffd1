package term

import (
	"io"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
)

// The error of a pager that can't be started says why.
func TestPagerDoesNotStart(t *testing.T) {
	w := &Env{
		Env:    environ.Env{Dir: t.TempDir() + "/gone", Environ: []string{"PAGER=less"}},
		Stdout: io.Discard,
		Stderr: io.Discard,
		Width:  80,
	}
	err := w.Paged(t.Context(), true, func() error {
		_, _ = io.WriteString(w.Stdout, "an answer\n")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("error: %v", err)
	}
}
