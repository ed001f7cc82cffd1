// Package openapitest checks requests to a service, and the answers of its fake, by the published
// description of the service.
//
// A fake answers with the fields that are read, not with all that the service sends. So the
// fields in an answer are checked, and no field is required.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/symphony-cron/symphony/internal/test"
)

type parts = map[string]json.RawMessage

// Description is a service's description.
type Description struct {
	Service string // its name
	// Variable names the file with the description, which is JSON. Without it nothing is checked.
	Variable string

	reading   sync.Once
	published document
	mu        sync.Mutex
	loaded    map[string]*openapi3.T // by path
}

// document is the content of the file.
type document struct {
	OpenAPI    string           `json:"openapi"`
	Info       json.RawMessage  `json:"info"`
	Paths      parts            `json:"paths"`
	Components map[string]parts `json:"components"`
}

// read reads the file once.
func (d *Description) read() document {
	d.reading.Do(func() {
		path := os.Getenv(d.Variable)
		if path == "" {
			return
		}
		if err := json.Unmarshal(test.Must(os.ReadFile(path)), &d.published); err != nil {
			panic(err)
		}
	})
	return d.published
}

var (
	reference = regexp.MustCompile(`"\$ref":\s*"#/components/(\w+)/([^"]+)"`)
	required  = regexp.MustCompile(`"required":\s*\[`) // names of fields
)

// load returns the part of the description that is about a path, with all that it refers to:
// the whole would take seconds to load. It is nil if the path is not described.
func (d *Description) load(path string) *openapi3.T {
	text, there := d.read().Paths[path]
	if !there {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loaded[path] != nil {
		return d.loaded[path]
	}
	part := d.read()
	part.Paths = parts{path: text}
	part.Components = map[string]parts{}
	var follow func(text json.RawMessage)
	follow = func(text json.RawMessage) {
		for _, m := range reference.FindAllSubmatch(text, -1) {
			kind := string(m[1])
			name := string(m[2])
			if part.Components[kind] == nil {
				part.Components[kind] = parts{}
			}
			if part.Components[kind][name] == nil {
				part.Components[kind][name] = required.ReplaceAll(
					d.read().Components[kind][name],
					[]byte(`"x-required": [`),
				)
				follow(part.Components[kind][name])
			}
		}
	}
	follow(text)
	if d.loaded == nil {
		d.loaded = map[string]*openapi3.T{}
	}
	doc := test.Must(openapi3.NewLoader().LoadFromData(test.Must(json.Marshal(part))))
	for _, operation := range doc.Paths.Value(path).Operations() {
		operation.Security = openapi3.NewSecurityRequirements() // the fakes check the keys
	}
	d.loaded[path] = doc
	return doc
}

// Check returns the fault of a request, or of the reply to it. params are the values of the
// parts of path in braces.
func (d *Description) Check(
	r *http.Request,
	body []byte,
	path string,
	params map[string]string,
	reply func() (int, http.Header, []byte),
) (mistake string) {
	doc := d.load(path)
	if doc == nil {
		reply()
		return ""
	}
	return Validate(doc, r, body, path, params, reply)
}

// Validate returns the fault of a request to a path of a description, or of the reply to it, as
// Check does.
func Validate(
	doc *openapi3.T,
	r *http.Request,
	body []byte,
	path string,
	params map[string]string,
	reply func() (int, http.Header, []byte),
) (mistake string) {
	item := doc.Paths.Value(path)
	operation := item.GetOperation(r.Method)
	if operation == nil {
		return r.Method + " is not described"
	}
	for name := range r.URL.Query() {
		is := func(p *openapi3.ParameterRef) bool { return p.Value.Name == name && p.Value.In == "query" }
		_, isOfPath := params[name] // a link to a page may repeat it
		if !isOfPath && !slices.ContainsFunc(operation.Parameters, is) {
			return "there is no parameter " + name
		}
	}
	input := &openapi3filter.RequestValidationInput{
		Request:    r,
		PathParams: params,
		Route: &routers.Route{
			Spec:      doc,
			Path:      path,
			PathItem:  item,
			Method:    r.Method,
			Operation: operation,
		},
		Options: &openapi3filter.Options{SkipSettingDefaults: true},
	}
	// without the schema and the value
	input.Options.WithCustomSchemaErrorFunc(func(e *openapi3.SchemaError) string {
		return strings.Join(append(e.JSONPointer(), e.Reason), ": ")
	})
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
		return "request: " + err.Error()
	}
	status, header, data := reply()
	if operation.Responses.Status(status) == nil {
		if status < 300 {
			return fmt.Sprint("the answer has status ", status)
		}
		return ""
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input,
		Status:                 status,
		Header:                 header,
		Options:                input.Options,
	}
	response.SetBodyBytes(data)
	if err := openapi3filter.ValidateResponse(r.Context(), response); err != nil {
		return "answer: " + err.Error()
	}
	return ""
}
