// Package gitlab is the adapter to the merge requests of a project on GitLab, on gitlab.com or on
// a server of one's own. Adapter returns the value that the rest of the program uses.
//
// GitLab has no reviews: reviews.go makes them of approvals, requests for changes, and notes in
// discussions that are not resolved. The checks of a commit are the jobs of its pipeline, and what
// other programs have reported.
//
// The codes of its errors are the codes of package transport with the prefix forge;
// forge_rate_limited, which wraps transport.RateLimited; and reconcile.CodeForgeMoved:
// redirects are not followed.
package gitlab

import (
	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

var service = transport.Service{
	Name:          "GitLab",
	Prefix:        "forge",
	Paths:         true,
	Header:        gitlabapi.Header,
	Setting:       "repository.api",
	Secret:        "GitLab token",
	Word:          "token",
	CheckKey:      "check the token", // explain says what it lacks
	CheckEndpoint: "correct it",
	Redirected:    "the server is at another address",
	Strange:       "passes try again",
	Limited:       "GitLab, or a proxy before it, accepts no more requests",
	Separate:      "account",
}

// Adapter returns the merge requests of a project. It sends nothing.
func Adapter(o transport.ForgeOptions) (*reconcile.Forge, error) {
	client, err := gitlabapi.Connect(service, o.Options, transport.Words{
		Token:     o.By,
		Place:     o.Repository,
		Renew:     o.Renew,
		LimitCode: "forge_rate_limited",
	})
	if err != nil {
		return nil, err
	}
	h := &hub{Client: client, o: o, levels: map[int64]int{}}
	return &reconcile.Forge{
		Open:        h.open,
		Number:      h.number,
		Read:        h.read,
		ReadChecks:  h.readChecks,
		BuildsOn:    h.buildsOn,
		ReadLog:     h.readLog,
		Rerun:       h.rerun,
		Comment:     h.comment,
		MayMerge:    h.mayMerge,
		ReadMerge:   h.readMerge,
		Merge:       h.merge,
		ArmMerge:    h.armMerge,
		DisarmMerge: h.disarmMerge,
	}, nil
}
