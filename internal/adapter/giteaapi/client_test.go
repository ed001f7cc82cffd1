package giteaapi

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
)

// While no repository is known, as while init looks for one, the hint does not stop in its middle.
func TestLacksWithoutPlace(t *testing.T) {
	c := &Client{Words: transport.Words{Token: "the token"}}
	test.Equal(t, "without a repository", c.Lacks("read:user"), "the token needs the scope read:user")
	c.Words.Place = "acme/shop"
	test.Equal(t, "with one", c.Lacks("read:user"), "the token needs the scope read:user and access to acme/shop")
}
