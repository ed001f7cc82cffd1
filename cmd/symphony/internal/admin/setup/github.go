package setup

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

var githubKind = kind{
	name: "github",
	suits: func(s *starter, ctx context.Context) bool {
		api, _ := workflow.OnGitHub(s.git(ctx, filepath.Dir(s.p.Path), "remote", "get-url", "origin"))
		return strings.HasPrefix(api, "https://api.")
	},
	find: []func(*starter, context.Context) error{
		(*starter).findRemote, (*starter).findKey, (*starter).checkToken, (*starter).findProject, (*starter).findStates,
	},
	write:   (*starter).writeKey,
	summary: (*starter).githubSummary,
}

// findRemote finds the repository on GitHub, and its API, from the git remote origin, unless
// flags name them.
func (s *starter) findRemote(ctx context.Context) error {
	origin := workflow.WithoutPassword(s.git(ctx, filepath.Dir(s.p.Path), "remote", "get-url", "origin"))
	remote := workflow.WithoutPassword(cmp.Or(s.options.Repository, origin))
	if dir := s.w.Absolute(s.expand(remote)); remote != "" && exists(dir) { // a local clone
		remote = workflow.WithoutPassword(s.git(ctx, dir, "remote", "get-url", "origin"))
	}
	api, name := workflow.OnGitHub(remote)
	if api == "" { // the issues may be there although the work is delivered elsewhere
		remote = origin
		api, name = workflow.OnGitHub(remote)
	}
	because := "no git remote origin is on GitHub"
	if s.options.Repository != "" {
		because = "neither --repository nor the git remote origin is on GitHub"
	}
	// the token may be for another host
	if s.options.Endpoint == "" && api != "" && !strings.HasPrefix(api, "https://api.") {
		return exit.Usage(
			"init: %q is not an address on github.com: give --endpoint %s, or %s if that is GitHub Enterprise",
			remote,
			s.tracker.Endpoint,
			api,
		)
	}
	s.answers.Endpoint = cmp.Or(s.options.Endpoint, api)
	if s.answers.Endpoint == s.tracker.Endpoint {
		s.answers.Endpoint = ""
	}
	s.options.Repository = cmp.Or(s.options.Repository, remote)
	set := func(_ context.Context, written string) error {
		if owner, name, ok := strings.Cut(written, "/"); !ok || owner == "" || name == "" ||
			strings.ContainsAny(name, "/ ") {
			return exit.Usage("init: %q is not the name of a repository: write OWNER/NAME", written)
		}
		s.options.Project = written
		return nil
	}
	if api == "" {
		name = ""
	}
	if name == "" && !s.interactive {
		if err := s.missing([2]string{
			"--project OWNER/NAME, because " + because,
			s.options.Project,
		}); err != nil {
			return err
		}
	}
	if s.options.Repository == "" {
		if err := s.missing([2]string{"--repository", ""}); err != nil {
			return err
		}
	}
	return s.setValue(ctx, "Repository with the issues", "--project", s.options.Project, name, set)
}

// checkToken refuses to store the token in an environment file that exists.
func (s *starter) checkToken(context.Context) error {
	if s.keyFromGh {
		return nil
	}
	return s.checkKeyFile()
}

// StateLabels are the labels that are states. The latest comes first, so that an agent moves
// an issue by adding a label.
func (a answers) StateLabels() (labels []string) {
	for _, name := range append(slices.Clone(a.Active), a.Review) {
		if lower := strings.ToLower(name); lower != "open" && lower != "closed" && name != "" {
			labels = append([]string{name}, labels...)
		}
	}
	return labels
}

func (s *starter) githubSummary() (lines []string, more JSON) {
	token := "the token is in " + s.keys.path(s.key)
	if s.keyFromGh {
		token = fmt.Sprintf(
			"the token comes from gh; if gh gives none to scheduled passes, put %s=… into %s (mode 0600)",
			s.keys.names[0],
			s.keys.path(s.key),
		)
	}
	lines = []string{
		"wrote " + s.p.Path + ", for the issues of " + s.project.Name, token, "", s.labelTask(s.project.Name),
	}
	more = JSON{
		EnvironmentFile: s.keys.path(s.key),
		Repository:      s.project.Name,
		LabelExists:     &s.project.HasLabel,
	}
	return lines, more
}
