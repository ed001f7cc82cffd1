// Command validate reads exchanges with GitHub from stdin, and prints for each its fault by
// GitHub's published description, or an empty text. It serves the scripts of cmd/symphony,
// whose programs start faster without the validator.
package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"

	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
)

func main() {
	in := json.NewDecoder(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		var e githubtest.Exchange
		if err := in.Decode(&e); err != nil {
			return // the tests have ended
		}
		u, err := url.Parse(e.URL)
		if err != nil {
			panic(err)
		}
		r := &http.Request{Method: e.Method, URL: u, Header: e.Header}
		reply := func() (int, http.Header, []byte) { return e.Status, e.ReplyHeader, e.Reply }
		if err := out.Encode(openapi.Check(r, e.Body, e.Path, e.Params, reply)); err != nil {
			return
		}
	}
}
