package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
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
	if !h.passHello(t, inside, outside, fromInside) {
		return
	}
	again, err := passAnswer(inside, outside)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.refused.add(t.refusal(Unreachable).Refusal)
	}
	if err != nil {
		return
	}
	if again && !h.passHello(t, inside, outside, fromInside) {
		return
	}
	join(inside, outside, fromInside)
}

// passHello passes on the first message of a client, or its second one if the server has asked for
// that, and reports whether it was meant for the target.
func (h handler) passHello(t target, inside, outside net.Conn, fromInside io.Reader) bool {
	hello, err := readHello(h.ctx, inside, fromInside)
	if err != nil && len(hello.bytes) == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
		return false // the client opened one connection more than it needs
	}
	if err != nil {
		h.refused.add(t.refusal(NotTLS).Refusal)
		return false
	}
	if !hello.meansHost(t.host) {
		h.refused.add(t.refusal(OtherName).Refusal)
		return false
	}
	_, err = outside.Write(hello.bytes)
	return err == nil
}

// Records of TLS begin with their type, a version and their length; messages in them with their
// type and their length.
const (
	handshakeRecord = 22
	recordHeader    = 5
	messageHeader   = 4
	maxMessage      = 64 << 10
	// beforeRandom is what a server's first record has before its random: a version, too.
	beforeRandom = recordHeader + messageHeader + 2
)

// askAgain is the random of the first message of a server that asks the client for another first
// message, because it supports none of the keys in it (RFC 8446, section 4.1.3).
var askAgain = []byte{
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
	0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
}

// passAnswer passes on the first record of a server, and reports whether the server asks for another
// message like the client's first: some servers obey the name in that one.
func passAnswer(inside, outside net.Conn) (again bool, err error) {
	if err := outside.SetReadDeadline(time.Now().Add(answerBound)); err != nil {
		return false, err
	}
	answer := make([]byte, recordHeader)
	if _, err := io.ReadFull(outside, answer); err != nil {
		return false, err
	}
	answer = append(answer, make([]byte, binary.BigEndian.Uint16(answer[3:]))...)
	if _, err := io.ReadFull(outside, answer[recordHeader:]); err != nil {
		return false, err
	}
	if answer[0] == handshakeRecord { // others are alerts
		if len(answer) < beforeRandom+len(askAgain) {
			return false, errors.New("the first message of a server is in several records")
		}
		again = bytes.HasPrefix(answer[beforeRandom:], askAgain)
	}
	if err := outside.SetReadDeadline(time.Time{}); err != nil {
		return false, err
	}
	_, err = inside.Write(answer)
	return again, err
}

// hello is the first message of a client of TLS.
type hello struct {
	bytes  []byte // as it was read, and nothing that followed
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
// headerBound. It reads nothing that follows, which may be another such message.
func readHello(ctx context.Context, conn net.Conn, from io.Reader) (h hello, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(headerBound)); err != nil {
		return h, err
	}
	h.bytes, err = readMessage(from)
	if err != nil {
		return h, fmt.Errorf("read the first message of TLS: %w", err)
	}
	records := bytes.TrimPrefix(h.bytes, emptyChange)
	server := tls.Server(onlyReads{conn, bytes.NewReader(records)}, &tls.Config{
		MinVersion: tls.VersionTLS10, // the server decides
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			h.name = info.ServerName
			h.hidden = slices.Contains(info.Extensions, encryptedHello)
			return nil, errRead
		},
	})
	err = server.HandshakeContext(ctx)
	if !errors.Is(err, errRead) {
		return h, fmt.Errorf("read the first message of TLS: %w", err)
	}
	return h, conn.SetReadDeadline(time.Time{})
}

// emptyChange is a record that a client may send before its second message, for old middleboxes
// (RFC 8446, appendix D.4).
var emptyChange = []byte{20, 3, 3, 0, 1, 1}

// readMessage reads the records of a message of a handshake, which fills them. It returns what it
// has read also with an error.
func readMessage(from io.Reader) (records []byte, err error) {
	var message []byte
	for {
		header := make([]byte, recordHeader)
		n, err := io.ReadFull(from, header)
		records = append(records, header[:n]...)
		if err != nil {
			return records, err
		}
		length := int(binary.BigEndian.Uint16(header[3:]))
		isChange := len(records) == recordHeader && bytes.HasPrefix(emptyChange, header)
		if length == 0 || header[0] != handshakeRecord && !isChange {
			return records, errors.New("no message of a handshake")
		}
		body := make([]byte, length)
		n, err = io.ReadFull(from, body)
		records = append(records, body[:n]...)
		if err != nil {
			return records, err
		}
		if isChange {
			continue
		}
		message = append(message, body...)
		if len(message) < messageHeader {
			continue
		}
		whole := messageHeader + int(message[1])<<16 + int(binary.BigEndian.Uint16(message[2:]))
		if whole > maxMessage || len(message) > whole {
			return records, errors.New("more than a message of a handshake")
		}
		if len(message) == whole {
			return records, nil
		}
	}
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
