// Package github is the adapter to the pull requests of a repository on GitHub. Adapter
// returns the value that the rest of the program uses.
//
// The codes of its errors are the codes of package transport with the prefix forge;
// forge_rate_limited, which wraps transport.RateLimited; and reconcile.CodeForgeMoved:
// redirects are not followed, except to the log of a job, whose host does not get the token.
package github

import (
	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Adapter returns the pull requests of a repository. It sends nothing.
func Adapter(o transport.ForgeOptions) (*reconcile.Forge, error) {
	api, err := githubapi.Connect(service, o.Options, o.Memory)
	if err != nil {
		return nil, err
	}
	h := hub{Client: api, o: o}
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
