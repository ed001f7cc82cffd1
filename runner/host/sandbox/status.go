package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Status is what bubblewrap reports on Box.StatusFD.
type Status struct {
	// PID is the first process of the sandbox as this machine numbers it: signals to it reach
	// the command. A SIGTERM to bubblewrap itself ends all at once, as SIGKILL does.
	PID int
	// Exited is set if the command ran and ended, or Init failed. Otherwise bubblewrap failed,
	// and said why on stderr.
	Exited bool
	Code   int
}

// ReadStatus reads a report to its end, which comes with the end of bubblewrap. started, unless
// nil, is called once the first process is known.
func ReadStatus(report io.Reader, started func(pid int)) (Status, error) {
	var s Status
	for lines := json.NewDecoder(report); ; {
		var line struct {
			PID  int  `json:"child-pid"`
			Code *int `json:"exit-code"`
		}
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("read the report of bubblewrap: %w", err)
		}
		if line.PID != 0 {
			s.PID = line.PID
			if started != nil {
				started(line.PID)
			}
		}
		if line.Code != nil {
			s.Exited = true
			s.Code = *line.Code
		}
	}
}
