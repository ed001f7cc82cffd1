package wiring

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// systemCertificates are where systems keep the certificates that they trust.
var systemCertificates = []string{
	"/etc/ssl/certs/ca-certificates.crt",     // Debian, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",       // Fedora
	"/etc/ssl/ca-bundle.pem",                 // SUSE
	"/etc/ssl/cert.pem",                      // Alpine, macOS
	"/etc/ssl/certs/ca-bundle.crt",           // NixOS
	"/usr/local/share/certs/ca-root-nss.crt", // FreeBSD
}

// certificatesPath is the file with the certificates that git and agents trust. Agents may read it,
// unlike symphony's own directories.
func (p *Project) certificatesPath() string {
	cache := cmp.Or(p.Env.Getenv("XDG_CACHE_HOME"), filepath.Join(p.Env.Home, ".cache"))
	return filepath.Join(cache, "symphony", filepath.Base(p.StateDir)+".pem")
}

// WriteCertificates lets git and agents trust tracker.ca_file, too: it writes the file that Environ
// names, with the system's certificates before those. Without the key it removes the file.
func (p *Project) WriteCertificates(cfg *workflow.Config) error {
	path := p.certificatesPath()
	err := p.writeCertificates(path, cfg.Tracker.CAFile)
	if err == nil {
		return nil
	}
	return reconcile.NewError(
		workflow.CodeInvalid,
		fmt.Sprintf("tracker.ca_file: write the certificates for git and agents to %s: %v", path, err),
		cmp.Or(paths.Regain(path), "name a readable PEM file, and let the account write that directory"),
	)
}

func (p *Project) writeCertificates(path, more string) error {
	if more == "" {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	own, err := os.ReadFile(more)
	if err != nil {
		return err
	}
	system := cmp.Or(p.Env.Getenv("SSL_CERT_FILE"), text.First(systemCertificates, Exists))
	all, err := os.ReadFile(system)
	if err != nil {
		return err
	}
	all = bytes.Join([][]byte{all, own}, []byte("\n"))
	present, _ := os.ReadFile(path) // it need not exist
	if bytes.Equal(present, all) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, all, 0o600)
}
