// Package transport connects adapters to trackers by HTTP: it has what is the same for all of them, and what is particular to one is
// its Service.
package transport

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"sync"

	"github.com/symphony-cron/symphony/reconcile"
)

// shared are the transports of this process by what they trust, so that the passes of a loop reuse their connections.
var shared struct {
	sync.Mutex
	made map[key]*http.Transport
}

// key is what a transport depends on: the text of its certificates.
type key struct {
	pem         string
	ignoreProxy bool
}

// newTransport returns a transport that trusts the certificates of caFile, a PEM file, beside the system's; none if it is empty. With
// ignoreProxy it does not use the proxy in this process's environment variables. The error has the code tracker_ca_file_invalid.
func newTransport(caFile string, ignoreProxy bool) (http.RoundTripper, error) {
	k := key{ignoreProxy: ignoreProxy}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, invalid(err.Error(), err)
		}
		k.pem = string(pem)
	}
	shared.Lock()
	defer shared.Unlock()
	if t := shared.made[k]; t != nil {
		return t, nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if ignoreProxy {
		t.Proxy = nil
	}
	if caFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // the system has no certificates
		}
		if !pool.AppendCertsFromPEM([]byte(k.pem)) {
			return nil, invalid(caFile+" contains no PEM certificate", nil)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if shared.made == nil {
		shared.made = map[key]*http.Transport{}
	}
	shared.made[k] = t
	return t, nil
}

func invalid(message string, err error) error {
	return reconcile.NewError("tracker_ca_file_invalid", "tracker.ca_file: "+message,
		"name a readable PEM file with the certificate of your CA, or leave the key out").WithCause(err)
}
