package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// named gives what a placeholder stands for. A placeholder in small letters stands for itself.
func (l *typedLine) named(ctx context.Context, w *term.Env, placeholder string) (completionAnswer, error) {
	var a completionAnswer
	var err error
	switch placeholder {
	case "FILE", "WORKFLOW":
		a.fits = fitsFiles
	case "PATH":
		a.fits = fitsFiles
		a.candidates, err = projectCandidates(ctx, w)
	case "DIRECTORY":
		a.fits = fitsDirectories
	case "ISSUE":
		a.candidates, err = l.fromState(ctx, w, issueCandidates)
	case "REQUEST":
		a.candidates, err = l.fromState(ctx, w, requestCandidates)
	case "ID":
		a.candidates, err = l.fromState(ctx, w, l.runCandidates)
	default:
		if placeholder != "" && placeholder == strings.ToLower(placeholder) && !strings.HasPrefix(placeholder, "-") {
			a.candidates = plainCandidates([]string{placeholder})
		}
	}
	return a, err
}

// fromState reads candidates from the project's state, of which there may be none. What is there came from a tracker:
// a word that a shell would not take for just a word is left out.
func (l *typedLine) fromState(ctx context.Context, w *term.Env, read func(context.Context, *project.Project, *state.DB) ([]candidate, error)) ([]candidate, error) {
	p := project.New(w,
		homely(w, cmp.Or(l.flags["workflow"], w.Getenv("SYMPHONY_WORKFLOW"), "WORKFLOW.md")),
		homely(w, cmp.Or(l.flags["state-dir"], w.Getenv("SYMPHONY_STATE_DIR"))),
	)
	db, err := state.OpenReadOnly(ctx, p.StateDir)
	if errors.Is(err, state.ErrNoState) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	found, err := read(ctx, p, db)
	return justWords(found), err
}

func justWords(list []candidate) []candidate {
	return slices.DeleteFunc(list, func(c candidate) bool {
		return c.word == "" || c.word[0] == '-' || term.ShellQuote(c.word) != c.word
	})
}

// projectCandidates are the account's projects, by their workflow.
func projectCandidates(ctx context.Context, w *term.Env) ([]candidate, error) {
	known, err := project.KnownProjects(ctx, w)
	var list []candidate
	for _, r := range known {
		list = append(list, candidate{cmp.Or(r.WorkflowPath, r.StateDir), r.Name()})
	}
	return justWords(list), err
}

// issueCandidates are all issues that the state knows, and of those that are claimed or were skipped what is up with
// them.
func issueCandidates(ctx context.Context, _ *project.Project, db *state.DB) ([]candidate, error) {
	names, err := db.Identifiers(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := db.Claims(ctx)
	if err != nil {
		return nil, err
	}
	skips, err := db.Skips(ctx)
	if err != nil {
		return nil, err
	}
	about := map[string]string{}
	for _, s := range skips {
		about[s.Identifier] = "skipped: " + s.Reason
	}
	for _, c := range claims {
		about[c.Identifier] = claimInAWord(c)
	}
	var list []candidate
	for _, name := range names {
		list = append(list, candidate{name, about[name]})
	}
	return list, nil
}

func claimInAWord(c reconcile.Claim) string {
	switch c.Status {
	case reconcile.Running:
		return "running: " + c.Issue.Title
	case reconcile.Held:
		return "held: " + c.HoldReason
	default:
		return "waits: " + string(c.Kind)
	}
}

// requestCandidates are the requests that somebody is to decide.
func requestCandidates(ctx context.Context, p *project.Project, db *state.DB) ([]candidate, error) {
	open, err := view.OpenRequests(ctx, p, db)
	var list []candidate
	for _, r := range open {
		list = append(list, candidate{r.ID(), string(r.Kind) + ": " + r.Summary})
	}
	return list, err
}

// runsOffered is how many of an issue's runs are offered, the newest.
const runsOffered = 20

// runCandidates are the runs of the issue that is named before.
func (l *typedLine) runCandidates(ctx context.Context, _ *project.Project, db *state.DB) ([]candidate, error) {
	if len(l.plain) == 0 {
		return nil, nil
	}
	id, _, known, err := db.FindIssue(ctx, l.plain[0])
	if err != nil || !known {
		return nil, err
	}
	runs, err := db.RunsOfIssue(ctx, id, runsOffered)
	var list []candidate
	for _, r := range runs {
		list = append(list, candidate{r.ID, cmp.Or(string(r.Outcome), string(r.Phase))})
	}
	return list, err
}
