package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Both sides of a stream send something every beat, and give it up if nothing could be read or
// written for silence.
const (
	beat    = 10 * time.Second
	silence = 3 * beat
)

// session is a side of the conversation between a client and a server, which uses a new stream
// after each break.
type session struct {
	mu       sync.Mutex
	last     int64         // the number of the last frame
	unacked  []frame       // that the other side may not have, in order
	received int64         // the last frame of the other side
	changed  chan struct{} // closed when there is a new frame

	// held while a frame is received and handled: an old stream may still do that beside a new
	// stream
	receiving sync.Mutex
}

func newSession() *session { return &session{changed: make(chan struct{})} }

// put adds a frame. It does not wait until the frame is sent.
func (s *session) put(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxBody {
		return fmt.Errorf("a message of %d bytes is too long", len(body))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.unacked = append(s.unacked, frame{Number: s.last, Body: body})
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// acknowledged drops the frames that the other side received. It fails if the other side names
// a frame that was never sent.
func (s *session) acknowledged(number int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number > s.last {
		return fmt.Errorf("frame %d was not sent", number)
	}
	s.unacked = slices.DeleteFunc(s.unacked, func(f frame) bool { return f.Number <= number })
	return nil
}

// after returns the frames after a number, and a channel that is closed when there are more.
func (s *session) after(number int64) (list []frame, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.unacked {
		if f.Number > number {
			f.Received = s.received
			list = append(list, f)
		}
	}
	return list, s.changed
}

// have returns the number of the other side's last frame.
func (s *session) have() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// receive handles the next frame. It ignores frames that arrived before.
func (s *session) receive(f frame, handle func(body json.RawMessage)) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	s.mu.Lock()
	next := s.received + 1
	if f.Number == next {
		s.received = next
	}
	s.mu.Unlock()
	if f.Number > next {
		return fmt.Errorf("frame %d is missing", next)
	}
	if f.Number == next {
		handle(f.Body)
	}
	return nil
}

// stream is a connection. It ends with its context, and the context with it.
type stream struct {
	heard atomic.Bool // something was read
	conn  io.ReadWriteCloser
	lines lines
	ctx   context.Context
	end   context.CancelFunc
}

// newStream returns a stream that ends at the latest with ctx.
func newStream(ctx context.Context, conn io.ReadWriteCloser) *stream {
	s := &stream{conn: conn}
	s.ctx, s.end = context.WithCancel(ctx)
	context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	s.lines = newLines(watchedReader{conn, time.AfterFunc(silence, s.end), &s.heard})
	return s
}

// watchedReader resets a timer whenever it reads something.
type watchedReader struct {
	io.Reader
	timer *time.Timer
	heard *atomic.Bool
}

func (r watchedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		r.heard.Store(true)
		r.timer.Reset(silence)
	} else if err != nil {
		r.timer.Stop()
	}
	return n, err
}

// write writes a message, which ends the stream if it takes too long.
func (s *stream) write(v any) error {
	timer := time.AfterFunc(silence, s.end)
	defer timer.Stop()
	return writeLine(s.conn, v)
}

// run sends the frames of a session, and passes the frames of the other side to handle, in
// order and each once, until the stream breaks. The other side already received the frames up
// to has. handle must not wait.
func (s *stream) run(session *session, has int64, handle func(body json.RawMessage)) error {
	if err := session.acknowledged(has); err != nil {
		return err
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		defer s.end()
		s.send(session, has)
	})
	defer sending.Wait()
	defer s.end()
	for {
		var f frame
		if err := s.lines.next(&f); err != nil {
			return err
		}
		if err := session.acknowledged(f.Received); err != nil {
			return err
		}
		if err := session.receive(f, handle); err != nil {
			return err
		}
	}
}

// send sends the frames after number sent, and signs of life, until the stream ends.
func (s *stream) send(session *session, sent int64) {
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	if s.write(frame{Received: session.have()}) != nil { // the link carries something
		return
	}
	for {
		list, more := session.after(sent)
		for _, f := range list {
			if s.write(f) != nil {
				return
			}
			sent = f.Number
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-s.ctx.Done():
			return
		case <-more:
		case <-ticks.C:
			if s.write(frame{Received: session.have()}) != nil {
				return
			}
		}
	}
}
