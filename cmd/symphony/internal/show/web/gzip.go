package web

import (
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
)

// compressed answers GET requests of clients that accept it with gzip. No answer has a secret beside words of others, which its length
// could give away: the token is in none, and no form has one.
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if r.Method != http.MethodGet || !acceptsGzip(r) {
			next.ServeHTTP(w, r)
			return
		}
		a := &gzipAnswer{ResponseWriter: w}
		defer a.end()
		next.ServeHTTP(a, r)
	})
}

func acceptsGzip(r *http.Request) bool {
	accepted := strings.ReplaceAll(strings.ToLower(r.Header.Get("Accept-Encoding")), " ", "")
	return strings.Contains(accepted, "gzip") && !strings.Contains(accepted, "gzip;q=0")
}

// zippedKinds are the types of answers that are compressed. Events are not: each has to arrive at once.
var zippedKinds = []string{"application/json", "application/jsonl", "text/html", "text/plain", "text/css", "text/javascript"}

// gzipAnswer compresses an answer if its type is one of zippedKinds.
type gzipAnswer struct {
	http.ResponseWriter
	begun  bool
	zipper *gzip.Writer // nil for an answer that stays as it is
}

// WriteHeader implements http.ResponseWriter.
func (a *gzipAnswer) WriteHeader(status int) {
	h := a.Header()
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	whole := status != http.StatusNotModified && status != http.StatusPartialContent && status != http.StatusNoContent
	if !a.begun && whole && slices.Contains(zippedKinds, kind) {
		h.Set("Content-Encoding", "gzip")
		h.Del("Content-Length")
		a.zipper = gzip.NewWriter(a.ResponseWriter)
	}
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *gzipAnswer) Write(b []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	if a.zipper != nil {
		return a.zipper.Write(b)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *gzipAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *gzipAnswer) end() {
	if a.zipper != nil {
		_ = a.zipper.Close() // the client may have gone
	}
}
