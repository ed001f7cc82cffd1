package linear

import (
	"os"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
)

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
