package mcpserver

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
)

// The folders that a host has opened are permitted, but not those that a host of another machine names. A server that was started
// in the home directory or in / permits nothing by that.
func TestPermittedDirectories(t *testing.T) {
	open, other, home := t.TempDir(), t.TempDir(), t.TempDir()
	s := starter{env: &environ.Env{Dir: home, Home: home}}
	dir := func(path string) paths.Place { return test.Must(paths.Find(path)) }
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	client.AddRoots(&mcp.Root{URI: "file://" + open}, &mcp.Root{URI: "https://example.org" + other})
	ours, theirs := mcp.NewInMemoryTransports()
	session := test.Must(server.Connect(t.Context(), ours, nil))
	connected := test.Must(client.Connect(t.Context(), theirs, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"}))
	defer connected.Close()
	ctx := context.WithValue(t.Context(), sessionKey{}, session)

	test.OK(t, s.permit(ctx, dir(open)))
	for name, err := range map[string]error{
		"another directory": s.permit(ctx, dir(other)),
		"without a host":    s.permit(t.Context(), dir(open)),
		"below home":        s.permit(ctx, dir(home)),
	} {
		if err == nil {
			t.Errorf("%s: permitted", name)
		}
	}
	s.options.overHTTP = true
	if s.permit(ctx, dir(open)) == nil {
		t.Error("a root of a host of another machine is permitted")
	}
	s.options.Dirs = []string{home}
	test.OK(t, s.permit(ctx, dir(home)))
	s.env.Dir = "/"
	if s.permit(ctx, dir(other)) == nil {
		t.Error("/ permits everything")
	}
}
