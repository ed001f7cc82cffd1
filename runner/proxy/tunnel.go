package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/allowlist"
)

const usualTLS = 443

// connect serves a CONNECT: a tunnel to a host, through which TLS for this host goes.
func (h handler) connect(w http.ResponseWriter, r *http.Request) {
	t, err := h.find(r.RequestURI, usualTLS)
	if err != nil {
		h.refuse(w, err)
		return
	}
	outside, err := h.dial(h.ctx, t)
	if err != nil {
		h.refuse(w, err)
		return
	}
	defer func() { _ = outside.Close() }()
	inside, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		h.refuse(w, err)
		return
	}
	defer func() { _ = inside.Close() }()
	stop := context.AfterFunc(h.ctx, func() {
		_ = inside.Close()
		_ = outside.Close()
	})
	defer stop()
	if _, err := io.WriteString(inside, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	// The client may have sent something together with its request. The rest is read from the
	// connection itself: the reader would cancel the context at the end of the stream.
	sent := io.LimitReader(buffered.Reader, int64(buffered.Reader.Buffered()))
	fromInside := io.MultiReader(sent, inside)
	hello, err := readHello(h.ctx, inside, fromInside)
	if err != nil && len(hello.bytes) == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
		return // the client opened one connection more than it needs
	}
	if err != nil {
		h.refused.add(t.refusal(NotTLS).Refusal)
		return
	}
	if !hello.meansHost(t.host) {
		h.refused.add(t.refusal(OtherName).Refusal)
		return
	}
	if _, err := outside.Write(hello.bytes); err != nil {
		return
	}
	join(inside, outside, fromInside)
}

// hello is the first message of a client of TLS.
type hello struct {
	bytes  []byte // as it was read, with what followed
	name   string // the host that the client wants to speak to; empty if it names none
	hidden bool   // another name is encrypted
}

// meansHost reports whether a client wants to speak to a host. A server for many hosts, such as
// a content delivery network, answers for the host of TLS and not for the host of CONNECT.
func (h hello) meansHost(host string) bool {
	if h.hidden {
		return false
	}
	if h.name == "" {
		_, err := netip.ParseAddr(host)
		return err == nil // TLS has names of hosts, and no addresses
	}
	name, err := allowlist.Name(h.name)
	return err == nil && name == host
}

// encryptedHello is the extension of TLS in which a client encrypts the name of the host.
const encryptedHello = 0xfe0d

// errRead ends a handshake once the first message was read.
var errRead = errors.New("read")

// readHello reads the first message of a client from a stream of its connection, within
// headerBound.
func readHello(ctx context.Context, conn net.Conn, from io.Reader) (hello, error) {
	if err := conn.SetReadDeadline(time.Now().Add(headerBound)); err != nil {
		return hello{}, err
	}
	var h hello
	var read bytes.Buffer
	server := tls.Server(onlyReads{conn, io.TeeReader(from, &read)}, &tls.Config{
		MinVersion: tls.VersionTLS10, // the server decides
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			h.name = info.ServerName
			h.hidden = slices.Contains(info.Extensions, encryptedHello)
			return nil, errRead
		},
	})
	err := server.HandshakeContext(ctx)
	h.bytes = read.Bytes()
	if !errors.Is(err, errRead) {
		return h, fmt.Errorf("read the first message of TLS: %w", err)
	}
	return h, conn.SetReadDeadline(time.Time{})
}

// onlyReads is a connection on which a handshake sends nothing.
type onlyReads struct {
	net.Conn
	from io.Reader
}

func (c onlyReads) Read(b []byte) (int, error)  { return c.from.Read(b) }
func (c onlyReads) Write(b []byte) (int, error) { return len(b), nil }

// join copies between the two ends of a tunnel until both are finished, or nothing came for
// idleBound. fromInside reads what the agent sends.
func join(inside, outside net.Conn, fromInside io.Reader) {
	alive := time.AfterFunc(idleBound, func() {
		_ = inside.Close()
		_ = outside.Close()
	})
	defer alive.Stop()
	var copied sync.WaitGroup
	copied.Go(func() { pour(outside, fromInside, alive, inside) })
	copied.Go(func() { pour(inside, outside, alive, outside) })
	copied.Wait()
}

// pour copies a stream to its end and tells the reader. If that is not possible, it closes both
// ends.
func pour(to net.Conn, from io.Reader, alive *time.Timer, source net.Conn) {
	_, err := io.Copy(to, touching{from, alive})
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
		_ = source.Close()
	}
}

// touching keeps a tunnel from being idle.
type touching struct {
	from  io.Reader
	alive *time.Timer
}

func (t touching) Read(b []byte) (int, error) {
	n, err := t.from.Read(b)
	if n > 0 {
		t.alive.Reset(idleBound)
	}
	return n, err
}
