// Package lineartest is a Linear that runs in this process: a workspace in memory behind the GraphQL API that
// symphony and the agents it runs make use of. Tests and the demo command run against it.
//
// schema.graphql says what it serves. Every request is validated against it, priced like Linear prices it, counted
// against an allowance, and executed field by field; Fail makes it misbehave on purpose. Another process steers it
// over the control API (control.go).
//
//	request ─► Failure? ─► key ─► allowance ─► parse, validate ─► price ─► execute ─► Failure? ─► answer, Log
//
// Lists are newest first, pages have 50 entries unless asked otherwise and 250 at most, archived entries are left
// out unless asked for, as with Linear.
package lineartest
