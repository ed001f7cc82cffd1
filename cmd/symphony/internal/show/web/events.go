package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The limits of streams.
const (
	// fewer than maxConnections, so that others are still answered
	maxStreams  = 400
	lookStep    = 250 * time.Millisecond // between two looks at the files
	renderStep  = 500 * time.Millisecond // at least, between two renderings
	renderShare = 4                      // rendering takes at most 1/renderShare of the time
	// for changes with time alone, such as a schedule that stopped
	renderAnyway = 10 * time.Second
)

// events answers GET /api/v1/events: the answer of /api/v1/state as the event "state", at
// first and at each change. While there is no state, the event "unavailable" contains the
// error.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	return s.follow(w, r, func(ctx context.Context) (event, []string) {
		v, files, err := s.readState(r.WithContext(ctx))
		if err != nil {
			return newEvent("unavailable", encoded(term.ErrorJSON{Error: *exit.From(err)})), files
		}
		return newEvent("state", encoded(v)), files
	})
}

// pageEvent draws a page, or the error that prevents it.
func (s *Server) pageEvent(r *http.Request, draw drawPage) (event, []string) {
	p, files, err := draw(r)
	if err != nil {
		p = page.Problem(exit.From(err), false)
	}
	p.MayAct = s.access.mayAct(r)
	s.addAlerts(r, &p)
	return newEvent("page", encoded(p.Changes())), files
}

// follow sends the events of an address until the client leaves or does not read. A client
// that connects again names its last event.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, render render) error {
	address := fmt.Sprint(s.access.mayAct(r), " ", r.URL.RequestURI())
	f, leave, err := s.feeds.join(r.Context(), address, render)
	if err != nil {
		return err
	}
	defer leave()
	out := http.NewResponseController(w)
	// the request is read; its deadline would end the connection
	_ = out.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	if r.Method == http.MethodHead {
		return nil // there is no body to wait for
	}
	send := func(event []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(s.feeds.patience))
		_, err := w.Write(event)
		return err == nil && out.Flush() == nil
	}
	beat := time.NewTicker(renderAnyway)
	defer beat.Stop()
	alive := []byte("event: beat\ndata: alive\n\n")
	sent := r.Header.Get("Last-Event-ID")
	if sent != "" { // there may be nothing else to send
		if !send(alive) {
			return nil
		}
	}
	for {
		e, newer := f.newest()
		if e.id != "" && e.id != sent {
			if !send(e.data) {
				return nil
			}
			sent = e.id
			continue
		}
		select {
		case <-newer:
		case <-beat.C:
			if !send(alive) {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
}

// event is a server-sent event.
type event struct {
	id   string // changes with the content
	data []byte // the whole event
}

// newEvent makes an event of JSON. Its id depends on the content without the time of the
// reading, so that it also fits after a restart of the server.
func newEvent(name string, data []byte) event {
	id := contentTag(name, data)
	return event{id: id, data: fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n", id, name, data)}
}

// readAt matches the time of a reading in JSON, where the text of a value contains no quote
// without a backslash.
var readAt = text.Pattern(`"generated_at":"[^"]*"`)

// contentTag depends on the name and the content, without the time of the reading.
func contentTag(name string, data []byte) string {
	hash := sha256.Sum256(append(readAt().ReplaceAll(data, nil), name...))
	return fmt.Sprintf("%x", hash[:8])
}

// encoded is a value of ours as a line of JSON.
func encoded(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return b.Bytes()
}

// render makes an event, and names the files that change when it does.
type render func(context.Context) (e event, files []string)

// feeds are the feeds of a server.
type feeds struct {
	mu      sync.Mutex
	open    map[string]*feed
	clients int
	turn    sync.Mutex // one rendering at a time

	patience time.Duration // for a client to read an event
}

func newFeeds() *feeds {
	return &feeds{open: map[string]*feed{}, patience: 10 * time.Second}
}

// feed is the stream of an address. It is rendered once for all of its clients, while there
// are any.
type feed struct {
	clients int // guarded by feeds.mu
	stop    context.CancelFunc

	mu    sync.Mutex
	event event         // the newest; without an id before the first rendering
	newer chan struct{} // closed when event is replaced
}

// join adds a client to the feed of an address. leave must be called in the end.
func (s *feeds) join(ctx context.Context, address string, r render) (f *feed, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == maxStreams {
		return nil, nil, reconcile.NewError(
			"busy",
			fmt.Sprintf("%d clients follow this server already", maxStreams),
			"close some, or ask without following",
		)
	}
	f, known := s.open[address]
	if !known {
		f = &feed{newer: make(chan struct{})}
		s.open[address] = f
		ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		go s.keep(ctx, f, r)
	}
	s.clients++
	f.clients++
	return f, func() { s.leave(address, f) }, nil
}

// leave removes a client from a feed, which ends with its last client.
func (s *feeds) leave(address string, f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	f.clients--
	if f.clients == 0 {
		f.stop()
		delete(s.open, address)
	}
}

// keep renders until ctx ends: whenever the files have changed, and now and then in any case.
func (s *feeds) keep(ctx context.Context, f *feed, r render) {
	var files []string
	look := time.NewTicker(lookStep)
	defer look.Stop()
	for ctx.Err() == nil {
		stamp := stampOf(files)
		began := time.Now()
		e, changing := s.render(ctx, r)
		if ctx.Err() != nil {
			return
		}
		f.publish(e)
		files = changing
		pause := max(renderStep, renderShare*time.Since(began))
		isDue := func() bool {
			waited := time.Since(began)
			return waited >= pause && (waited >= renderAnyway || stampOf(files) != stamp)
		}
		for !isDue() {
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// render waits for its turn. As in a handler of net/http, a panic ends neither the server nor
// a loop that it is part of.
func (s *feeds) render(ctx context.Context, r render) (e event, files []string) {
	s.turn.Lock()
	defer s.turn.Unlock()
	defer func() {
		if v := recover(); v != nil {
			log.Printf("rendering: %v\n%s", v, debug.Stack())
		}
	}()
	return r(ctx)
}

// publish replaces the newest event, unless nothing changed.
func (f *feed) publish(e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.id == "" || e.id == f.event.id {
		return
	}
	f.event = e
	close(f.newer)
	f.newer = make(chan struct{})
}

// newest returns the newest event, and a channel that is closed when a newer event replaces
// it.
func (f *feed) newest() (e event, newer <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.event, f.newer
}

// racy is how soon after a write a second write can leave the same time of the file, so that
// the time alone does not show it.
const racy = 20 * time.Millisecond

// stampOf changes when any of the files is written. A database in WAL mode needs no connection
// for that: each commit writes its log.
func stampOf(files []string) string {
	var b strings.Builder
	now := time.Now()
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			b.WriteString("-,") // readers make an empty log
			continue
		}
		fmt.Fprintf(&b, "%d %d,", info.Size(), info.ModTime().UnixNano())
		if now.Sub(info.ModTime()) < racy {
			fmt.Fprint(&b, now.UnixNano()) // the next look finds a difference
		}
	}
	return b.String()
}

// filesOf are the files that contain everything known of a project.
func filesOf(p view.ProjectRow) []string {
	db := filepath.Join(p.StateDir, "state.db")
	return []string{p.WorkflowPath, db, db + "-wal"}
}
