package setup

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

var linearKind = kind{
	name:  "linear",
	check: (*starter).checkLinear,
	suits: func(s *starter, _ context.Context) bool {
		key, _ := s.p.Lookup(workflow.APIKeyVar)
		return key != ""
	},
	find: []func(*starter, context.Context) error{
		(*starter).findKey,
		(*starter).findProject,
		(*starter).findStates,
	},
	write:   (*starter).writeKey,
	summary: (*starter).linearSummary,
}

func (s *starter) checkLinear() error {
	if err := s.checkKeyFile(); err != nil {
		return err
	}
	if s.options.Project != "" && s.options.Team != "" {
		return exit.Usage(
			"init: --project and --team: give one of them, and write the other key into WORKFLOW.md afterwards",
		)
	}
	return s.missing(
		[2]string{"--project or --team", s.options.Project + s.options.Team},
		[2]string{"--repository", s.options.Repository},
		[2]string{
			"--key-file or the variable " + workflow.APIKeyVar,
			cmp.Or(s.options.KeyFile, s.keys.known()),
		},
	)
}

// listed is how many projects are shown at once. The operator narrows a longer list down by a
// part of the name.
const listed = 20

// findProject reads the project or team that a flag names, or the project that the operator
// chooses.
func (s *starter) findProject(ctx context.Context) (err error) {
	if s.options.Team != "" {
		s.project, err = s.account.Team(ctx, s.options.Team, s.answers.Labels[0])
		s.answers.Team = s.project.Setting
		return err
	}
	slug := s.options.Project
	if slug == "" {
		slug, err = s.chooseProject(ctx)
		if err != nil {
			return err
		}
	}
	s.project, err = s.account.Project(ctx, slug, s.answers.Labels[0])
	if err != nil {
		return err
	}
	if len(s.project.States) == 0 {
		return exit.Usage("init: the project %s has no team, so its issues have no states", s.project.Name)
	}
	s.answers.Project = s.project.Setting
	return nil
}

// chooseProject lists projects until the operator enters a project's number, or a text that
// matches a single project. A text that several match narrows the list down.
func (s *starter) chooseProject(ctx context.Context) (string, error) {
	all := s.account.Projects
	if len(all) == 0 {
		return "", reconcile.NewError("tracker_project_not_found", "the user of the key can see no project",
			"create one in "+s.tracker.Name+", use another key, or take the issues of a team with --team")
	}
	for shown := all; ; {
		for i, p := range shown[:min(listed, len(shown))] {
			fmt.Fprintf(s.w.Stderr, "%4d  %s\n", i+1, text.Visible(p.Name))
		}
		if rest := len(shown) - listed; rest > 0 {
			fmt.Fprintf(s.w.Stderr, "      and %s\n", text.Plural(rest, "other"))
		}
		answer, err := s.ask(ctx, "Project (its number, or a part of its name or address)", "project", "")
		if err != nil {
			return "", err
		}
		matching := matchingProjects(all, answer)
		n, err := strconv.Atoi(answer)
		if err == nil && n >= 1 && n <= min(listed, len(shown)) {
			matching = shown[n-1 : n]
		}
		switch {
		case len(matching) == 1:
			fmt.Fprintln(s.w.Stderr, text.Visible(matching[0].Name))
			return matching[0].Slug, nil
		case len(matching) > 1:
			shown = matching
		case strings.Contains(answer, "://"):
			return answer, nil // an address of a project that is not listed
		default:
			fmt.Fprintf(s.w.Stderr, "No project matches %s\n", text.Visible(answer))
		}
	}
}

// matchingProjects returns the projects with the text in name, slug or address; only the
// project whose name or slug is the text, if any.
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

func (s *starter) linearSummary() (lines []string, more JSON) {
	more = JSON{EnvironmentFile: s.keys.path(s.key), LabelExists: &s.project.HasLabel}
	what := "project"
	if s.answers.Team == "" {
		more.ProjectSlug = s.project.Slug
	} else {
		more.Team = s.answers.Team
		what = "team"
	}
	return []string{
		"wrote " + s.p.Path + ", for the " + what + " " + s.project.Name,
		s.keys.where("key", s.key),
		"",
		s.labelTask(s.tracker.Name),
	}, more
}
