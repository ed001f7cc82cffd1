// Package github is the adapter to the issues of one or more repositories on GitHub. It reads
// issues for passes and workers.
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the
// codes of its errors.
//
// # Decisions
//
//   - Reads are not retried. The next pass is the retry.
//   - The end of a limit is stored in the project's database. Until then no process of the project makes a request.
//   - Redirects, which GitHub answers for a renamed repository, are followed on the same host only.
package github

import (
	"cmp"
	"sync"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
)

// Client reads the issues of the repositories of one project. It is safe for concurrent use.
type Client struct {
	*requests
	*names
	comments comments
	o        Options
	listing  sync.Mutex // held while the list in Memory is read and written
}

// connect returns a client that has not checked its repositories.
func connect(o Options) (c *Client, err error) {
	api, err := githubapi.Connect(service, o.Options, o.Memory)
	if err != nil {
		return nil, err
	}
	r := &requests{Client: api}
	o.StatusField = cmp.Or(o.StatusField, "Status")
	n := &names{api: api.Client, o: o, renamed: map[string]string{}}
	return &Client{requests: r, names: n, comments: comments{r, n}, o: o}, nil
}
