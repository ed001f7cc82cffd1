// Package gitea is the adapter to the pull requests of a repository on Gitea 1.26 or later.
// Adapter returns the value that the rest of the program uses.
//
// Older releases, and Forgejo, number the jobs of their Actions differently: their checks have
// a state and an address, but neither a log nor a way to run them again.
//
// The codes of its errors are the codes of package transport with the prefix forge;
// forge_rate_limited, which wraps transport.RateLimited; and reconcile.CodeForgeMoved:
// redirects are not followed.
package gitea

import (
	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

var service = transport.Service{
	Name:          "Gitea",
	Prefix:        "forge",
	Paths:         true,
	Header:        giteaapi.Header,
	Setting:       "repository.api",
	Secret:        "Gitea token",
	Word:          "token",
	CheckKey:      "check the token", // explain says which right it lacks
	CheckEndpoint: "correct it",
	Redirected:    "the server is at another address",
	Strange:       "passes try again",
	Limited:       "Gitea, or a proxy before it, accepts no more requests",
	Separate:      "account",
}

// Adapter returns the pull requests of a repository. It sends nothing.
func Adapter(o transport.ForgeOptions) (*reconcile.Forge, error) {
	client, err := giteaapi.Connect(service, o.Options, transport.Words{
		Token:     o.By,
		Place:     o.Repository,
		Renew:     o.Renew,
		LimitCode: "forge_rate_limited",
	})
	if err != nil {
		return nil, err
	}
	h := &hub{Client: client, o: o}
	return &reconcile.Forge{
		Open:        h.open,
		MayMerge:    h.mayMerge,
		Number:      h.number,
		Read:        h.read,
		ReadChecks:  h.readChecks,
		BuildsOn:    h.buildsOn,
		ReadLog:     h.readLog,
		Rerun:       h.rerun,
		Comment:     h.comment,
		ReadMerge:   h.readMerge,
		Merge:       h.merge,
		ArmMerge:    h.armMerge,
		DisarmMerge: h.disarmMerge,
	}, nil
}
