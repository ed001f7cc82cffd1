package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// lastRuns is in how many of the newest runs the last event of a kind is looked for.
const lastRuns = 20

// lastKind is something of which a person wants to see the last. hint stands in every line that may be of the kind, so
// that few are taken apart.
type lastKind struct {
	hint string
	is   func(e agent.EventLine, item shownItem) bool
}

// lastKinds are the values of logs --last. A command counts from its beginning on: what runs now is what is asked for.
func LastKinds() map[string]*lastKind {
	return map[string]*lastKind{
		"command": {`"commandExecution"`, func(_ agent.EventLine, item shownItem) bool { return item.Type == "commandExecution" }},
		"change": {`"fileChange"`, func(e agent.EventLine, item shownItem) bool {
			return item.Type == "fileChange" && e.Method == "item/completed"
		}},
		"message": {`"agentMessage"`, func(e agent.EventLine, item shownItem) bool {
			return item.Type == "agentMessage" && e.Method == "item/completed"
		}},
		"prompt": {`"` + agent.EventPrompt + `"`, func(e agent.EventLine, _ shownItem) bool { return e.Event == agent.EventPrompt }},
	}
}

func LastNames() []string { return slices.Sorted(maps.Keys(LastKinds())) }

// printLast shows the last event of a kind, whole, from the newest run that has one.
func printLast(p *project.Project, runs []reconcile.Run, o LogOptions) error {
	kind := LastKinds()[o.Last]
	for _, run := range slices.Backward(runs) {
		path := filepath.Join(runner.RunDir(p.StateDir, run.ID), eventsName)
		for _, file := range []string{path, agent.PreviousEvents(path)} {
			line, err := LastLine(file, kind.matches)
			if err != nil {
				return err
			}
			if line == nil {
				continue
			}
			printHeadline(p, run, o)
			if o.Raw {
				ShowRaw(p, line)
			} else {
				showEventIn(p, line, whole)
			}
			return nil
		}
	}
	return &reconcile.Error{
		Code: "event_not_found", Message: fmt.Sprintf("no %s in the log of %s", o.Last, runs[len(runs)-1].Identifier),
		Hint: "symphony logs " + runs[len(runs)-1].Identifier + " shows what there is",
	}
}

func (k *lastKind) matches(line []byte) bool {
	var e agent.EventLine
	return bytes.Contains(line, []byte(k.hint)) && json.Unmarshal(line, &e) == nil && k.is(e, itemOf(e))
}

// tailStep is how much of a log is read at once from its end, in bytes: one event is seldom longer.
const TailStep = 64 << 10

// lastLine is the last whole line that matches, nil where none does or there is no file. A log may be large, and the
// answer stands near its end.
func LastLine(path string, matches func([]byte) bool) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	defer f.Close()
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	var rest []byte // the lines from at on that have not been looked at, of which the first may lack its beginning
	for at > 0 {
		step := min(at, max(TailStep, int64(len(rest)))) // as much again, so that a long line is not copied over and over
		at -= step
		chunk := make([]byte, step, step+int64(len(rest)))
		if _, err := f.ReadAt(chunk, at); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		rest = append(chunk, rest...)
		for {
			cut := bytes.LastIndexByte(rest, '\n')
			if cut < 0 {
				break
			}
			if line := rest[cut+1:]; matches(line) {
				return line, nil
			}
			rest = rest[:cut]
		}
	}
	if matches(rest) {
		return rest, nil
	}
	return nil, nil
}
