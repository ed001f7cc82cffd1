package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Kinds are the values of Options.Last. A command counts from its start on.
func Kinds() []string { return []string{"change", "command", "message", "prompt"} }

// isKind reports whether an event is of a kind of Kinds.
func isKind(kind string, e agent.Event) bool {
	item := e.Item
	switch kind {
	case "change":
		return item != nil && item.Kind == agent.ItemFileChange && item.Ended
	case "command":
		return item != nil && item.Kind == agent.ItemCommand
	case "message":
		return item != nil && item.Kind == agent.ItemMessage && item.Ended
	}
	return e.Name == agent.EventPrompt
}

// printLast prints the last event of a kind, whole, from the newest run that has one.
func (pr *printer) printLast(runs []reconcile.Run) error {
	for _, run := range slices.Backward(runs) {
		path := filepath.Join(runner.RunDir(pr.p.StateDir, run.ID), eventsFile)
		for _, file := range []string{path, agent.PreviousEvents(path)} {
			line, err := lastLine(file, pr.o.Last)
			if err != nil {
				return err
			}
			if line == nil {
				continue
			}
			pr.printHeadline(run)
			if pr.o.Raw {
				pr.printRaw(line)
			} else {
				pr.printEventIn(line, whole)
			}
			return nil
		}
	}
	return &reconcile.Error{
		Code: "event_not_found", Message: fmt.Sprintf("no %s in the log of %s", pr.o.Last, pr.identifier),
		Hint: "symphony logs " + pr.identifier + " shows what there is",
	}
}

// lastLine is the last event of a kind in a log, nil where there is none.
func lastLine(path, kind string) (last []byte, err error) {
	f := follower{path: path}
	defer f.close()
	find := func(line []byte) {
		var e agent.Event
		if json.Unmarshal(line, &e) == nil && isKind(kind, e) {
			last = bytes.Clone(line)
		}
	}
	err = f.read(find)
	f.showRest(find)
	return last, err
}
