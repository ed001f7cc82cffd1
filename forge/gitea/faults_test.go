package gitea

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// Each answer that means a failure is an error that says what to do, whatever was asked for. A real
// Gitea can't be made to give them.
func TestFaults(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef01234567"
	for name, c := range map[string]struct {
		status  int
		body    string
		header  [2]string
		code    string
		message string
		hint    string
	}{
		"a refused token": {
			401, `{"message": "invalid username, password or token"}`,
			[2]string{},
			"forge_api_status", "Gitea answers 401: invalid username", "put a valid token into $TEAM_TOKEN",
		},
		"a missing scope": {
			403, `{"message": "token does not have at least one of required scope(s)"}`,
			[2]string{},
			"forge_api_status", "required scope", "$TEAM_TOKEN needs the scope ",
		},
		"a renamed repository": {
			301, "",
			[2]string{"Location", "/api/v1/repos/acme/other/pulls/1"},
			reconcile.CodeForgeMoved, "Gitea has renamed or moved acme/shop to acme/other", "set repository.url",
		},
		"a server elsewhere": {
			301, "",
			[2]string{"Location", "https://other.example/api/v1/repos/acme/shop"},
			"forge_api_status", "it leads to https://other.example", "the server is at another address",
		},
		"a limit": {
			429, "",
			[2]string{"Retry-After", "90"},
			"forge_rate_limited", "accepts no more requests until 20", "",
		},
		"a limit without a time": {
			429, "slow down",
			[2]string{},
			"forge_rate_limited", "accepts no more requests until 20", "",
		},
		"a server that fails": {
			502, "<html>bad gateway</html>",
			[2]string{},
			"forge_api_status", "Gitea answers 502", "Gitea has an internal error",
		},
		"a page of a login": {
			200, "<html>Sign in</html>",
			[2]string{},
			"forge_unknown_payload", "Sign in", "check repository.api",
		},
		"an empty list": {
			200, "null",
			[2]string{},
			"forge_unknown_payload", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.status == http.StatusMovedPermanently && strings.HasSuffix(r.URL.Path, "/user") {
					_, _ = io.WriteString(w, `{"id": 1, "login": "operator"}`)
					return
				}
				if c.header[0] != "" {
					w.Header().Set(c.header[0], c.header[1])
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			f := test.Must(Adapter(transport.ForgeOptions{
				Options:    transport.Options{Endpoint: s.URL + "/api/v1", Key: token},
				Repository: "acme/shop",
				By:         "$TEAM_TOKEN",
				Renew:      "put a valid token into $TEAM_TOKEN",
			}))
			ctx := t.Context()
			for what, err := range map[string]error{
				"open":    test.Err(f.Open(ctx, reconcile.NewPull{Branch: "work", Title: "T"})),
				"read":    test.Err(f.Read(ctx, []int{1})),
				"comment": f.Comment(ctx, 1, "m", "m"),
			} {
				e, is := errors.AsType[*reconcile.Error](err)
				if !is || errors.Is(err, reconcile.ErrGone) {
					t.Errorf("%s: error %v", what, err)
					continue
				}
				test.Equal(t, what, e.Code, c.code)
				test.Contains(t, what, e.Message, c.message)
				test.Contains(t, what, e.Hint, c.hint)
				test.Lacks(t, what, e.Message+e.Hint, token)
				if strings.ContainsAny(e.Message, "\r\n") {
					t.Errorf("%s: the message has several lines: %q", what, e.Message)
				}
			}
		})
	}
}
