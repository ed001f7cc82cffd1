package linear

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
)

// documents are the requests as they are sent, with the largest variables that occur.
func documents() map[string]struct {
	text string
	vars map[string]any
} {
	ids := make([]any, batch)
	for i := range ids {
		ids[i] = "x"
	}
	type doc = struct {
		text string
		vars map[string]any
	}
	more := map[string]any{"id": "x", "first": innerPage, "after": "c"}
	return map[string]doc{
		"candidates":     {candidatesQuery + issueFields + relationFields, map[string]any{"projectSlug": "s", "stateNames": []any{"Todo"}, "first": pageSize, "after": "c"}},
		"by_ids":         {byIDsQuery + issueFields + relationFields, map[string]any{"ids": ids, "first": batch, "after": "c"}},
		"by_identifier":  {byIdentifierQuery + issueFields + relationFields, map[string]any{"id": "x"}},
		"comments":       {commentsQuery, map[string]any{"id": "x", "since": "2026-01-01T00:00:00Z", "first": commentPage, "after": "c"}},
		"more_labels":    {moreLabelsQuery, more},
		"more_relations": {moreRelationsQuery + relationFields, more},
		"projects":       {projectsQuery, map[string]any{"first": projectPage, "after": "c"}},
		"project":        {projectQuery, map[string]any{"slugs": []any{"s"}, "labels": anyOf([]string{"symphony"})}},
		"verify": {verifyQuery, map[string]any{
			"slugs": []any{"s"}, "withStates": true, "withLabels": true, "withUsers": true,
			"states": anyOf([]string{"Todo"}), "labels": anyOf([]string{"bug"}), "users": userFilter("a@b"),
		}},
	}
}

func TestEveryQueryFileIsUsed(t *testing.T) {
	files, err := filepath.Glob("query/*.graphql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	docs := documents()
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".graphql")
		if _, ok := docs[name]; !ok && !strings.HasSuffix(name, "_fields") {
			t.Errorf("%s is in no test", f)
		}
	}
}

func TestComplexityIsFarBelowTheLimit(t *testing.T) {
	for name, d := range documents() {
		points, err := lineartest.Complexity(d.text, d.vars)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Logf("%s: %.0f points", name, points)
		if points >= 4000 || points <= 0 {
			t.Errorf("%s costs %.0f points, want fewer than 4000 of the 10,000", name, points)
		}
	}
}

func TestQueriesFitTheSchema(t *testing.T) {
	for name, d := range documents() {
		if faults := linearschema.Validate(d.text, "", d.vars); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// Every mutation whose payload is asked for an id must have it in Linear's schema.
func TestCreatorsAreInTheSchema(t *testing.T) {
	schema := linearschema.Load()
	for name, field := range creators {
		mutation := schema.Mutation.Fields.ForName(name)
		if mutation == nil && os.Getenv(linearschema.Variable) == "" {
			continue // the embedded schema has few mutations
		}
		if mutation == nil {
			t.Errorf("no mutation %s", name)
			continue
		}
		entity := schema.Types[mutation.Type.Name()].Fields.ForName(field)
		if entity == nil || schema.Types[entity.Type.Name()].Fields.ForName("id") == nil {
			t.Errorf("the payload of %s has no %s with an id", name, field)
		}
	}
}

func TestSpellings(t *testing.T) {
	got := strings.Join(spellings([]string{"in progress", "Todo", " Won't do ", "Todo"}), "|")
	want := "in progress|In Progress|In progress|IN PROGRESS|Todo|todo|TODO|Won't do|Won't Do|won't do|WON'T DO"
	if got != want {
		t.Errorf("spellings %q, want %q", got, want)
	}
}

func TestPagesEndAfterTheirBound(t *testing.T) {
	fetched := 0
	err := (&Client{}).pages("things", func(after string) (*pageInfo, error) {
		fetched++
		cursor := after + "x"
		return &pageInfo{HasNextPage: true, EndCursor: &cursor}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "more than 200 pages") || fetched != maxPages {
		t.Errorf("%d pages: %v", fetched, err)
	}
}
