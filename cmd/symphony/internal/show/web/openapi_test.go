package web

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
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
		for method, o := range operations {
			if o, ok := o.(map[string]any); ok {
				checkNamedErrors(t, method, path, slices.Sorted(maps.Keys(o["responses"].(map[string]any))))
			}
		}
		for method := range operations {
			if method != "parameters" && !served[method+" "+path] {
				t.Errorf("the server has no %s %s", method, path)
			}
		}
	}
}

// checkNamedErrors checks that an operation has the statuses of the errors that it can meet.
func checkNamedErrors(t *testing.T, method, path string, statuses []string) {
	t.Helper()
	want := []string{"421", "default"}
	switch {
	case method == "post":
		want = append(want, "400", "401", "403", "404", "409", "413", "500", "502", "503", "504")
	case strings.Contains(path, "{identifier}"):
		want = append(want, "400", "401", "404", "409", "500", "503")
	case path == "/api/v1/events":
		want = append(want, "400", "401", "503")
	case path != "/healthz" && path != "/api/v1/openapi.json":
		want = append(want, "400", "401", "404", "500", "503")
	}
	slices.Sort(want)
	errors := slices.DeleteFunc(statuses, func(s string) bool { return s < "400" })
	test.Equal(t, "errors of "+method+" "+path, errors, want)
}

// The OpenAPI document has the parameters that an address takes, and no others.
func TestNamedParameters(t *testing.T) {
	type parameter struct {
		Ref  string `json:"$ref"`
		In   string
		Name string
	}
	type operation struct{ Parameters []parameter }
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	test.OK(t, json.Unmarshal(document(), &doc))
	for _, r := range (&Server{}).table() {
		path := doc.Paths[r.path]
		if path == nil || r.need == needNothing {
			continue
		}
		var own operation
		test.OK(t, json.Unmarshal(path[strings.ToLower(r.method)], &own))
		if path["parameters"] != nil {
			var shared []parameter
			test.OK(t, json.Unmarshal(path["parameters"], &shared))
			own.Parameters = append(own.Parameters, shared...)
		}
		var named []string
		for _, p := range own.Parameters {
			if p.Ref != "" {
				p = doc.Components.Parameters[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
			}
			if p.In == "query" {
				named = append(named, p.Name)
			}
		}
		known := slices.Sorted(slices.Values(r.parameters()))
		test.Equal(t, "the parameters of "+r.path, slices.Sorted(slices.Values(named)), known)
	}
}

// Each code that has a status of its own is named where the document describes that status.
func TestNamedCodes(t *testing.T) {
	var doc struct {
		Components struct {
			Responses map[string]struct{ Description string }
		}
	}
	test.OK(t, json.Unmarshal(document(), &doc))
	responses := map[int]string{
		400: "BadRequest",
		401: "Unauthorized",
		403: "OtherSite",
		404: "NotFound",
		405: "Error",
		409: "Conflict",
		413: "TooLarge",
		421: "OtherHost",
		503: "Unavailable",
		504: "TimedOut",
	}
	_, source, _ := strings.Cut(string(test.Must(os.ReadFile("api.go"))), "func statusCode(")
	source, _, _ = strings.Cut(source, "switch reconcile.ClassOf")
	codes := regexp.MustCompile(`"[a-z_]+"`).FindAllString(source, -1)
	if len(codes) < 20 {
		t.Error("statusCode has only", codes)
	}
	for _, code := range append(codes, "usage") {
		code = strings.Trim(code, `"`)
		status := statusCode(reconcile.NewError(code, "", ""))
		test.Contains(t, responses[status], doc.Components.Responses[responses[status]].Description, code)
	}
}
