package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile"
)

// DefaultPort is the port of serve.
const DefaultPort = 7967

const defaultHost = "127.0.0.1"

// listen opens the address that the options name.
func listen(ctx context.Context, w *environ.Env, o Options) (net.Listener, error) {
	var config net.ListenConfig
	if slices.ContainsFunc(o.Hosts, func(name string) bool { return strings.Contains(name, "*") }) {
		return nil, exit.Usage("--allow-host takes the name of a host, such as symphony.example.org, and no *")
	}
	if i := slices.IndexFunc(o.Hosts, func(name string) bool { return strings.Contains(name, "/") }); i >= 0 {
		return nil, exit.Usage(
			"--allow-host takes the name of a host, such as symphony.example.org, not %q",
			o.Hosts[i],
		)
	}
	path, isSocket := strings.CutPrefix(o.Listen, "unix:")
	switch {
	case isSocket && path == "":
		return nil, exit.Usage("the path of the socket is missing: unix:PATH")
	case isSocket:
		return listenSocket(ctx, w.Absolute(path))
	case strings.Contains(o.Listen, "/"):
		return nil, exit.Usage(
			"the address %q must be HOST, HOST:PORT or unix:PATH, without http://",
			o.Listen,
		)
	}
	if _, err := strconv.ParseUint(o.Listen, 10, 16); err == nil {
		return nil, exit.Usage("--listen names a host, and %s is a port: --port %[1]s", o.Listen)
	}
	address, err := tcpAddress(o)
	if err != nil {
		return nil, err
	}
	network := "tcp"
	if net.ParseIP(o.host()).To4() != nil {
		network = "tcp4" // otherwise 0.0.0.0 would include IPv6
	}
	l, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, listenError(err)
	}
	return l, nil
}

// listenError is the error of an address at which the server can't listen.
func listenError(err error) error {
	hint := "--listen, or server.host in WORKFLOW.md, names an address of this machine: " +
		"HOST, HOST:PORT or unix:PATH"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "another program uses the port, perhaps symphony serve or a loop with server.port: choose one with " +
			"--port, or any free one with --port 0"
	case errors.Is(err, syscall.EACCES):
		hint = "ports below 1024 need root: choose another one with --port, to which a proxy can pass on port 80"
	}
	return reconcile.NewError("failed", err.Error(), hint)
}

// tcpAddress is the host and the port to listen at.
func tcpAddress(o Options) (string, error) {
	host := o.host()
	port := strconv.Itoa(DefaultPort)
	_, given, err := net.SplitHostPort(o.Listen)
	if err == nil {
		port = given
	}
	if o.Port >= 0 {
		port = strconv.Itoa(o.Port)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", exit.Usage("the port must be a number from 0 to 65535, not %q", port)
	}
	return net.JoinHostPort(host, port), nil
}

// host is the host to listen at.
func (o Options) host() string {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil { // without a port
		host = o.Listen
	}
	return strings.Trim(cmp.Or(host, defaultHost), "[]")
}

// listenSocket opens a unix socket that only this account can use. It replaces a socket at
// which no process listens.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return nil, reconcile.NewError(
			"failed",
			"another process listens at "+path,
			"end it first, or name another path",
		)
	}
	if errors.Is(err, syscall.EINVAL) {
		return nil, pathTooLong(path)
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, reconcile.NewError(
			"failed",
			path+" exists and is not a socket",
			"name another path, or remove it",
		)
	}
	l, err := privateSocket(ctx, path)
	if errors.Is(err, syscall.EINVAL) {
		return nil, pathTooLong(path)
	}
	if err != nil {
		return nil, reconcile.NewError(
			"failed",
			err.Error(),
			"name a path in an existing directory of your own: --listen unix:PATH",
		)
	}
	return l, nil
}

// pathTooLong is the error of a path that has no room in the address of a socket, which takes
// about 100 characters, with the directory in which privateSocket makes it.
func pathTooLong(path string) error {
	return reconcile.NewError(
		"failed",
		path+" is too long for a socket",
		"name a path of at most 80 characters: --listen unix:PATH",
	)
}

// privateSocket listens at path. The socket is made in a directory that no other account can
// enter and moved to path when its mode is set, because between bind and chmod another account
// could connect.
func privateSocket(ctx context.Context, path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".symphony-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	var config net.ListenConfig
	inside := filepath.Join(dir, "s")
	l, err := config.Listen(ctx, "unix", inside)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(inside, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	if err := os.Rename(inside, path); err != nil {
		_ = l.Close()
		return nil, err
	}
	return &socketListener{l, path}, nil
}

// socketListener removes its socket when it is closed.
type socketListener struct {
	net.Listener
	path string
}

// Close implements net.Listener.
func (l *socketListener) Close() error {
	_ = os.Remove(l.path)
	return l.Listener.Close()
}

// Addr implements net.Listener.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// secretName returns a name of a server at 127.0.0.1 that only the reader of its link knows.
// Browsers resolve names below localhost to this machine, but send the cookies of a host to
// all of its ports: a program that an agent lets listen at another port would get the token,
// even if only a page of that program sends the browser there. It cannot do so with a name
// that it does not know.
//
// With kept, a token that stays over restarts, the name stays as well, because browsers keep
// the theme and the login for it.
func secretName(kept Token) string {
	secret := rand.Text()
	if kept != "" {
		hash := sha256.Sum256([]byte("name " + kept))
		secret = base32.StdEncoding.EncodeToString(hash[:])
	}
	return "symphony-" + strings.ToLower(secret[:12]) + ".localhost"
}

// listenIPv6 listens at ::1 as well, at the port of a server at 127.0.0.1. Browsers try the
// secret name there, too: safe is false if another program may listen there and so get the
// token. Without IPv6 no program can, and the listener is nil.
func listenIPv6(ctx context.Context, first net.Addr) (l net.Listener, safe bool) {
	tcp, ok := first.(*net.TCPAddr)
	if !ok || tcp.IP.String() != defaultHost {
		return nil, false
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(tcp.Port)))
	if err != nil {
		return nil, lacksIPv6(err)
	}
	return l, true
}

// lacksIPv6 reports whether an error of listening at ::1 means that the machine has no IPv6.
func lacksIPv6(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}

// maxUnread is how many bytes the system keeps for a client that does not read, about.
const maxUnread = 256 << 10
