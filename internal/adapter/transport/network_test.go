package transport

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A request without an answer says what to look at.
func TestNetworkHint(t *testing.T) {
	c := &Client{}
	c.Setting = "tracker.endpoint"
	for hint, err := range map[string]error{
		"this machine trusts no authority":       x509.UnknownAuthorityError{},
		"check the network and tracker.endpoint": &net.OpError{Op: "dial", Err: errors.New("refused")},
	} {
		failed := c.networkHint(&url.Error{Op: "Get", URL: "https://api.example", Err: err})
		test.Contains(t, "the hint of "+err.Error(), failed, hint)
	}
}
