package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// listed is how many projects are shown at once. A longer list is narrowed down by a part of the name.
const listed = 20

// findProject reads the project that a flag names or the operator chooses.
func (s *starter) findProject(ctx context.Context) error {
	slug := s.options.Project
	if slug == "" {
		chosen, err := s.chooseProject(ctx)
		if err != nil {
			return err
		}
		slug = chosen
	}
	found, err := s.account.Project(ctx, slug, s.answers.Labels[0])
	if err != nil {
		return err
	}
	if len(found.States) == 0 {
		return exit.Usage("init: the project %s belongs to no team, so that its issues have no states", found.Name)
	}
	s.project = found
	s.answers.Project = found.Setting
	return nil
}

// chooseProject lists projects until the operator names one by its number, or a text matches only one. A text narrows the
// list down.
func (s *starter) chooseProject(ctx context.Context) (string, error) {
	all := s.account.Projects
	if len(all) == 0 {
		return "", &reconcile.Error{
			Code: "tracker_project_not_found", Message: "the user of the key sees no project", Hint: "make one in " + s.tracker.Name + ", or use another key",
		}
	}
	for shown := all; ; {
		s.listProjects(shown, len(shown) == len(all) && s.account.More)
		answer, err := s.ask(ctx, "Project (its number, or a part of its name or address)", "")
		switch {
		case err != nil:
			return "", err
		case answer == "":
			return "", nothingChosen("project")
		}
		if n, notNumber := strconv.Atoi(answer); notNumber == nil && n >= 1 && n <= min(listed, len(shown)) {
			return s.printChosen(shown[n-1]), nil
		}
		matching := matchingProjects(all, answer)
		switch {
		case len(matching) == 1:
			return s.printChosen(matching[0]), nil
		case len(matching) > 1:
			shown = matching
		case strings.Contains(answer, "://"):
			return answer, nil // an address of a project that is not listed
		default:
			fmt.Fprintf(s.w.Stderr, "No project is called so: %s\n", term.Visible(answer))
		}
	}
}

// printChosen prints the name of the chosen project and returns its slug.
func (s *starter) printChosen(p reconcile.TrackerProject) string {
	fmt.Fprintf(s.w.Stderr, "%s\n", term.Visible(p.Name))
	return p.Slug
}

func (s *starter) listProjects(list []reconcile.TrackerProject, more bool) {
	for i, p := range list[:min(listed, len(list))] {
		fmt.Fprintf(s.w.Stderr, "%4d  %s\n", i+1, term.Visible(p.Name))
	}
	switch rest := len(list) - listed; {
	case more:
		fmt.Fprintf(s.w.Stderr, "      and more than %d others\n", rest)
	case rest > 0:
		fmt.Fprintf(s.w.Stderr, "      and %s\n", text.Plural(rest, "other"))
	}
}

// matchingProjects returns the projects with the text in name, slug or address; only one if its name or slug is the text.
func matchingProjects(all []reconcile.TrackerProject, text string) []reconcile.TrackerProject {
	var matching []reconcile.TrackerProject
	text = strings.ToLower(text)
	for _, p := range all {
		if strings.ToLower(p.Name) == text || strings.ToLower(p.Slug) == text {
			return []reconcile.TrackerProject{p}
		}
		if strings.Contains(strings.ToLower(p.Name+"\n"+p.URL+"\n"+p.Slug), text) {
			matching = append(matching, p)
		}
	}
	return matching
}

// findStates finds the active states, the states that end an issue, and the one in which an issue is handed over.
func (s *starter) findStates(ctx context.Context) error {
	for _, state := range s.project.States {
		if state.Kind == reconcile.StateEnded {
			s.answers.Terminal = append(s.answers.Terminal, state.Name)
		}
	}
	active, handover := proposeStates(s.answers.Example, s.project.States)
	if err := s.setValue(ctx, "Active states", "--active-states", s.options.ActiveStates, strings.Join(active, ", "), s.setActive); err != nil {
		return err
	}
	if slices.Contains(s.answers.Active, handover) {
		handover = ""
	}
	what := "State for your review"
	if s.answers.Example == reviewExample {
		what = "State after the agent's review"
	}
	return s.setValue(ctx, what, "--review-state", s.options.ReviewState, handover, s.setReview)
}

// setValue sets a value from its flag, asks until the answer is right, or takes the proposal.
func (s *starter) setValue(ctx context.Context, what, flag, given, proposal string, set func(string) error) error {
	switch {
	case given != "":
		return set(given)
	case !s.interactive && proposal == "":
		return exit.Usage("init: the project's team has nothing to propose: it needs %s", flag)
	case !s.interactive:
		return set(proposal)
	}
	for {
		answer, err := s.ask(ctx, what, proposal)
		switch {
		case err != nil:
			return err
		case answer == "":
			return nothingChosen(strings.ToLower(what))
		}
		if err = set(answer); err == nil {
			return nil
		}
		s.printError(err)
	}
}

func (s *starter) setActive(text string) error {
	var names []string
	s.answers.Waiting, s.answers.Begun = "", ""
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		state, err := s.state(name)
		if err != nil {
			return err
		}
		if slices.Contains(s.answers.Terminal, state.Name) {
			return exit.Usage("init: the state %q ends an issue, it can't be active", state.Name)
		}
		switch partOf(state) {
		case waitingPart:
			s.answers.Waiting = cmp.Or(s.answers.Waiting, state.Name)
		case begunPart:
			s.answers.Begun = cmp.Or(s.answers.Begun, state.Name)
		}
		if !slices.Contains(names, state.Name) {
			names = append(names, state.Name)
		}
	}
	if len(names) == 0 {
		return exit.Usage("init: no active state is named")
	}
	s.answers.Active = names
	return nil
}

func (s *starter) setReview(name string) error {
	state, err := s.state(name)
	if err == nil && slices.Contains(s.answers.Active, state.Name) {
		err = exit.Usage("init: the state %q is active: an issue that is handed over there would be worked on again", state.Name)
	}
	s.answers.Review = state.Name
	return err
}

// state finds a state of the project's teams, whatever the case of its letters.
func (s *starter) state(name string) (reconcile.TrackerState, error) {
	state, ok := s.project.State(name)
	if !ok {
		var names []string
		for _, known := range s.project.States {
			names = append(names, known.Name)
		}
		return state, exit.Usage("init: the project has no state %s", reconcile.UnknownName{Name: name, Nearest: text.Nearest(name, names)})
	}
	return state, nil
}

// What a state means for an agent.
const (
	noPart = iota
	waitingPart
	begunPart
	reworkPart
	reviewPart
)

// partOf derives the meaning of a state from its kind and, for started ones, from its name.
func partOf(s reconcile.TrackerState) int {
	name := strings.ToLower(s.Name)
	switch {
	case s.Kind == reconcile.StateWaiting:
		return waitingPart
	case s.Kind != reconcile.StateStarted:
		return noPart
	case strings.Contains(name, "review"):
		return reviewPart
	case strings.Contains(name, "rework"):
		return reworkPart
	}
	return begunPart
}

// proposeStates proposes the active states and the one in which the agent hands an issue over. A reviewing agent begins
// where others hand over, and hands on to a person or back.
func proposeStates(example string, states []reconcile.TrackerState) (active []string, handover string) {
	parts := map[int][]string{}
	for _, s := range states {
		parts[partOf(s)] = append(parts[partOf(s)], s.Name)
	}
	reviews := parts[reviewPart]
	human := func(name string) bool { return strings.Contains(strings.ToLower(name), "human") }
	if at := slices.IndexFunc(reviews, human); at > 0 { // the state of a person comes before that of agents
		reviews[0], reviews[at] = reviews[at], reviews[0]
	}
	first := func(part int) []string { return parts[part][:min(1, len(parts[part]))] }
	switch {
	case example != reviewExample:
		return slices.Concat(first(waitingPart), first(begunPart), parts[reworkPart]), firstOf(reviews)
	case len(reviews) > 1:
		return reviews[1:2], reviews[0]
	}
	return reviews, firstOf(parts[begunPart])
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
