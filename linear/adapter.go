// Package linear is the adapter to Linear's GraphQL API (specification 11). It reads issues for passes and workers and
// provides the agent's tool linear_graphql (specification 10.5).
//
// Adapter returns the value that the rest of the program uses. Errors are *reconcile.Error with these codes:
//
//	missing_tracker_api_key, missing_tracker_project_slug   there is no key or no project
//	tracker_endpoint_invalid   the endpoint is not an http(s) URL
//	tracker_ca_file_invalid    tracker.ca_file is not readable or contains no certificate
//	linear_api_request         no answer: a transport error, or 30 s have passed
//	linear_api_status          an answer other than HTTP 200
//	linear_graphql_errors      HTTP 200 with GraphQL errors
//	linear_unknown_payload     an answer of another shape, or a malformed record
//	linear_missing_end_cursor  pages that cannot be followed to their end
//	tracker_rate_limited       the allowance is used up; RateLimited in the chain has the end
//	tracker_project_not_found  the project does not exist
//	issue_not_found            the issue does not exist
//
// # Decisions
//
//   - Every request is one of the files in query/, sent as it is; only the variables vary.
//   - Connections inside an issue are read with a small first, because Linear prices a query by the product of its page
//     sizes (10,000 points at most). Further pages are fetched separately, so that nothing is cut silently.
//   - Nothing is retried here. The next pass is the retry.
//   - Redirects are not followed: the key goes to the configured endpoint only.
//   - Priority 0 (Linear's "no priority") stays 0. Specification 11.3 makes only non-integers null, prompts may want to
//     tell the two apart, and the order of 8.2 treats both alike.
package linear

import (
	"github.com/symphony-cron/symphony/reconcile"
)

// Adapter returns Linear as the rest of the program uses it. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker: c, Name: "Linear",
		Find: c.ByIdentifier, Comments: c.Comments, Verify: c.Verify, Budget: c.Budget,
		Tool:    Tool(c, o.ReadOnly),
		Secrets: []string{c.key},
	}, nil
}
