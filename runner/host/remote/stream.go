package remote

import (
	"context"
	"io"
	"sync"
	"time"
)

// Both sides of a stream send something every beat, and give it up when it has been silent for silence.
const (
	beat    = 10 * time.Second
	silence = 3 * beat
)

// stream is one connection between a client and a server.
type stream struct {
	conn  io.ReadWriteCloser
	lines lines
	alive *time.Timer // ends the stream

	ctx     context.Context // ends with the stream
	cancel  context.CancelFunc
	out     chan any
	sending sync.WaitGroup
}

func newStream(conn io.ReadWriteCloser) *stream {
	s := &stream{conn: conn, lines: newLines(conn), out: make(chan any, 64)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.alive = time.AfterFunc(silence, func() { _ = conn.Close() })
	return s
}

// next decodes the next message, which is also a sign of life.
func (s *stream) next(v any) error {
	err := s.lines.next(v)
	s.alive.Reset(silence)
	return err
}

// put sends a message, unless the stream ends first. Before start it only stores the message. A nil stream sends nothing.
func (s *stream) put(v any) {
	if s == nil {
		return
	}
	select {
	case s.out <- v:
	case <-s.ctx.Done():
	}
}

// start begins to send messages, and life when there are none.
func (s *stream) start(life any) {
	s.sending.Go(func() {
		defer s.conn.Close() // so that reading ends
		defer s.cancel()
		ticks := time.NewTicker(beat)
		defer ticks.Stop()
		for {
			var v any
			select {
			case <-s.ctx.Done():
				return
			case v = <-s.out:
			case <-ticks.C:
				v = life
			}
			if writeLine(s.conn, v) != nil {
				return
			}
		}
	})
}

// end closes the stream.
func (s *stream) end() {
	s.cancel()
	s.alive.Stop()
	_ = s.conn.Close()
	s.sending.Wait()
}
