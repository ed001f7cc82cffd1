package hosted

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// A start that fails before there is a daemon is told apart from one that may have started it:
// the worker may then use another host.
func TestNothingStarted(t *testing.T) {
	home := t.TempDir()
	run := Run{Project: "shop", ID: "run-" + filepath.Base(home), Incarnation: 1}
	dir := host.RunDir(filepath.Join(state.HostedDir("", home), run.Project), run.ID)
	test.OK(t, os.MkdirAll(filepath.Join(dir, "daemon.log"), 0o700))
	serve := func() error {
		w := &environ.Env{Home: home, Environ: []string{"HOME=" + home}, Now: time.Now}
		return Serve(t.Context(), w, strings.NewReader("secret"), run, time.Minute)
	}
	err := serve()
	_, isNothing := errors.AsType[NothingStarted](err)
	test.Equal(t, "nothing started", isNothing, true)
	test.Contains(t, "the error", err.Error(), "daemon.log: is a directory")

	test.OK(t, os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{"), 0o600))
	err = serve()
	_, isNothing = errors.AsType[NothingStarted](err)
	test.Equal(t, "nothing started, for all that is known", isNothing, false)
	test.Contains(t, "the error", err.Error(), "look for the daemon of run "+run.ID)
}
