package setup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

const (
	longestKey = 4096 // far more than a key has: a longer file is not a key file
	keyTries   = 3    // how often a refused key may be typed again
	listed     = 20   // how many projects are shown at once; a longer list is narrowed down by a part of the name
)

// knownKey returns the key that is configured already, first that of the environment file: a schedule has no other.
func (s *starter) knownKey() string {
	return strings.TrimSpace(cmp.Or(s.p.EnvFile[workflow.APIKeyVar], s.w.Getenv(workflow.APIKeyVar)))
}

// findKey finds a key that the tracker accepts: that of --key-file, the one that is configured already, or one that is typed.
func (s *starter) findKey(ctx context.Context) error {
	key := s.knownKey()
	if s.options.KeyFile != "" {
		var err error
		if key, err = s.readKey(s.options.KeyFile); err != nil {
			return err
		}
		if have := s.p.EnvFile[workflow.APIKeyVar]; have != "" && have != key {
			return exit.Fault("already_exists", s.p.EnvPath()+" holds another key than --key-file",
				"change it there, or leave --key-file out to use the one that it holds")
		}
	}
	if key != "" {
		return s.tryKey(ctx, key)
	}
	for try := 1; ; try++ {
		typed, err := term.AskLine(ctx, s.w, s.tracker.KeyQuestion+": ", true)
		if err != nil {
			return err
		}
		if typed = strings.TrimSpace(typed); typed == "" {
			return nothingChosen("key")
		}
		err = s.tryKey(ctx, typed)
		if !s.tracker.RefusedKey(err) || try == keyTries {
			return err
		}
		s.printError(err)
	}
}

func (s *starter) readKey(path string) (string, error) {
	from := s.w.Stdin
	if path != "-" {
		file, err := os.Open(s.w.Absolute(path))
		if err != nil {
			return "", exit.Usage("init: --key-file: %s", err)
		}
		defer file.Close()
		from = file
	} else if s.interactive {
		return "", exit.Usage("init: --key-file - reads a pipe; on a terminal leave it out, and you are asked")
	}
	data, err := io.ReadAll(io.LimitReader(from, longestKey+1))
	if err != nil {
		return "", exit.Usage("init: --key-file %s: %s", path, err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" || len(data) > longestKey {
		return "", exit.Usage("init: --key-file %s holds no key", path)
	}
	return key, nil
}

// tryKey asks the tracker for the user of the key. Its errors never hold the key.
func (s *starter) tryKey(ctx context.Context, key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("'\"\\#$`", r) }) {
		return exit.Fault("missing_tracker_api_key", "the key holds characters that no key of "+s.tracker.Name+"'s has",
			"copy it again; a file holds the key alone, without a name or quotes")
	}
	account, err := s.tracker.Connect(ctx, s.answers.Endpoint, key)
	if err != nil {
		return err
	}
	s.key, s.account = key, account
	if s.interactive {
		fmt.Fprintf(s.w.Stderr, "It is the key of %s.\n", term.Visible(account.User))
	}
	return nil
}

// findProject reads the project that a flag names or the operator chooses.
func (s *starter) findProject(ctx context.Context) (err error) {
	slug := s.options.Project
	if slug == "" {
		if slug, err = s.chooseProject(ctx); err != nil {
			return err
		}
	}
	if s.project, err = s.account.Project(ctx, slug, s.answers.Labels[0]); err != nil {
		return err
	}
	if len(s.project.States) == 0 {
		return exit.Usage("init: the project %s belongs to no team, so that its issues have no states", s.project.Name)
	}
	s.answers.Project = s.project.Setting
	return nil
}

// chooseProject lists projects until the operator names one by its number, or a text matches only one. A text narrows the
// list down.
func (s *starter) chooseProject(ctx context.Context) (slug string, err error) {
	all := s.account.Projects
	if len(all) == 0 {
		return "", exit.Fault("tracker_project_not_found", "the user of the key sees no project",
			"make one in "+s.tracker.Name+", or use another key")
	}
	for shown := all; ; {
		for i, p := range shown[:min(listed, len(shown))] {
			fmt.Fprintf(s.w.Stderr, "%4d  %s\n", i+1, term.Visible(p.Name))
		}
		switch rest := len(shown) - listed; {
		case len(shown) == len(all) && s.account.More:
			fmt.Fprintf(s.w.Stderr, "      and more than %d others\n", rest)
		case rest > 0:
			fmt.Fprintf(s.w.Stderr, "      and %s\n", text.Plural(rest, "other"))
		}
		answer, err := s.ask(ctx, "Project (its number, or a part of its name or address)", "")
		if err == nil && answer == "" {
			err = nothingChosen("project")
		}
		if err != nil {
			return "", err
		}
		matching := matchingProjects(all, answer)
		if n, notNumber := strconv.Atoi(answer); notNumber == nil && n >= 1 && n <= min(listed, len(shown)) {
			matching = shown[n-1 : n]
		}
		switch {
		case len(matching) == 1:
			fmt.Fprintln(s.w.Stderr, term.Visible(matching[0].Name))
			return matching[0].Slug, nil
		case len(matching) > 1:
			shown = matching
		case strings.Contains(answer, "://"):
			return answer, nil // an address of a project that is not listed
		default:
			fmt.Fprintf(s.w.Stderr, "No project is called so: %s\n", term.Visible(answer))
		}
	}
}

// matchingProjects returns the projects with the text in name, slug or address; only one if its name or slug is the text.
func matchingProjects(all []reconcile.TrackerProject, text string) (matching []reconcile.TrackerProject) {
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
	return s.setValue(ctx, what, "--review-state", s.options.ReviewState, handover, func(name string) error {
		state, err := s.state(name)
		if err == nil && slices.Contains(s.answers.Active, state.Name) {
			err = exit.Usage("init: the state %q is active: an issue that is handed over there would be worked on again", state.Name)
		}
		s.answers.Review = state.Name
		return err
	})
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

// state finds a state of the project's teams, whatever the case of its letters.
func (s *starter) state(name string) (reconcile.TrackerState, error) {
	state, ok := s.project.State(name)
	if ok {
		return state, nil
	}
	var names []string
	for _, known := range s.project.States {
		names = append(names, known.Name)
	}
	return state, exit.Usage("init: the project has no state %s", reconcile.UnknownName{Name: name, Nearest: text.Nearest(name, names)})
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
	first := func(list []string) []string { return list[:min(1, len(list))] }
	reviews := parts[reviewPart]
	human := func(name string) bool { return strings.Contains(strings.ToLower(name), "human") }
	if at := slices.IndexFunc(reviews, human); at > 0 { // the state of a person comes before that of agents
		reviews[0], reviews[at] = reviews[at], reviews[0]
	}
	active = slices.Concat(first(parts[waitingPart]), first(parts[begunPart]), parts[reworkPart])
	next := reviews
	if example == reviewExample {
		active, next = reviews, parts[begunPart]
		if len(reviews) > 1 {
			active, next = reviews[1:2], reviews
		}
	}
	return active, strings.Join(first(next), "")
}
