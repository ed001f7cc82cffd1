package tick

import (
	"log/slog"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// program is the file of this program. An upgrade may replace it while the loop runs.
type program struct {
	path string

	mu    sync.Mutex // the jobs of several projects look at it
	stamp string     // of the running file, then of the last file that was reported
}

func newProgram() *program {
	path := wiring.ProgramPath()
	return &program{path: path, stamp: wiring.Stamp(path)}
}

// replaced reports once whether another file took the place of the program.
func (p *program) replaced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := wiring.Stamp(p.path)
	if now == "" || now == p.stamp { // it is missing for a moment while it is installed
		return false
	}
	p.stamp = now
	return true
}

// noteReplaced says that the loop is older than the program on the disk. Once a newer program
// migrates the state, the passes of the loop fail.
func (l *looper) noteReplaced() {
	if l.program.replaced() {
		l.w.Note(
			slog.LevelWarn,
			l.program.path+" was replaced; the loop continues with the old program until you restart it",
		)
	}
}
