package acp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/wire"
)

// toolServer is the MCP server with symphony's tools. The agent starts a relay to it, so that
// calls are carried out by this process.
type toolServer struct {
	session  *Session
	program  string
	path     string // of the socket
	inside   string // the same path as the agent sees it
	dir      *os.File
	listener net.Listener
	mcp      *mcp.Server
	listed   atomic.Bool // the agent has asked for the list of tools
}

// toolsName is the name of the MCP server, which agents put in front of its tools.
const toolsName = "symphony"

// RelayCommand is the command of symphony that an agent starts as its MCP server, with the
// path of the socket as its argument.
const RelayCommand = "agent-tools"

// socketName is the name of the socket in the directory of the run.
const socketName = "tools.sock"

// serveTools listens for the relay of the agent.
func serveTools(s *Session) (*toolServer, error) {
	dir, err := os.Open(s.o.ToolsDir)
	if err != nil {
		return nil, err
	}
	t := &toolServer{
		session: s,
		program: s.o.Program,
		path:    filepath.Join(s.o.ToolsDir, socketName),
		inside:  filepath.Join(cmp.Or(s.o.ToolsInside, s.o.ToolsDir), socketName),
		dir:     dir,
		mcp: mcp.NewServer(
			&mcp.Implementation{Name: toolsName, Title: "Symphony", Version: s.o.ClientVersion},
			&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}},
		),
	}
	if err := t.listen(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	for _, tool := range s.o.Tools {
		t.mcp.AddTool(
			&mcp.Tool{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema},
			t.call,
		)
	}
	t.mcp.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				t.listed.Store(true)
			}
			return next(ctx, method, request)
		}
	})
	go t.serve()
	return t, nil
}

// listen makes the socket.
func (t *toolServer) listen() error {
	err := os.Remove(t.path) // of an earlier agent of this run
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.session.life, "unix", proc.SocketPath(t.dir, socketName))
	if err != nil {
		return err
	}
	if err := os.Chmod(t.path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	t.listener = listener
	return nil
}

// Limits of the server: commands of the agent can connect to it, too, and what it has not
// answered is in the memory of this process.
const (
	maxRelays = 4        // at once
	maxHeard  = 16 << 20 // bytes of a relay in all
)

// serve serves each relay until the session ends.
func (t *toolServer) serve() {
	places := make(chan struct{}, maxRelays)
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return
		}
		select {
		case places <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		go func() {
			// the agent sees the end of its server, and the session whether it used it
			_ = t.mcp.Run(t.session.life, &mcp.IOTransport{Reader: limited{io.LimitReader(conn, maxHeard), conn}, Writer: conn})
			_ = conn.Close()
			<-places
		}()
	}
}

// limited is the stream of a relay, which ends after maxHeard bytes.
type limited struct {
	io.Reader
	io.Closer
}

// call carries a call out. Its context ends with the turn, too.
func (t *toolServer) call(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := t.session
	if turn := s.current(); turn != nil {
		defer context.AfterFunc(turn.ctx, cancel)()
	}
	name := request.Params.Name
	args := request.Params.Arguments
	s.progressed()
	result := s.o.CallTool(ctx, name, args)
	s.progressed()
	event := agent.EventToolCallCompleted
	if !result.Success {
		event = agent.EventToolCallFailed
	}
	s.emit(agent.Event{Name: event, Message: "tool " + name + " " + string(args)})
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: result.Text}},
		IsError: !result.Success,
	}, nil
}

// server returns the server as session/new names it.
func (t *toolServer) server() wire.Object {
	return wire.Object{
		"name":    toolsName,
		"command": t.program,
		"args":    []string{RelayCommand, t.inside},
		"env":     []wire.Object{},
	}
}

// isMissing reports whether the agent has not asked for the list of tools.
func (t *toolServer) isMissing() bool { return t != nil && !t.listed.Load() }

// close ends the server and removes its socket.
func (t *toolServer) close() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.listener.Close(), t.dir.Close())
}
