package statetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const description = `When somebody saves a draft twice within a second, the second copy loses its attachments.

Steps: open a draft, attach a file, save twice. What should happen: both have the file. What happens: the first has it.

- [ ] a test that shows it
- [ ] the fix
- [ ] a line in the changelog

The code is in drafts/save.go, and what it stores in drafts/store.go. Mind that "attachments" may be empty.
`

// eventRuns is among how many runs the events are shared out: those that live, then the newest.
const eventRuns = 100

// writeEvents gives the newest runs their event files.
func writeEvents(dir string, now time.Time, s Size) error {
	ids := make([]string, 0, eventRuns)
	for i := 1; i <= s.Running() && len(ids) < eventRuns; i++ {
		ids = append(ids, fmt.Sprintf("20261120T%06d.000-alive", i))
	}
	for i := s.Runs; i > 0 && len(ids) < eventRuns; i-- {
		ids = append(ids, fmt.Sprintf("20261020T%06d.%03d-large", i/1000, i%1000))
	}
	for _, id := range ids {
		if err := writeRun(filepath.Join(dir, "runs", id), now, s.Events/len(ids)); err != nil {
			return err
		}
	}
	return nil
}

func writeRun(dir string, now time.Time, events int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	lines := json.NewEncoder(out)
	for i := range events {
		if err := lines.Encode(event(i, now.Add(time.Duration(i-events)*time.Second))); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// event is a command, or every fourth time a message.
func event(i int, at time.Time) map[string]any {
	item := map[string]any{
		"type": "commandExecution", "id": fmt.Sprint("item-", i), "command": fmt.Sprintf("bash -lc 'go test ./drafts -run Test%d'", i), "status": "completed",
		"exitCode": i % 3, "durationMs": 1200 + i, "aggregatedOutput": "ok  \tdrafts\t0.41s\n",
	}
	message := fmt.Sprintf("command go test ./drafts -run Test%d, completed, exit %d", i, i%3)
	if i%4 == 0 {
		item = map[string]any{"type": "agentMessage", "id": fmt.Sprint("item-", i), "text": "The tests pass now; I look at the store next."}
		message = "agent message: The tests pass now; I look at the store next."
	}
	return map[string]any{
		"at": at.UTC(), "event": "notification", "method": "item/completed", "thread_id": "thread", "turn_id": "turn", "message": message,
		"payload": map[string]any{"method": "item/completed", "params": map[string]any{"threadId": "thread", "turnId": "turn", "item": item}},
	}
}
