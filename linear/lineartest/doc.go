// Package lineartest is an in-process Linear for tests and the demo command: a workspace in memory behind the part of
// Linear's GraphQL API that symphony and its agents use.
//
// A request is authenticated, counted against an allowance, validated (Config.Validate), priced as Linear prices it, and
// answered by its root fields: query.go has the queries, object.go the fields of the entities and the mutations. What is not
// served is an error. Fail makes requests fail on purpose.
package lineartest
