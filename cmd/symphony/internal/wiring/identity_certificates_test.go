package wiring

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// With tracker.ca_file git trusts the certificates in it, too, unless the operator has named others
// for git.
func TestCertificates(t *testing.T) {
	t.Parallel()
	const refs = "1111111111111111111111111111111111111111\trefs/heads/main\n"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/shop.git/info/refs" {
			_, _ = io.WriteString(w, refs)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	home := t.TempDir()
	file := filepath.Join(home, "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	test.Write(t, file, string(ca))
	w := &environ.Env{
		Environ: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"},
		Home:    home,
		Dir:     home,
		Now:     time.Now,
	}
	p := NewProject(w, filepath.Join(home, "WORKFLOW.md"), "")
	ask := func(more ...string) string {
		git := exec.CommandContext(t.Context(), "git", "ls-remote", s.URL+"/shop.git")
		git.Env = append(p.Environ(), more...)
		out, _ := git.Output() // a refusal has no output
		return string(out)
	}
	test.Equal(t, "without the certificates", ask(), "")
	cfg := &workflow.Config{}
	cfg.Tracker.CAFile = file
	test.OK(t, p.WriteCertificates(cfg))
	test.Equal(t, "with them", ask(), refs)
	test.Equal(t, "with others for git", ask("GIT_SSL_CAINFO="+systemCertificates[0]), "")
	test.OK(t, p.WriteCertificates(&workflow.Config{}))
	test.Equal(t, "without the key", ask(), "")
}
