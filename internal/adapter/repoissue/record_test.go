package repoissue

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// Every malformed record is reported, also those whose number is not known.
func TestMalformedRecordsWithoutNumber(t *testing.T) {
	const repo = "acme/shop"
	changes := []Record{{Malformed: "a"}, {Repo: repo, Number: 5, Closed: true}, {Malformed: "b"}}
	isOpen := func(r Record) bool { return !r.Closed }
	merged := Merge([]Record{{Repo: repo, Number: 5}}, changes, isOpen)
	test.Equal(t, "records", text.Map(merged, func(r Record) string { return r.Malformed }), []string{"a", "b"})
}
