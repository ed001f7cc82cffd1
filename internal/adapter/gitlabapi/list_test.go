package gitlabapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// A list that is too long is refused by its name, not as an answer that nobody understands.
func TestLongList(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		w.Header().Set("Link", fmt.Sprintf(`<%s?page=%d>; rel="next"`, r.URL.Path, page+1))
		_, _ = w.Write([]byte("[{}]"))
	}))
	t.Cleanup(s.Close)
	service := transport.Service{Name: "GitLab", Prefix: "gitlab"}
	c := test.Must(Connect(service, transport.Options{Endpoint: s.URL, Key: "glpat-0123456789"}, transport.Words{}))
	more := func([]struct{}) bool { return true }
	err := List(t.Context(), c, ProjectPath("team/shop")+"/issues", nil, nil, more)
	e, _ := errors.AsType[*reconcile.Error](err)
	if e == nil {
		t.Fatal("error", err)
	}
	test.Equal(t, "the error", e.Message, "GitLab has more than 20000 records of /projects/team/shop/issues, "+
		"which is more than symphony reads")
	test.Equal(t, "what to do", e.Hint, "let there be fewer: close old ones, or move them to another project")
}
