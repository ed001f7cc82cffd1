package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// TrackerCommand is the argument with which a script's program runs as the tracker.
const TrackerCommand = "tracker"

// ServeTracker serves a fake Linear with a control API, behind wrap if it is not nil, prints its address and returns at the
// end of in.
func ServeTracker(in io.Reader, out io.Writer, wrap func(http.Handler) http.Handler) error {
	linear := lineartest.New(lineartest.Config{RequestsPerHour: 1e9, ComplexityPerHour: 1e12})
	handler := control(linear)
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	fmt.Fprintln(out, server.URL)
	_, err := io.Copy(io.Discard, in)
	err = errors.Join(err, linear.Close()) // before the server: it ends requests that were made to hang
	server.CloseClientConnections()
	server.Close()
	return err
}

// control adds the API by which a script steers the workspace: POST with a JSON body. An error is HTTP 400 with its text.
func control(linear *lineartest.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", linear)
	steer(mux, "issues", func(struct{}) (any, error) { return linear.Issues(), nil })
	steer(mux, "seed", func(s lineartest.Seed) (any, error) { return nil, linear.Load(s) })
	steer(mux, "move", func(m struct{ Identifier, State string }) (any, error) {
		return nil, linear.Move(m.Identifier, m.State)
	})
	steer(mux, "fail", func(f lineartest.Failure) (any, error) { return nil, linear.Fail(f) })
	steer(mux, "fail/clear", func(struct{}) (any, error) { linear.ClearFailures(); return nil, nil })
	return mux
}

func steer[T any](mux *http.ServeMux, path string, act func(T) (any, error)) {
	mux.HandleFunc("POST /control/"+path, func(w http.ResponseWriter, r *http.Request) {
		var in T
		err := json.NewDecoder(r.Body).Decode(&in)
		var out any
		if err == nil {
			out, err = act(in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(out) // a client that has gone needs no answer
	})
}

// Tracker is the client of a tracker that runs in a process of its own, so that its work is not measured.
type Tracker struct {
	URL  string
	http *http.Client
	cmd  *exec.Cmd
	in   io.Closer
}

// StartTracker starts the calling program again as the tracker.
func StartTracker() (*Tracker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, TrackerCommand)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C ends the script first, which then cleans up
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the tracker: %w", err)
	}
	t := &Tracker{http: &http.Client{Timeout: 30 * time.Second}, cmd: cmd, in: in}
	if _, err := fmt.Fscanln(out, &t.URL); err != nil {
		return nil, errors.Join(fmt.Errorf("start the tracker: %w", err), t.Close())
	}
	return t, nil
}

// Endpoint is the address to write into a workflow.
func (t *Tracker) Endpoint() string { return t.URL + "/graphql" }

// Close ends the tracker.
func (t *Tracker) Close() error { return errors.Join(t.in.Close(), t.cmd.Wait()) }

// Control calls the control API of the tracker. The answer is decoded into out, unless it is nil.
func (t *Tracker) Control(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL+"/control/"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return fmt.Errorf("tracker: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("tracker: %s: %s: %s", path, resp.Status, strings.TrimSpace(string(data))))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// Seed replaces all issues.
func (t *Tracker) Seed(ctx context.Context, issues []lineartest.Issue) error {
	return t.Control(ctx, "seed", lineartest.Seed{Issues: issues}, nil)
}

// Issues returns all issues.
func (t *Tracker) Issues(ctx context.Context) (list []lineartest.Issue, err error) {
	return list, t.Control(ctx, "issues", struct{}{}, &list)
}

// Move changes the state of an issue.
func (t *Tracker) Move(ctx context.Context, identifier, state string) error {
	return t.Control(ctx, "move", map[string]string{"identifier": identifier, "state": state}, nil)
}

// Fail makes the next requests fail.
func (t *Tracker) Fail(ctx context.Context, f lineartest.Failure) error {
	return t.Control(ctx, "fail", f, nil)
}

// ClearFailures ends all failures.
func (t *Tracker) ClearFailures(ctx context.Context) error {
	return t.Control(ctx, "fail/clear", struct{}{}, nil)
}
