// Package openapi checks requests to GitLab, and its answers, by its published description. It is
// not a part of gitlabtest, because the validator would add to the time of each start of a program
// that uses it.
//
// The description is exact about requests. Of answers it names the fields, but neither which are
// required nor which may be null, and it describes some lists as one object. So null is allowed
// everywhere, a list where an object is described in a few answers, and a field that is not
// described is a fault.
package openapi

import (
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/symphony-cron/symphony/internal/adapter/openapitest"
	"github.com/symphony-cron/symphony/internal/test"
)

// Variable names the description, a file in YAML. Without it nothing is checked.
const Variable = "SYMPHONY_GITLAB_OPENAPI"

// lists are the answers to GET, by the ends of their paths, that are lists although one object is
// described.
var lists = []string{"/links", "/closed_by", "/pipelines", "/reviewers"}

// Exceptions in schemas.
var (
	// listFields are fields that are lists although one object is described.
	listFields = []string{"approved_by"}
	// anyFields are fields that have another type than is described.
	anyFields = []string{
		"access_level", "expires_at", "scopes", "project", "followers", "following", "merge_trains_enabled",
	}
)

// trains describes the request for a merge train, which the description lacks, as GitLab's page about
// merge trains has it.
const trains = `
openapi: 3.0.0
info: {title: Merge trains, version: "1"}
paths:
  /api/v4/projects/{id}/merge_trains/merge_requests/{merge_request_iid}:
    post:
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: merge_request_iid, in: path, required: true, schema: {type: integer}}
      requestBody:
        content:
          application/json:
            schema:
              type: object
              additionalProperties: false
              properties:
                auto_merge: {type: boolean}
                sha: {type: string}
                squash: {type: boolean}
                when_pipeline_succeeds: {type: boolean}
      responses:
        "201": {description: Created}
        "202": {description: Accepted}
        "400": {description: Bad request}
        "401": {description: Unauthorized}
        "403": {description: Forbidden}
        "404": {description: Not found}
        "409": {description: Conflict}
`

var published = sync.OnceValue(func() *openapi3.T {
	path := os.Getenv(Variable)
	if path == "" {
		return nil
	}
	doc := test.Must(openapi3.NewLoader().LoadFromFile(path))
	for _, schema := range doc.Components.Schemas {
		amend(schema.Value)
	}
	for path, item := range test.Must(openapi3.NewLoader().LoadFromData([]byte(trains))).Paths.Map() {
		doc.Paths.Set(path, item)
	}
	for path, item := range doc.Paths.Map() {
		if item.Get == nil {
			continue
		}
		for _, response := range item.Get.Responses.Map() {
			for kind, content := range response.Value.Content {
				switch {
				case strings.HasSuffix(path, "/trace"): // a text
					delete(response.Value.Content, kind)
				case slices.ContainsFunc(lists, func(end string) bool { return strings.HasSuffix(path, end) }):
					amendList(content)
				}
			}
		}
	}
	return doc
})

// amendList makes an answer a list of what is described, unless it is one.
func amendList(content *openapi3.MediaType) {
	if content.Schema == nil || content.Schema.Value.Type.Is("array") {
		return
	}
	content.Schema = openapi3.NewSchemaRef("", openapi3.NewArraySchema().WithItems(content.Schema.Value))
}

// amend allows null in every field of an answer, and no other field.
func amend(s *openapi3.Schema) {
	if len(s.Properties) == 0 {
		return
	}
	s.Required = nil
	no := false
	s.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	for name, field := range s.Properties {
		nullable := *field.Value
		nullable.Nullable = true
		switch {
		case slices.Contains(listFields, name) && !nullable.Type.Is("array"):
			nullable = *openapi3.NewArraySchema().WithItems(field.Value)
		case slices.Contains(anyFields, name):
			nullable = openapi3.Schema{Nullable: true}
		case nullable.Type.Is("object") && len(nullable.Properties) == 0:
			nullable = openapi3.Schema{Nullable: true}
		}
		s.Properties[name] = openapi3.NewSchemaRef("", &nullable)
	}
}

// Check returns the fault of a request, or of the reply to it. params are the values of the parts
// of path in braces.
func Check(
	r *http.Request,
	body []byte,
	path string,
	params map[string]string,
	reply func() (int, http.Header, []byte),
) (mistake string) {
	doc := published()
	if doc == nil || doc.Paths.Value(path) == nil {
		_, _, _ = reply()
		if doc != nil {
			return "there is no path " + path
		}
		return ""
	}
	return openapitest.Validate(doc, withoutBrackets(r), body, path, params, reply)
}

// withoutBrackets returns a request whose lists in the query are written as the description has
// them: iids for iids[].
func withoutBrackets(r *http.Request) *http.Request {
	query := url.Values{}
	for name, values := range r.URL.Query() {
		query[strings.TrimSuffix(name, "[]")] = values
	}
	copied := *r
	u := *r.URL
	u.RawQuery = query.Encode()
	copied.URL = &u
	return &copied
}
