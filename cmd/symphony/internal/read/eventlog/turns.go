package eventlog

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Turn is one turn of a run.
type Turn struct {
	Number    int
	At, Until time.Time // Until is zero if the log has no end of the turn
	Result    string    // completed, failed, cancelled or ended; empty if the log has no end of the turn
	Text      string    // why it did not complete; may be empty
}

// turnsWindow is how many bytes at the end of a log are searched for turns.
const turnsWindow = 2 << 20

// turnResults are the events that end a turn.
var turnResults = map[string]string{
	agent.EventTurnCompleted: "completed", agent.EventTurnFailed: "failed", agent.EventTurnCancelled: "cancelled",
	agent.EventTurnEndedWithError: "ended",
}

// Turns returns the turns of a run that its log has, the oldest first. Of a very long log it reads the end.
func Turns(stateDir string, run reconcile.Run) (list []Turn, err error) {
	_, err = eachOfLast(Path(stateDir, run.ID), turnsWindow, func(line []byte) {
		// The name of an event comes right after its time, so that most lines need no decoding.
		if !bytes.Contains(line[:min(len(line), 100)], []byte(`"event":"turn_`)) {
			return
		}
		var e agent.Event
		if json.Unmarshal(line, &e) != nil {
			return
		}
		var p agent.PromptEvent
		result, ends := turnResults[e.Name]
		switch last := len(list) - 1; {
		case e.Name == agent.EventPrompt:
			_ = json.Unmarshal(e.Raw, &p) // a payload that was cut has no number
			if p.Turn == 0 && last >= 0 {
				p.Turn = list[last].Number + 1
			}
			list = append(list, Turn{Number: max(p.Turn, 1), At: e.At})
		case ends && last >= 0 && list[last].Until.IsZero() && ofThread(line, run.ThreadID):
			list[last].Until, list[last].Result = e.At, result
			if result != "completed" {
				list[last].Text = e.Message
			}
		}
	})
	return list, err
}
