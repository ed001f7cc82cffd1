package repoissue

import (
	"cmp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Proposal describes a repository with its labels to init: open and closed, and labels as the
// states between them. A label that does not exist is created when it is set. wanted is the label
// of the issues on which agents work, and open the state of issues without a label that is one.
func Proposal(project reconcile.TrackerProject, open string, labels []string, wanted string) reconcile.TrackerBoard {
	// labelled returns the state of the first label that contains a word, or else of a label
	// to create.
	labelled := func(word, otherwise string) reconcile.TrackerState {
		has := func(l string) bool { return strings.Contains(strings.ToLower(l), word) }
		name := cmp.Or(text.First(labels, has), otherwise)
		return reconcile.TrackerState{Name: name, Kind: reconcile.StateStarted}
	}
	isWanted := func(l string) bool { return strings.EqualFold(l, wanted) }
	board := reconcile.TrackerBoard{
		TrackerProject: project,
		Setting:        project.Name,
		HasLabel:       slices.ContainsFunc(labels, isWanted),
		States: []reconcile.TrackerState{
			{Name: open, Kind: reconcile.StateWaiting},
			labelled("progress", "In Progress"),
			labelled("review", "Human Review"),
			{Name: "closed", Kind: reconcile.StateEnded},
		},
	}
	for _, l := range labels {
		if _, known := board.State(l); !known {
			board.States = append(board.States, reconcile.TrackerState{Name: l})
		}
	}
	return board
}
