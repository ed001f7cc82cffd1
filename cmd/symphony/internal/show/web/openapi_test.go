package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// The OpenAPI document has the addresses of the server that are for programs, and no others.
func TestOpenAPI(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]any
	}
	test.OK(t, json.Unmarshal(document(), &doc))
	served := map[string]bool{}
	for _, r := range (&Server{}).table() {
		if !strings.HasPrefix(r.path, "/api/") && r.path != "/healthz" && r.path != "/metrics" {
			continue // a page
		}
		method := strings.ToLower(r.method)
		served[method+" "+r.path] = true
		operation, found := doc.Paths[r.path][method].(map[string]any)
		if !found {
			t.Errorf("openapi.json lacks %s %s", r.method, r.path)
			continue
		}
		if acting := len(operation["tags"].([]any)) > 0 && operation["tags"].([]any)[0] == "acting"; acting != (r.need == needActing) {
			t.Errorf("openapi.json: the tag of %s %s", r.method, r.path)
		}
	}
	for path, operations := range doc.Paths {
		for method := range operations {
			if method != "parameters" && !served[method+" "+path] {
				t.Errorf("the server has no %s %s", method, path)
			}
		}
	}
}
