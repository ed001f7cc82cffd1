// Package transport connects adapters to trackers by HTTP.
package transport

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"

	"github.com/symphony-cron/symphony/reconcile"
)

// New returns a transport that trusts the certificates of caFile, a PEM file, beside the system's; none if it is empty. With
// ignoreProxy it does not use the proxy in this process's environment variables. The error has the code tracker_ca_file_invalid.
func New(caFile string, ignoreProxy bool) (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if ignoreProxy {
		t.Proxy = nil
	}
	if caFile != "" {
		pool, err := certificates(caFile)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return t, nil
}

// certificates returns the system's certificates and those of the file.
func certificates(file string) (*x509.CertPool, error) {
	invalid := func(message string, err error) error {
		return &reconcile.Error{
			Code: "tracker_ca_file_invalid", Message: "tracker.ca_file: " + message, Err: err, Class: reconcile.ClassWorkflow,
			Hint: "name a readable PEM file with the certificate of your CA, or leave the key out",
		}
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, invalid(err.Error(), err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the system has no certificates
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, invalid(file+" contains no PEM certificate", nil)
	}
	return pool, nil
}
