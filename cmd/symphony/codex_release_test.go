package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// capabilities are what the scripts can ask of a codex. A script begins with the line of what it can't do without.
var capabilities = map[string]capability{
	"config":         {printed: `"config/read"`},
	"dynamic_tools":  {printed: `"item/tool/call"`},
	"questions":      {within: `default_mode_request_user_input`},
	"permissions":    {printed: `"item/permissions/requestApproval"`},
	"forms":          {printed: `"mcpServer/elicitation/request"`},
	"sub_agents":     {printed: `collabAgentToolCall`},
	"thread_locks":   {within: `already has an active writer`},
	"login_shells":   {within: `allow_login_shell`},
	"bubblewrap":     {within: `bubblewrap`},
	"project_config": {within: `project_root_markers`},
}

// capability is told by what codex prints of its protocol, or by a word that the program holds.
type capability struct{ printed, within string }

// release is a codex under test. That without a path is none.
type release struct {
	path    string
	schema  func() (string, error)
	program func() ([]byte, error)
}

func newRelease(path string) release {
	return release{
		path:    path,
		schema:  sync.OnceValues(func() (string, error) { return printedSchema(path) }),
		program: sync.OnceValues(func() ([]byte, error) { return os.ReadFile(path) }),
	}
}

// can says whether this codex has a capability.
func (r release) can(name string) (bool, error) {
	c, known := capabilities[name]
	if !known {
		return false, fmt.Errorf("unknown capability %q", name)
	}
	if c.within != "" {
		program, err := r.program()
		return bytes.Contains(program, []byte(c.within)), err
	}
	schema, err := r.schema()
	return strings.Contains(schema, c.printed), err
}

// printedSchema is what codex says of its protocol, experimental parts and all.
func printedSchema(path string) (string, error) {
	dir, err := os.MkdirTemp("", "symphony-schema-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var last error
	for _, more := range [][]string{{"--experimental"}, nil} { // older ones don't set any apart
		cmd := exec.Command(path, append([]string{"app-server", "generate-json-schema", "--out", dir}, more...)...)
		cmd.Env = []string{"HOME=" + dir, "CODEX_HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err == nil {
			return wholeOf(dir)
		}
		last = fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return "", last
}

func wholeOf(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return "", err
	}
	var whole strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		whole.Write(text)
	}
	return whole.String(), nil
}

// awaitWorkersOfOld waits a little for the workers of a codex without tools of ours. A person moves its issue while the turn
// goes on, and a pass that saw that would end the turn: the agent's own move is let finish, a person's is not.
func awaitWorkersOfOld(ts *testscript.TestScript) {
	set := ts.Value(stageKey{}).(*stage)
	if set.model == nil || !set.old {
		return
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if pids, _ := matching(ts, "symphony worker "); len(pids) == 0 {
			return
		}
	}
}

// graphqlByHand asks Linear what an agent would ask it by linear_graphql, as a person does whose codex has no such tool.
func graphqlByHand(s *lineartest.Server) func(args json.RawMessage) error {
	return func(args json.RawMessage) error {
		req, err := http.NewRequest(http.MethodPost, s.Endpoint(), bytes.NewReader(args))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", s.Key())
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || bytes.Contains(body, []byte(`"errors"`)) {
			return fmt.Errorf("%s: %s", resp.Status, body)
		}
		return nil
	}
}
