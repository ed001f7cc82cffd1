package repoissue

import (
	"errors"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// An issue by the identifier of another tracker is not found, and has a name here.
func TestIdentifierOfOtherTracker(t *testing.T) {
	client := &transport.Client{Service: transport.Service{Name: "Tracker"}}
	names := NewNames(client, Options{Repositories: []string{"acme/shop"}, Prefix: "GT"})
	for name, want := range map[string]string{
		"GH-12":          "write GT-12 for the issue of this number in acme/shop",
		"acme/other#12":  "write GT-12 for the issue of this number in acme/shop",
		"GT-12":          "check the number",
		"12":             "check the number",
		"fix-the-footer": "check the number",
	} {
		known, _ := errors.AsType[*reconcile.Error](names.Missing(name))
		test.Contains(t, name, known.Hint, want)
	}
}

// Every malformed record is reported, also those whose number is not known.
func TestMalformedRecordsWithoutNumber(t *testing.T) {
	const repo = "acme/shop"
	changes := []Record{{Malformed: "a"}, {Repo: repo, Number: 5, Closed: true}, {Malformed: "b"}}
	isOpen := func(r Record) bool { return !r.Closed }
	merged := Merge([]Record{{Repo: repo, Number: 5}}, changes, isOpen)
	test.Equal(t, "records", text.Map(merged, func(r Record) string { return r.Malformed }), []string{"a", "b"})
}
