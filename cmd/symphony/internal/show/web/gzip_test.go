package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state/statetest"
)

// What is compressed, by what the client accepts and by the type of the answer. Compressed or not, the content is the same.
func TestCompression(t *testing.T) {
	s, address := serve(t, Options{})
	for _, c := range []struct {
		path, accepts string
		zipped        bool
	}{
		{"/", "gzip, deflate, br", true},
		{"/", "deflate, GZIP", true},
		{"/", "", false},
		{"/", "br, gzip; q=0.0", false},
		{"/api/v1/state", "gzip", true},
		{"/api/v1/NONE-1", "gzip", true},
		{"/metrics", "gzip", true},
		{"/assets/page.js", "gzip", true},
	} {
		answer := visit(s, "GET", c.path, "", "Accept-Encoding", c.accepts)
		var content io.Reader = answer.Body
		test.Equal(t, c.path+" "+c.accepts, answer.Header().Get("Content-Encoding") == "gzip", c.zipped)
		test.Contains(t, c.path, strings.Join(answer.Header().Values("Vary"), ","), "Accept-Encoding")
		if c.zipped {
			content = test.Must(gzip.NewReader(answer.Body))
		}
		plain := visit(s, "GET", c.path, "")
		test.Equal(t, c.path+": the status", answer.Code, plain.Code)
		if c.path != "/api/v1/state" { // which has its time
			test.Equal(t, c.path+": the content", string(test.Must(io.ReadAll(content))), plain.Body.String())
		}
	}
	tag := visit(s, "GET", "/assets/page.js", "", "Accept-Encoding", "gzip").Header().Get("ETag")
	again := visit(s, "GET", "/assets/page.js", "", "Accept-Encoding", "gzip", "If-None-Match", tag)
	test.Equal(t, "an asset that is known", again.Code, http.StatusNotModified)
	// Events come at once, whatever the client accepts: its library asks for gzip here.
	if name, _ := subscribe(t, t.Context(), http.DefaultClient, address+"/api/v1/events")(); name != "state" {
		t.Error(name)
	}
}

// A page of 500 issues has less than 50 kB on the wire.
func TestCompressedSize(t *testing.T) {
	test.Expensive(t)
	p := Place{t.TempDir() + "/WORKFLOW.md", t.TempDir()}
	test.OK(t, statetest.Large(t.Context(), p.StateDir, time.Now(), statetest.Large500))
	s, _ := serve(t, Options{Places: []Place{p}})
	for path, most := range map[string]int{"/": 50_000, "/api/v1/state": 150_000} {
		began := time.Now()
		plain := visit(s, "GET", path, "").Body.Len()
		between := time.Now()
		zipped := visit(s, "GET", path, "", "Accept-Encoding", "gzip").Body.Len()
		t.Logf("%s: %d bytes in %s, compressed %d in %s", path, plain, between.Sub(began), zipped, time.Since(between))
		if zipped > most {
			t.Errorf("%s has %d bytes", path, zipped)
		}
	}
}
