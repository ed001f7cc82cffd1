package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// The limits of the commands that the server runs.
const (
	maxCommands  = 4                // at a time; others wait
	slotPatience = 10 * time.Second // for a running command to end
	// for a command, which may have to wait for another pass and for the tracker
	commandPatience = 2 * time.Minute
	maxNotices      = 64
)

// commands carries out the orders of requests, by the same functions as symphony's own
// commands.
type commands struct {
	// carryOut carries out an order; a test may replace it
	carryOut func(context.Context, *wiring.Project, order) (outcome, error)
	free     chan struct{} // contains a value for each running command
	patience time.Duration // with a command

	mu      sync.Mutex
	closed  bool // no further command starts
	running sync.WaitGroup
	// by state directory: 1 if a pass is under way, 2 if another pass follows it
	passes  map[string]int
	notices []leftNotice // that wait for a page to show them, the oldest first
}

// leftNotice is a notice with its name, which is random.
type leftNotice struct {
	name   string
	notice page.Notice
}

func newCommands() *commands {
	return &commands{
		carryOut: func(ctx context.Context, p *wiring.Project, o order) (outcome, error) {
			return o.carryOut(ctx, p)
		},
		free:     make(chan struct{}, maxCommands),
		patience: commandPatience,
		passes:   map[string]int{},
	}
}

// run carries out an order, also when the client ends before.
func (c *commands) run(ctx context.Context, p *wiring.Project, o order) (outcome, error) {
	if !c.begin() {
		return outcome{}, serverEnds(o)
	}
	defer c.running.Done()
	select {
	case c.free <- struct{}{}:
		return c.do(context.WithoutCancel(ctx), p, o)
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	case <-time.After(slotPatience):
		return outcome{}, reconcile.NewError(
			"busy",
			fmt.Sprintf("%d other commands run", maxCommands),
			"try again",
		)
	}
}

// serverEnds is the error of an order that comes too late.
func serverEnds(o order) error {
	return reconcile.NewError("busy", "the server is ending", "run "+o.String())
}

// begin counts a command that end waits for. It returns false if the server is ending.
func (c *commands) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

// do carries out an order in the slot that the caller took, and frees the slot.
func (c *commands) do(ctx context.Context, p *wiring.Project, o order) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer func() {
		cancel()
		<-c.free
	}()
	out, err := c.carryOut(ctx, wiring.NewProject(p.Env.Silent(), p.Path, p.StateDir), o)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = reconcile.NewError(
			"command_timeout",
			fmt.Sprintf("%s did not end within %v", o, c.patience),
			"",
		).WithHint("%s shows what became of it", reconcile.CommandFor("ps", ""))
	}
	return out, err
}

// refresh asks for a pass of the project. At most one pass is under way and one follows, which
// sees all changes until then. It returns true if a following pass was already asked for.
func (c *commands) refresh(ctx context.Context, p *wiring.Project) (coalesced bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return false, serverEnds(passOrder{})
	case c.passes[p.StateDir] == 2:
		return true, nil
	case c.passes[p.StateDir] == 1:
		c.passes[p.StateDir] = 2
		return false, nil
	}
	c.passes[p.StateDir] = 1
	c.running.Go(func() {
		for isAsked := true; isAsked; isAsked = c.another(p) {
			c.free <- struct{}{}
			// the views show the errors of the pass
			_, _ = c.do(ctx, p, passOrder{})
		}
	})
	return false, nil
}

// another reports whether another pass of the project was asked for during a pass that just
// ended.
func (c *commands) another(p *wiring.Project) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passes[p.StateDir]--
	if c.passes[p.StateDir] > 0 && !c.closed {
		return true
	}
	delete(c.passes, p.StateDir)
	return false
}

// leave keeps a notice for the next page and returns its name. If no page takes them, the
// oldest is dropped for each that comes.
func (c *commands) leave(n page.Notice) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := rand.Text()
	c.notices = append(c.notices, leftNotice{name, n})
	c.notices = c.notices[max(0, len(c.notices)-maxNotices):]
	return name
}

// take returns the notice with the name and forgets it; nil if there is none.
func (c *commands) take(name string) *page.Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.notices, func(left leftNotice) bool { return left.name == name })
	if at < 0 {
		return nil
	}
	n := c.notices[at].notice
	c.notices = slices.Delete(c.notices, at, at+1)
	return &n
}

// end lets no further command start and waits for the running commands.
func (c *commands) end() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}
