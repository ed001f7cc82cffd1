package detail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
)

// HookFailure is the end of the output of a hook that failed.
type HookFailure struct {
	Hook   string   `json:"hook"`
	Output []string `json:"output"`
}

// hookLines is how many lines of a failed hook's output are shown.
const hookLines = 20

// HookFailures returns the ends of the output of the hooks that failed in a run; none if its
// log can't be read.
func HookFailures(p *wiring.Project, run reconcile.Run) []HookFailure {
	failures := []HookFailure{}
	if !slices.Contains([]string{"hook_failed", "hook_timeout"}, run.ErrorCode) && run.AfterRunError == "" {
		return failures
	}
	log, err := os.ReadFile(filepath.Join(host.RunDir(p.StateDir, run.ID), runner.HooksFile))
	if err != nil {
		return failures // it was removed with an old run; the run's error still contains the reason
	}
	var hook string
	var output []string
	for line := range strings.Lines(string(log)) {
		line = strings.TrimRight(line, "\r\n")
		mark, marked := strings.CutPrefix(line, "--- ")
		switch {
		case hook == "" && marked:
			hook = mark
			output = []string{}
		case hook != "" && marked && strings.HasPrefix(mark, hook+": "):
			if !strings.HasPrefix(mark, hook+": succeeded after ") {
				failures = append(failures, HookFailure{hook, output[max(0, len(output)-hookLines):]})
			}
			hook = ""
		case hook != "":
			output = append(output, line)
		}
	}
	return failures
}
