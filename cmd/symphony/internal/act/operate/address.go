package operate

import (
	"context"
	"net/url"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
)

// Address returns the address of an issue in the web, or of its pull request. It asks the tracker only for what the database does not
// know.
func Address(ctx context.Context, p *project.Project, ref string, pullRequest bool) (string, error) {
	v, err := detail.Read(ctx, p, ref, detail.Options{Offline: true, Brief: true})
	if err != nil || v.Address(pullRequest) == "" {
		if v, err = detail.Read(ctx, p, ref, detail.Options{Brief: true}); err != nil {
			return "", err
		}
	}
	address, identifier := v.Address(pullRequest), v.Issue.Identifier
	if page, err := url.Parse(address); err != nil || page.Scheme != "https" && page.Scheme != "http" {
		e := reconcile.NewError("page_not_found", identifier+" has no page: the tracker names no address of the web",
			"symphony show "+identifier+" prints what is known of it")
		if pullRequest {
			e.Message = identifier + " has no pull request that symphony knows of"
		}
		return "", e
	}
	return address, nil
}
