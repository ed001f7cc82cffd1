package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// transport is the connection to the host. It keeps the connection of the SDK, which can't
// send notifications with methods of our own.
type transport struct {
	mcp.IOTransport
	conn mcp.Connection // nil until the server runs
}

func newTransport(in io.ReadCloser, out io.WriteCloser, log *slog.Logger) *transport {
	return &transport{IOTransport: mcp.IOTransport{
		Reader:        newFrames(in, out, log),
		Writer:        out,
		MaxLineLength: -1,
	}}
}

// Connect implements mcp.Transport.
func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.conn = conn
	return conn, nil
}

// notify sends a notification. It must not be called before the first message of the host.
func (t *transport) notify(ctx context.Context, method string, params any) error {
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return t.conn.Write(ctx, &jsonrpc.Request{Method: method, Params: data})
}

// maxFrame limits a message of the host. Images are part of messages.
const maxFrame = 64 << 20

// frames reads the messages of a host, one a line. It answers other lines with an error; the
// SDK would end the server.
type frames struct {
	io.Closer
	lines *bufio.Scanner
	rest  []byte // of the present line
	out   io.Writer
	log   *slog.Logger
}

func newFrames(in io.ReadCloser, out io.Writer, log *slog.Logger) *frames {
	f := &frames{Closer: in, lines: bufio.NewScanner(in), out: out, log: log}
	f.lines.Buffer(nil, maxFrame)
	return f
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if !f.lines.Scan() {
			err := f.lines.Err()
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("it has more than %d bytes", maxFrame)
			}
			if err != nil {
				return 0, fmt.Errorf("read a message of the host: %w", err)
			}
			return 0, io.EOF
		}
		if line := bytes.TrimSpace(f.lines.Bytes()); len(line) > 0 && f.check(line) {
			f.rest = append(line[:len(line):len(line)], '\n')
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// check reports whether a line is a message. It answers any other line.
func (f *frames) check(line []byte) bool {
	if !json.Valid(line) {
		f.refuse(line, jsonrpc.CodeParseError, "is not JSON: send each message in a line of its own")
		return false
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		f.refuse(line, jsonrpc.CodeInvalidRequest, "is not a message of JSON-RPC 2.0, without a batch")
		return false
	}
	return true
}

// refuse answers a line that is no message. fault says why, such as "is not JSON".
func (f *frames) refuse(line []byte, code int, fault string) {
	f.log.Warn("a line of the host "+fault, slog.Int("bytes", len(line)))
	const answer = `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"a line of %d bytes %s"}}` + "\n"
	if _, err := fmt.Fprintf(f.out, answer, code, len(line), fault); err != nil {
		f.log.Warn("the host can't be answered", slog.Any("error", err))
	}
}
