package main

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

// linearCommand is the word that makes this program a Linear.
const linearCommand = "linear"

// serveLinear is a Linear that says where it listens and ends with stdin. Its allowance is used up only on request.
func serveLinear(in io.Reader, out, errw io.Writer) int {
	s := lineartest.New(lineartest.Config{RequestsPerHour: 1e9, ComplexityPerHour: 1e12})
	if err := s.Start(); err != nil {
		fmt.Fprintln(errw, "chaos linear:", err)
		return 1
	}
	fmt.Fprintln(out, s.URL())
	_, err := io.Copy(io.Discard, in)
	if err := errors.Join(err, s.Close()); err != nil {
		fmt.Fprintln(errw, "chaos linear:", err)
		return 1
	}
	return 0
}

// tracker is the other side of serveLinear.
type tracker struct {
	url  string
	http *http.Client
	cmd  *exec.Cmd
	in   io.Closer
}

func startTracker() (*tracker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	cmd := exec.Command(exe, linearCommand)
	cmd.Stderr = os.Stderr
	// A terminal's Ctrl-C is not for it: it is needed to the end, which comes with its stdin's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("linear: %w", err)
	}
	t := &tracker{http: &http.Client{Timeout: 10 * time.Second}, cmd: cmd, in: in}
	if _, err := fmt.Fscanln(out, &t.url); err != nil {
		return nil, errors.Join(fmt.Errorf("linear did not start: %w", err), t.close())
	}
	return t, nil
}

func (t *tracker) close() error { return errors.Join(t.in.Close(), t.cmd.Wait()) }

// control posts to, or with a nil body gets from, the API that steers the workspace.
func (t *tracker) control(ctx context.Context, path string, in, out any) error {
	method, body := http.MethodGet, io.Reader(nil)
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		method, body = http.MethodPost, bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, t.url+"/control/"+path, body)
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

func (t *tracker) issues(ctx context.Context) (list []lineartest.Issue, err error) {
	return list, t.control(ctx, "issues", nil, &list)
}

func (t *tracker) move(ctx context.Context, identifier, state string) error {
	return t.control(ctx, "move", map[string]string{"identifier": identifier, "state": state}, nil)
}

func (t *tracker) fail(ctx context.Context, f lineartest.Failure) error {
	return t.control(ctx, "fail", f, nil)
}

func (t *tracker) clearFailures(ctx context.Context) error {
	return t.control(ctx, "fail/clear", struct{}{}, nil)
}
