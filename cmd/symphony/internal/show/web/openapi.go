package web

import (
	_ "embed" // for the document
	"net/http"
	"strings"
	"sync"
)

// serveOpenAPI answers GET /api/v1/openapi.json.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(document()) // the client may have gone
	return nil
}

// document is the OpenAPI document: the addresses, which are written by hand, with the
// schemas.
var document = sync.OnceValue(func() []byte {
	const list = `"schemas": {`
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(schemas), "{"), "}")
	return []byte(strings.Replace(addresses, list, list+strings.TrimRight(inner, "\n")+",", 1))
})

var (
	//go:embed openapi.json
	addresses string
	// schemas describe the types of answers. A test writes them, because the commands have the
	// same types.
	//go:embed schemas.json
	schemas string
)
