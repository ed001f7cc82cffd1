package github

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	// listKey is the key under which Memory stores the list of candidates.
	listKey = "github_issues"
	// largestList bounds the list that Memory stores, in bytes. A larger list is read anew by
	// every pass.
	largestList = 16 << 20
)

// storedList is the value in Memory: the candidates of each repository by the last answers.
type storedList struct {
	For string `json:"for"` // the settings that it was read for
	// the login of the token's account; empty if the settings do not ask for it
	Me    string                 `json:"me,omitempty"`
	Repos map[string]*storedPart `json:"repos"`
}

// storedPart is the list of a single repository.
type storedPart struct {
	Name   string    `json:"name,omitempty"` // its present name, if it was renamed
	ETag   string    `json:"etag"`
	Mark   time.Time `json:"mark"` // the newest change in the list
	At     time.Time `json:"at"`   // when all open issues were read
	Issues []record  `json:"issues"`
}

// remembered returns the list in Memory. It is empty if Memory contains none or it cannot be
// read.
func (c *Client) remembered(ctx context.Context) storedList {
	if c.o.Memory == nil {
		return storedList{}
	}
	stored, _, err := c.o.Memory.Meta(ctx, listKey)
	if err != nil {
		return storedList{}
	}
	decoder := json.NewDecoder(strings.NewReader(stored))
	decoder.DisallowUnknownFields()
	var l storedList
	if decoder.Decode(&l) != nil || l.Repos == nil {
		return storedList{}
	}
	return l
}

// remember stores the list in Memory.
func (c *Client) remember(ctx context.Context, l storedList) error {
	stored := string(text.JSON(l))
	if len(stored) > largestList {
		const warning = "the open issues take more than %d MiB: every pass reads all of them"
		c.WarnOnce(fmt.Sprintf(warning, largestList>>20))
		stored = ""
	}
	return c.o.Memory.SetMeta(ctx, listKey, stored)
}

// forget drops issues that no longer exist from the list in Memory.
func (c *Client) forget(ctx context.Context, gone []ref) error {
	c.memory.Lock()
	defer c.memory.Unlock()
	l := c.remembered(ctx)
	changed := false
	for _, p := range l.Repos {
		before := len(p.Issues)
		p.Issues = slices.DeleteFunc(p.Issues, func(r record) bool {
			return slices.Contains(gone, ref{r.Repo, r.Number})
		})
		changed = changed || len(p.Issues) != before
	}
	if !changed {
		return nil
	}
	return c.remember(ctx, l)
}
