package mcpserver

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The folders that a host has opened are permitted. A server that was started in the home
// directory or in / permits nothing by that.
func TestPermittedDirectories(t *testing.T) {
	open := t.TempDir()
	other := t.TempDir()
	home := t.TempDir()
	env := &environ.Env{Dir: home, Home: home}
	p := newPermissions(nil, env, nil)
	dir := func(path string) paths.Place { return test.Must(paths.Find(path)) }
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	here := &mcp.Root{URI: "file://" + open}               //nolint:staticcheck // hosts of today do
	there := &mcp.Root{URI: "https://example.org" + other} //nolint:staticcheck // hosts of today do
	client.AddRoots(here, there)                           //nolint:staticcheck // hosts of today do
	ours, theirs := mcp.NewInMemoryTransports()
	session := test.Must(server.Connect(t.Context(), ours, nil))
	connected := test.Must(
		client.Connect(t.Context(), theirs, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"}),
	)
	defer connected.Close()
	ctx := calls.WithSession(t.Context(), session)

	check := func(what string, ctx context.Context, path string, want bool) {
		t.Helper()
		permitted := test.Must(p.permit(ctx, dir(path), false))
		if permitted != want {
			t.Errorf("%s: permitted is %v", what, permitted)
		}
	}
	check("a root of the host", ctx, open, true)
	check("another directory", ctx, other, false)
	check("without a host", t.Context(), open, false)
	check("below home", ctx, home, false)
	p = newPermissions(nil, env, []string{home})
	check("a directory of --dir", ctx, home, true)
	made := filepath.Join(home, "made")
	p = newPermissions(nil, env, []string{home, made})
	test.OK(t, os.Symlink(other, made))
	check("where a link leads that an agent made in it", ctx, other, false)
	p = newPermissions(nil, env, []string{home, made})
	check("the same in the next server", ctx, other, false)
	env.Dir = "/"
	p = newPermissions(nil, env, []string{home})
	check("a server that was started in /", ctx, other, false)
}

// A person at the host permits a directory by a form, or refuses it. A host that answers
// without a person decides nothing.
func TestFormPermitsDirectory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		protocol string
		person   time.Duration // how long one needs to answer
		elicit   elicitHandler
		code     string // of the call
		fate     string
	}{
		{"accepted", modern, 0, accepts(nil), "", "approve"},
		{"declined", modern, 0, declines, agents.CodeNotPermitted, "deny"},
		{"accepted at once", modern, time.Hour, accepts(nil), codeNotDecided, ""},
		{"without forms", modern, 0, nil, codeNotDecided, ""},
		{"with an older protocol", legacy, 0, accepts(nil), codeNotDecided, ""},
	} {
		m := newMachine(t)
		dir := m.run.WorkspacePath
		settings := agents.Settings{
			ID:         "one",
			Cwd:        dir,
			Permission: &agents.Permission{Dir: dir, Host: "test"},
		}
		file := filepath.Join(
			filepath.Dir(wiring.AliveFile(wiring.AgentsDir(m.env), m.run.ID)),
			"agent.json",
		)
		test.OK(t, os.WriteFile(file, test.Must(json.Marshal(settings)), 0o600))
		told := m.asks(agent.Request{
			Kind:    reconcile.DirectoryRequest,
			Summary: "work in " + dir,
			Cwd:     dir,
		}, time.Hour)
		go func() { // as the worker does
			decision := <-told
			if !decision.Approve {
				_ = m.state.DB.Store.EndDead(
					t.Context(),
					time.Now(),
					m.run,
					reconcile.Failed,
					agents.CodeNotPermitted,
					"denied",
				)
			}
		}()
		h := m.host(c.protocol, c.person, c.elicit)
		if c.elicit == nil {
			h.decide("one.1", "approve", agents.CodeNeedsPerson, nil)
		}
		// the request is not older than the call
		m.env.Now = func() time.Time { return time.Unix(0, 0) }
		h.call("spawn_agent", map[string]any{"id": "one", "cwd": dir}, c.code, nil)
		stored := test.Must(m.state.DB.Views.FindRequest(t.Context(), "one", 1))
		test.Equal(t, c.name, string(stored.Decision), c.fate)
	}
}
