package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// herd is the other side of serveHerd.
type herd struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startHerd(j herdJob) (*herd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd, in, out, err := stage.StartHelper(exe, herdCommand)
	if err != nil {
		return nil, err
	}
	h := &herd{cmd, in, json.NewDecoder(out)}
	return h, json.NewEncoder(in).Encode(j)
}

// end closes its stdin and takes what it says.
func (h *herd) end() (u herdUsage, err error) {
	err = errors.Join(h.in.Close(), h.out.Decode(&u))
	if u.Err != "" {
		err = errors.Join(err, errors.New(u.Err))
	}
	return u, errors.Join(err, h.cmd.Wait())
}

// look is what a herd has at a moment.
type look struct {
	workers, agents int
	others          int // neither a worker nor an agent nor started by one
	pass            bool
	memory          float64 // of workers and others
	unreadable      bool    // that of some may not be read
}

// look sorts all that descends from the herd.
func (h *herd) look(agent string) (l look, err error) {
	all, err := stage.Processes("", func(string) bool { return true })
	if err != nil {
		return l, err
	}
	kinds := map[int]string{h.cmd.Process.Pid: "herd"}
	for known := 0; known < len(kinds); { // parents may stand behind their children in the list
		known = len(kinds)
		for _, p := range all {
			parent, below := kinds[p.Parent]
			if _, seen := kinds[p.PID]; below && !seen {
				kinds[p.PID] = kindOf(p, parent, agent)
			}
		}
	}
	for pid, kind := range kinds {
		switch kind {
		case "herd":
			continue
		case "agent":
			l.agents++
			continue
		case "worker":
			l.workers++
		case "pass":
			l.pass = true
		default:
			l.others++
		}
		size, err := pss(pid)
		l.unreadable = l.unreadable || errors.Is(err, fs.ErrPermission)
		if err != nil && !gone(err) && !errors.Is(err, fs.ErrPermission) {
			return l, fmt.Errorf("memory: %w", err)
		}
		l.memory += size
	}
	return l, nil
}

// kindOf: what an agent has started is the agent's. A loop is no pass: it is there between them.
func kindOf(p stage.Process, parent, agent string) string {
	switch {
	case parent == "agent" || strings.Contains(strings.Join(p.Words, " "), agent+" "), strings.Contains(strings.Join(p.Words, " "), agent+"' "):
		return "agent"
	case len(p.Words) > 1 && p.Words[1] == "worker":
		return "worker"
	case len(p.Words) > 1 && p.Words[1] == "tick" && !strings.Contains(strings.Join(p.Words, " "), "--loop"):
		return "pass"
	case parent == "worker" || parent == "pass":
		return parent
	}
	return "other " + filepath.Base(p.Words[0])
}
