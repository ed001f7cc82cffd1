package workspace

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Trash is what a project has to say about the removed workspaces of a root, which it may share with others.
type Trash struct {
	// Clock tells how long they have been kept. Nil: the wall clock does.
	Clock Clock
	// Project is whose they become, Keep how long that project wants them kept.
	Project string
	Keep    time.Duration
}

// Clock reads the clock that neither a suspend nor a step of the wall clock moves. Readings can be compared where boot
// is the same.
type Clock func() (boot string, mono time.Duration, err error)

// noted ends the name of the file beside an entry of the trash that says whose it is and when, on the monotonic clock,
// it was put there: what was removed an hour ago must not go because somebody set the wall clock a year on, or because
// another project on this root keeps nothing.
const noted = ".note"

const maxNote = 64 << 10 // bytes

type note struct {
	Boot    string        `json:"boot"`
	Mono    time.Duration `json:"mono_ns"`
	Project string        `json:"project"`
	Keep    time.Duration `json:"keep_ns"`
}

// writeNote is done before the entry is there, so that none is without. Where it can't be done, on a full disk for
// instance, the removal goes on all the same, and the wall clock alone counts.
func (r *Root) writeNote(entry string) {
	n := note{Project: r.Trash.Project, Keep: r.Trash.Keep}
	if r.Trash.Clock != nil {
		if boot, mono, err := r.Trash.Clock(); err == nil {
			n.Boot, n.Mono = boot, mono
		}
	}
	b, err := json.Marshal(n)
	if err == nil {
		err = os.WriteFile(entry+noted, b, 0o600)
	}
	if err != nil {
		_ = os.Remove(entry + noted)
	}
}

func (t trashed) readNote() (n note) {
	b, err := readRegular(strings.TrimSuffix(t.path, stuck)+noted, maxNote)
	if err != nil || json.Unmarshal(b, &n) != nil {
		return note{}
	}
	return n
}

func (r *Root) removeNote(entry string) { _ = os.Remove(strings.TrimSuffix(entry, stuck) + noted) }

// clockSlack is what wall clocks are set back by every day.
const clockSlack = time.Minute

// due reports whether an entry has been kept for its time: by the monotonic clock where that can be told, else by the
// wall clock. Another project's is kept for as long as that one said, unless space is short: then keep is less than what
// this project asked for. One that lies in the future, where only a clock that was set back can have put it, is to be
// redated.
func (r *Root) due(t trashed, now time.Time, keep time.Duration) (due, redate bool) {
	n := t.readNote()
	if n.Project != "" && n.Project != r.Trash.Project && keep >= r.Trash.Keep {
		keep = n.Keep
	}
	if r.Trash.Clock != nil && n.Boot != "" {
		if boot, mono, err := r.Trash.Clock(); err == nil && boot == n.Boot && mono >= n.Mono {
			return mono-n.Mono >= keep, false
		}
	}
	age := now.Sub(t.at)
	return age >= keep || keep <= 0, age < -clockSlack && keep > 0
}

// redate lets an entry from the future be kept for its time from now on; nobody knows how long it has been there.
func (r *Root) redate(t trashed, now time.Time) error {
	name := strings.TrimSuffix(filepath.Base(t.path), stuck)
	whose := *r
	if n := t.readNote(); n.Project != "" {
		whose.Trash.Project, whose.Trash.Keep = n.Project, n.Keep
	}
	to, err := whose.moveToTrash(t.path, name[:len(name)-len(trashTime)-1], now)
	if err != nil {
		return err
	}
	r.removeNote(t.path)
	if t.stuck {
		return os.Rename(to, to+stuck)
	}
	return nil
}

// removeLostNotes removes the notes about what somebody has taken out of the trash, or what never came in.
func (r *Root) removeLostNotes(list []trashed) {
	entries, _ := os.ReadDir(r.trash()) // listed a moment ago
	for _, e := range entries {
		name, isNote := strings.CutSuffix(e.Name(), noted)
		entry := filepath.Join(r.trash(), name)
		if isNote && !slices.ContainsFunc(list, func(t trashed) bool { return strings.TrimSuffix(t.path, stuck) == entry }) {
			r.removeNote(entry)
		}
	}
}
