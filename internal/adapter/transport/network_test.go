package transport

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A request without an answer says what to look at: the proxy, the name, the clock, or the
// certificates.
func TestNetworkHint(t *testing.T) {
	c := &Client{}
	c.Setting = "tracker.endpoint"
	for hint, err := range map[string]error{
		"the proxy does not answer: correct HTTPS_PROXY": &net.OpError{Op: "proxyconnect", Err: errors.New("refused")},
		"no name server knows api.example: check":        &net.DNSError{Name: "api.example", IsNotFound: true},
		"see whether date shows the right time":          x509.CertificateInvalidError{Reason: x509.Expired},
		"this machine trusts no authority":               x509.UnknownAuthorityError{},
		"check the network and tracker.endpoint":         &net.OpError{Op: "dial", Err: errors.New("refused")},
	} {
		failed := c.networkHint(&url.Error{Op: "Get", URL: "https://api.example", Err: err})
		test.Contains(t, "the hint of "+err.Error(), failed, hint)
	}
}
