// Package linear is the adapter to Linear's GraphQL API (specification 11): it reads issues for the passes and
// the workers, and carries the agent's linear_graphql tool (specification 10.5).
//
// Client implements reconcile.Tracker. Its errors are *reconcile.Error with these codes:
//
//	missing_tracker_api_key, missing_tracker_project_slug   nothing to ask with
//	tracker_endpoint_invalid   the endpoint is no http(s) URL
//	linear_api_request         no answer: transport, or nothing within 30 s
//	linear_api_status          an answer other than HTTP 200
//	linear_graphql_errors      HTTP 200 with GraphQL errors
//	linear_unknown_payload     an answer that can't be read, or a malformed record
//	linear_missing_end_cursor  pages that can't be followed to their end
//	tracker_rate_limited       the allowance is used up; RateLimited in the chain says until when
//	tracker_project_not_found  the project does not exist
//	issue_not_found            the issue does not exist
//
// # Decisions
//
//   - Every request is one of the files in query/, sent as it stands there; only variables vary.
//   - The connections within an issue are read with a small first, because Linear prices a query by the
//     product of its page sizes (10,000 points at most). Where one has more, the rest is fetched by itself, so
//     that nothing is cut in silence.
//   - Nothing is repeated here. The next pass is the retry (design: whose fault).
//   - Redirects are not followed: the key goes to the configured endpoint and nowhere else.
//   - Priority 0 (Linear's "no priority") is kept as 0 and not turned into null: specification 11.3 nulls only
//     what is no integer, prompts may want to tell the two apart, and the order of 8.2 treats both alike.
package linear
