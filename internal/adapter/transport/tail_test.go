package transport

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A log is larger than any answer that is kept as a whole: its end is kept.
func TestTailOfALargeAnswer(t *testing.T) {
	line := []byte(strings.Repeat("x", 1023) + "\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := bytes.Repeat(line, 1024)
		for range 2*maxBody/len(block) + 1 {
			_, _ = w.Write(block)
		}
		_, _ = w.Write([]byte("the last line\n"))
	}))
	t.Cleanup(server.Close)
	options := Options{Endpoint: server.URL, Key: "0123456789abcdef"}
	c := test.Must(Service{Name: "Forge"}.Connect(options, func(http.Header) {}))
	a := test.Must(c.Send(t.Context(), Request{Method: http.MethodGet, Tail: 4096}))
	test.Equal(t, "the end", strings.HasSuffix(string(a.Body), "x\nthe last line\n"), true)
	test.Equal(t, "at most 4096 bytes are kept", len(a.Body) <= 4096, true)
}
