package wiring

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// The forge uses the token of gh, in the environment that it is given, before that of the
// workflow.
func TestNewForge(t *testing.T) {
	dir := t.TempDir()
	sent := ""
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer github.Close()
	test.OK(
		t,
		os.WriteFile(
			filepath.Join(dir, "gh"),
			[]byte(
				"#!/bin/sh\n[ \"$LOGIN\" ] && echo $LOGIN || { echo 'no oauth\x1b token' >&2; exit 1; }\n",
			),
			0o700,
		),
	)
	with := []string{"PATH=" + dir + ":/bin:/usr/bin"}
	try := func(deliver, token string, env []string) *reconcile.Error {
		t.Helper()
		path := filepath.Join(dir, "WORKFLOW.md")
		test.Write(
			t,
			path,
			"---\ntracker: {kind: file, provider: {path: .}}\nrepository: {url: "+
				"'https://example.com/team/repo', deliver: "+deliver+token+"}\n---\nGo.\n",
		)
		p := NewProject(&environ.Env{
			Dir:     dir,
			Home:    dir,
			Environ: append(with, "TEAM_TOKEN=ghp_0123456789"),
		}, path, dir)
		cfg := test.Must(p.Config())
		build := NewForge(p, cfg, nil)
		if build == nil {
			return nil
		}
		forge, err := build(t.Context(), env)
		if err == nil {
			err = forge.Rerun(t.Context(), 1)
		}
		known, _ := err.(*reconcile.Error)
		return known
	}
	api := "pull-request, api: '" + github.URL + "'"
	test.Equal(t, "without pull requests", try("branch", "", with), nil)
	test.Equal(t, "by gh", try(api, ", token: $TEAM_TOKEN", append(with, "LOGIN=gho_0123456789")).Hint,
		"gh needs the right to run the Actions of team/repo")
	test.Equal(t, "sent", sent, "Bearer gho_0123456789")
	test.Equal(
		t,
		"by the workflow's",
		try(api, ", token: $TEAM_TOKEN", with).Hint,
		"$TEAM_TOKEN needs the right to run the Actions of team/repo",
	)
	test.Equal(t, "sent", sent, "Bearer ghp_0123456789")
	none := try(api, "", with)
	host := github.Listener.Addr().String()
	test.Equal(t, "without a token", none.Code+": "+none.Message, "forge_login: gh is not logged in to "+host+
		" (no oauth\\x1b token), and WORKFLOW.md has no repository.token")
	test.Equal(t, "what to do", none.Hint, "run gh auth login --hostname "+host+", or set repository.token")
	test.Contains(
		t,
		"without gh",
		try(api, "", []string{"PATH=" + t.TempDir()}).Message,
		"gh is not installed, and ",
	)
}
