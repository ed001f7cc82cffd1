package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/web/page"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The limits of the commands that the server runs.
const (
	maxCommands     = 4                // at a time; others wait
	slotPatience    = 10 * time.Second // for one of them to end
	commandPatience = 2 * time.Minute  // for one command, which may have to wait for another pass and for the tracker
	killPatience    = 10 * time.Second // for its end after SIGTERM
	maxNotices      = 64
)

// commands runs symphony's own commands. They are processes of their own: the end of the server leaves them to finish.
type commands struct {
	program  string
	free     chan struct{} // has a value for each command that runs
	patience time.Duration // with one command

	mu      sync.Mutex
	closed  bool // no further command starts
	running sync.WaitGroup
	passes  map[string]int         // by state directory: 1 if a pass is under way, 2 if another one follows it
	notices map[string]page.Notice // that no page has shown yet, by random names
	names   []string               // of the notices, the oldest first
}

func newCommands() *commands {
	return &commands{
		program: project.ProgramPath(), free: make(chan struct{}, maxCommands), patience: commandPatience,
		passes: map[string]int{}, notices: map[string]page.Notice{},
	}
}

// begin counts a command that end waits for. It returns false if the server is ending.
func (c *commands) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Add(1)
	}
	return !c.closed
}

// end lets no further command start and waits for those that run.
func (c *commands) end() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// result is what a command printed.
type result struct {
	code     int
	text     string          // stdout and stderr as they came; of a command with --json only stderr
	document json.RawMessage // with --json
}

// String is the command as an operator types it.
func (o order) String() string {
	line := "symphony"
	for _, word := range o.words {
		line += " " + text.ShellQuote(word)
	}
	if o.ref != "" {
		line += " " + text.ShellQuote(o.ref)
	}
	return line
}

// arguments are the arguments of the command. What came from outside is not taken for a flag.
func (o order) arguments(p *project.Project, asJSON bool) []string {
	args := append([]string{}, o.words...)
	if asJSON {
		args = append(args, "--json")
	}
	args = append(args, "--workflow="+p.Path, "--state-dir="+p.StateDir, "--")
	if o.ref != "" {
		args = append(args, o.ref)
	}
	return args
}

// run runs a command and waits for its end, also when the client or the server ends before.
func (c *commands) run(ctx context.Context, p *project.Project, o order, asJSON bool) (result, error) {
	if !c.begin() {
		return result{}, exit.Fault("busy", "the server is ending", "run "+o.String())
	}
	defer c.running.Done()
	wait := time.NewTimer(slotPatience)
	defer wait.Stop()
	select {
	case c.free <- struct{}{}:
	case <-ctx.Done():
		return result{}, ctx.Err()
	case <-wait.C:
		return result{}, exit.Fault("busy", fmt.Sprintf("%d other commands run", maxCommands), "try again")
	}
	defer func() { <-c.free }()
	return c.start(ctx, p, o, asJSON)
}

func (c *commands) start(ctx context.Context, p *project.Project, o order, asJSON bool) (said result, err error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(bounded, c.program, o.arguments(p, asJSON)...)
	cmd.Dir, cmd.Env = p.Env.Dir, p.Env.Environ
	cmd.Stdin = strings.NewReader(o.input)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if !asJSON {
		cmd.Stderr = &stdout
	}
	// Ctrl-C in the server's terminal does not end it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, killPatience
	err = cmd.Run()
	var failed *exec.ExitError
	switch {
	case bounded.Err() != nil:
		return said, exit.Fault("command_timeout", fmt.Sprintf("%s did not end within %v", o, c.patience), "symphony ps shows what became of it")
	case errors.As(err, &failed):
		said.code = failed.ExitCode()
	case err != nil:
		return said, fmt.Errorf("%s: %w", o, err)
	}
	if !asJSON {
		said.text = stdout.String()
		return said, nil
	}
	said.text = stderr.String()
	return said, said.read(&stdout)
}

// read takes the first document of a command's stdout, or the error that it reports.
func (s *result) read(stdout *bytes.Buffer) error {
	if err := json.NewDecoder(stdout).Decode(&s.document); err != nil {
		return fmt.Errorf("symphony ended with %d and printed no JSON: %s", s.code, s.text)
	}
	var refused struct{ Error *reconcile.Error }
	if s.code != exit.OK && json.Unmarshal(s.document, &refused) == nil && refused.Error != nil {
		return refused.Error
	}
	return nil
}

// answer answers with the document. A command that failed nevertheless is stored, and the next pass applies it.
func (s result) answer(w http.ResponseWriter) error {
	status := http.StatusOK
	if s.code != exit.OK {
		status = http.StatusAccepted
	}
	return answerWith(w, status, s.document)
}

// refresh asks for a pass of the project. At most one is under way and one follows, which reads what has changed until then. It
// returns true if one that follows was asked for already.
func (c *commands) refresh(p *project.Project) (coalesced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed || c.passes[p.StateDir] == 2:
		return true
	case c.passes[p.StateDir] == 1:
		c.passes[p.StateDir] = 2
		return false
	}
	c.passes[p.StateDir] = 1
	c.running.Go(func() {
		for again := true; again; {
			c.free <- struct{}{}
			o := order{words: []string{"tick", "--trigger=" + project.TriggerManual, "--quiet", "--lock-timeout=" + project.CommandPatience.String()}}
			_, _ = c.start(context.Background(), p, o, true) // what fails is an error of the pass, which the views show
			<-c.free
			c.mu.Lock()
			c.passes[p.StateDir]--
			if again = c.passes[p.StateDir] > 0 && !c.closed; !again {
				delete(c.passes, p.StateDir)
			}
			c.mu.Unlock()
		}
	})
	return false
}

// leave keeps a notice for the next page and returns its name.
func (c *commands) leave(n page.Notice) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.names) == maxNotices {
		delete(c.notices, c.names[0])
		c.names = c.names[1:]
	}
	name := rand.Text()
	c.notices[name] = n
	c.names = append(c.names, name)
	return name
}

// take returns the notice with the name and forgets it; nil if there is none.
func (c *commands) take(name string) *page.Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.notices[name]
	if !ok {
		return nil
	}
	delete(c.notices, name)
	return &n
}
