package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A job that already has the secret leaves another copy of it where it is: Begin removes that.
func TestSecretIsRemoved(t *testing.T) {
	p := Place{RunID: "run-1", StateDir: t.TempDir(), machine: "here", local: t.TempDir()}
	test.OK(t, os.MkdirAll(p.dir(), 0o700))
	secret := filepath.Join(p.dir(), secretFile)
	begun := make(chan error)
	go func() { begun <- Begin(t.Context(), p, 1, []byte("secret")) }()
	test.Until(t, "the secret", func() bool { return test.Exists(t, secret) })
	test.OK(t, p.begin(1))
	test.OK(t, <-begun)
	test.Equal(t, "the secret is left", test.Exists(t, secret), false)
}
