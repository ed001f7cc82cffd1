package workflow

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
)

var commandTracker = tracker{
	name:     "command",
	title:    "the tracker's program",
	active:   []string{"Todo", "In Progress"},
	terminal: []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"},
	orders:   true,
	check:    trackerReader.protectProgram,
	keys:     commandKeys,
}

// commandKeys are the keys of this kind.
func commandKeys(c *Config) []Key {
	return []Key{
		key("tracker.provider.command", typeStrings, "[]", &c.Tracker.Command,
			"the tracker's program and its arguments, see trackers.md; required").
			naming(NamesProgram).thenTracker(trackerReader.trackerCommand),
		key(
			"tracker.provider.verbs",
			typeStrings,
			"[]",
			&c.Tracker.Verbs,
			"what the program can do in addition to reading: tool, comment, move",
		).thenTracker(trackerReader.trackerVerbs),
	}
}

// verbs are the values of tracker.provider.verbs.
var verbs = []string{"tool", "comment", "move"}

// trackerCommand checks the program that is the tracker. Its arguments are passed as written:
// every user of the machine can read them, so that a secret belongs into a variable, which the
// program gets anyway.
func (r trackerReader) trackerCommand(f field) {
	const hint = "name the program and its arguments, such as command: [python3, tracker.py]"
	command := r.cfg.Tracker.Command
	key := r.cfg.Tracker.APIKey
	if len(command) == 0 {
		r.invalid(f, "missing", hint)
	}
	for i, word := range command {
		_, isVar := reference(word)
		switch {
		case isVar:
			r.invalid(r.item(f, i), strconv.Quote(word)+" is not replaced by the value of a variable",
				"let the program read the variable: it gets the whole environment")
		case len(key) >= shortestKey && strings.Contains(word, key.Reveal()):
			r.invalid(
				r.item(f, i),
				"an argument contains the tracker's key, and every user of the machine can read arguments",
				"let the program read the variable SYMPHONY_TRACKER_API_KEY",
			)
		}
	}
	// The program and its arguments may change without becoming another project, whose claims
	// and workspaces would be foreign.
	r.place(f, strings.Join(command, " "), "command "+r.src.Path)
}

func (r trackerReader) trackerVerbs(f field) {
	for i, verb := range r.cfg.Tracker.Verbs {
		if verb != "" && !slices.Contains(verbs, verb) {
			r.invalid(r.item(f, i), strconv.Quote(verb)+" is not a verb", suggest.Instead(verb, verbs))
		}
	}
}

// protectProgram refuses to let agents write the program or a file that its arguments name:
// they could run their own outside the sandbox, or move and answer issues.
func (r trackerReader) protectProgram() {
	f := r.field("tracker.provider.command")
	roots := append(slices.Clone(r.agentRoots("the tracker's program")), r.cfg.Workspace.Root)
	for i, word := range r.cfg.Tracker.Command {
		_, path, option := strings.Cut(word, "=")
		if !option {
			path = word
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(r.src.Path), path)
		}
		for _, root := range roots {
			if r.decides(r.item(f, i), root, path) {
				r.invalid(
					r.item(f, i),
					path+" is in "+root+", which agents may write",
					"keep it where no agent can write",
				)
			}
		}
	}
}
