package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Candidates implements reconcile.Tracker. The program may return issues in other states,
// which are left out. Without states it is not run.
func (c *client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	found := []reconcile.Issue{}
	asked := text.Unique(states)
	if len(asked) == 0 {
		return found, nil
	}
	normal := map[string]bool{}
	for _, s := range asked {
		normal[reconcile.NormalizeState(s)] = true
	}
	request := map[string][]string{"states": asked}
	err := c.issues(ctx, verbCandidates, request, func(path string, i reconcile.Issue, err error) error {
		if err != nil {
			id := cmp.Or(i.ID, path)
			found = append(found, reconcile.Issue{
				ID:         id,
				Identifier: cmp.Or(i.Identifier, id),
				Malformed:  c.Redact(err.Error()),
			})
			return nil
		}
		if normal[reconcile.NormalizeState(i.State)] {
			found = append(found, i)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// ByIDs implements reconcile.Tracker. An issue that was not requested fails the call: it may
// be a requested issue under another name, which would seem to be gone.
func (c *client) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	found := map[string]reconcile.Issue{}
	ids = text.Unique(ids)
	if len(ids) == 0 {
		return found, nil
	}
	request := map[string][]string{"ids": ids}
	err := c.issues(ctx, verbByIDs, request, func(path string, i reconcile.Issue, err error) error {
		if err != nil {
			if i.Identifier == "" {
				return err
			}
			return fmt.Errorf("%w (issue %q)", err, i.Identifier)
		}
		if !slices.Contains(ids, i.ID) {
			return fmt.Errorf("%s.id is %q, which was not asked for", path, i.ID)
		}
		found[i.ID] = i
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// issues runs the program and calls each with every issue, and with the fault of its record.
// No id or identifier may come twice.
func (c *client) issues(
	ctx context.Context,
	verb string,
	request any,
	each func(path string, i reconcile.Issue, err error) error,
) error {
	answer, err := c.ask(ctx, verb, request)
	if err != nil {
		return err
	}
	list, err := answer.list("issues")
	if err != nil {
		return c.invalid(verb, err)
	}
	ids := map[string]string{}
	identifiers := map[string]string{}
	for n, raw := range list {
		path := fmt.Sprintf("issues[%d]", n)
		i, err := issue(path, raw)
		if other, twice := ids[i.ID]; twice && i.ID != "" {
			return c.invalid(verb, fmt.Errorf("%s.id is %q, as in %s", path, i.ID, other))
		}
		if other, twice := identifiers[i.Identifier]; twice && i.Identifier != "" {
			return c.invalid(verb, fmt.Errorf("%s.identifier is %q, as in %s", path, i.Identifier, other))
		}
		ids[i.ID] = path
		identifiers[i.Identifier] = path
		if err := each(path, i, err); err != nil {
			return c.invalid(verb, err)
		}
	}
	return nil
}

// find returns the issue with an id, or else with an identifier.
func (c *client) find(ctx context.Context, ref string) (*reconcile.Issue, error) {
	ref = strings.TrimSpace(ref)
	missing := reconcile.NewError(
		"issue_not_found",
		fmt.Sprintf("%s has no issue %q", c.Command[0], ref),
		"check the identifier; symphony issues lists the issues",
	)
	if ref == "" {
		return nil, missing
	}
	found, err := c.ByIDs(ctx, []string{ref})
	if err != nil {
		return nil, err
	}
	if i, there := found[ref]; there {
		return &i, nil
	}
	list, err := c.Candidates(ctx, c.States)
	if err != nil {
		return nil, err
	}
	id := text.First(list, func(i reconcile.Issue) bool { return strings.EqualFold(i.Identifier, ref) }).ID
	found, err = c.ByIDs(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if i, there := found[id]; there {
		return &i, nil
	}
	return nil, missing
}
