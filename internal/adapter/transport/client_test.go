package transport

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A key that belongs to a user is sent as Basic, and is left in no answer, also not encoded.
func TestUser(t *testing.T) {
	t.Parallel()
	const user = "ann@example.com"
	const key = "0123456789abcdef"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		_, _ = w.Write([]byte(name + " " + password + " " + r.Header.Get("Authorization")))
	}))
	defer echo.Close()
	service := Service{Paths: true, Word: "token"}
	o := Options{Endpoint: echo.URL, Key: key, User: user}
	c := test.Must(service.Connect(o, func(http.Header) {}))
	a := test.Must(c.Send(t.Context(), Request{Method: http.MethodGet, Path: "/"}))
	test.Equal(t, "answer", string(a.Body), user+" [token] Basic [token]")
}

// A key whose characters are escaped in the JSON of an answer is a key as soon as that is decoded.
func TestEscapedKey(t *testing.T) {
	t.Parallel()
	c := test.Must(Service{Paths: true, Word: "token"}.Connect(
		Options{Endpoint: "https://example.com", Key: "ATATT3x/FfGF0=0123"},
		func(http.Header) {},
	))
	for written, want := range map[string]string{
		`{"title": "ATATT3x\/FfGF0\u003d0123 \"x\""}`:          `{"title": "[token] \"x\""}`,
		`{"title": "\u0041\u0054ATT3x\u002FFfGF0=0123\u00e4"}`: `{"title": "[token]\u00e4"}`,
		`{"title": "\\ATATT3x\/FfGF0=0123\u0022"}`:             `{"title": "\\[token]\u0022"}`,
		// a backslash that is itself escaped escapes nothing
		`{"title": "ATATT3x/FfGF0\\u003d0123"}`: `{"title": "ATATT3x/FfGF0\\u003d0123"}`,
		`{"title": "a\/b \u003d"}`:              `{"title": "a\/b \u003d"}`,
		`\u003`:                                 `\u003`,
		`ATATT3x\/FfGF0=0123\`:                  `[token]\`,
	} {
		test.Equal(t, written, c.Scrub(written), want)
	}
}

// Services name the headers of their limits with and without X-.
func TestReadAllowance(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"X-RateLimit-", "RateLimit-"} {
		h := http.Header{}
		h.Set(prefix+"Limit", "600")
		h.Set(prefix+"Remaining", "599")
		h.Set(prefix+"Reset", "1700000000")
		a := ReadAllowance(h, "")
		got := []any{a.Limit, a.Left, a.Reset.Unix()}
		test.Equal(t, prefix, got, []any{600.0, 599.0, int64(1700000000)})
	}
	a := ReadAllowance(http.Header{}, "")
	test.Equal(t, "no headers", math.IsNaN(a.Limit), true)
}
