// Package stage is what the scripts set up before they measure or destroy: a Linear of their own, the program as it
// is released, and a project with an empty home.
package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// LinearCommand is the word that makes a script's program a Linear.
const LinearCommand = "linear"

// ServeLinear is a Linear that says where it listens and ends with stdin. It has a process of its own, so that what
// it does is no part of what is measured, and its allowance is used up only on request.
func ServeLinear(program string, in io.Reader, out, errw io.Writer) int {
	s := lineartest.New(lineartest.Config{RequestsPerHour: 1e9, ComplexityPerHour: 1e12})
	if err := s.Start(); err != nil {
		fmt.Fprintf(errw, "%s linear: %v\n", program, err)
		return 1
	}
	fmt.Fprintln(out, s.URL())
	_, err := io.Copy(io.Discard, in)
	if err := errors.Join(err, s.Close()); err != nil {
		fmt.Fprintf(errw, "%s linear: %v\n", program, err)
		return 1
	}
	return 0
}

// Tracker is the other side of ServeLinear.
type Tracker struct {
	URL  string
	http *http.Client
	cmd  *exec.Cmd
	in   io.Closer
}

// StartTracker runs this program as a Linear, which is given so long for an answer.
func StartTracker(answer time.Duration) (*Tracker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	cmd, in, out, err := StartHelper(exe, LinearCommand)
	if err != nil {
		return nil, fmt.Errorf("linear: %w", err)
	}
	t := &Tracker{http: &http.Client{Timeout: answer}, cmd: cmd, in: in}
	if _, err := fmt.Fscanln(out, &t.URL); err != nil {
		return nil, errors.Join(fmt.Errorf("linear did not start: %w", err), t.Close())
	}
	return t, nil
}

// Apart keeps a terminal's Ctrl-C from those that are needed to clean up. They end with their stdin.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// StartHelper starts, apart, a program that is talked to by its stdin and stdout.
func StartHelper(program string, args ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader, err error) {
	cmd = exec.Command(program, args...)
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, Apart()
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, out, cmd.Start()
}

// Endpoint is the address for a workflow.
func (t *Tracker) Endpoint() string { return t.URL + "/graphql" }

// Close ends the Linear.
func (t *Tracker) Close() error { return errors.Join(t.in.Close(), t.cmd.Wait()) }

// Control posts to, or with a nil body gets from, the API that steers the workspace.
func (t *Tracker) Control(ctx context.Context, path string, in, out any) error {
	method, body := http.MethodGet, io.Reader(nil)
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		method, body = http.MethodPost, bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, t.URL+"/control/"+path, body)
	if err != nil {
		return err
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return fmt.Errorf("linear: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("linear: %s: %s: %s", path, resp.Status, strings.TrimSpace(string(data))))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// Seed replaces the issues.
func (t *Tracker) Seed(ctx context.Context, issues []lineartest.Issue) error {
	return t.Control(ctx, "seed", lineartest.Seed{Issues: issues}, nil)
}

// Fail makes requests fail as f says.
func (t *Tracker) Fail(ctx context.Context, f lineartest.Failure) error {
	return t.Control(ctx, "fail", f, nil)
}

// ClearFailures ends all failures.
func (t *Tracker) ClearFailures(ctx context.Context) error {
	return t.Control(ctx, "fail/clear", struct{}{}, nil)
}
