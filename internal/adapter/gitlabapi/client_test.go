package gitlabapi

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
)

// While no repository is known, as while init looks for one, the hint does not stop in its middle.
func TestLacksWithoutPlace(t *testing.T) {
	c := &Client{Words: transport.Words{Token: "the token"}}
	test.Equal(t, "without a repository", c.Lacks(), "the token needs the scope api")
	c.Words.Place = "acme/shop"
	test.Equal(t, "with one", c.Lacks(), "the token needs the scope api and the role Developer in acme/shop")
}
