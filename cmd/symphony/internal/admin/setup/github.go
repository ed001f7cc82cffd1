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
		api, _ := workflow.GitHubForge.At(s.git(ctx, filepath.Dir(s.p.Path), "remote", "get-url", "origin"))
		return strings.HasPrefix(api, "https://api.")
	},
	find: []func(*starter, context.Context) error{
		(*starter).findRemote,
		(*starter).findKey,
		(*starter).checkToken,
		(*starter).findProject,
		(*starter).findStates,
	},
	write:   (*starter).writeKey,
	summary: (*starter).githubSummary,
}

// findRemote finds the repository on GitHub, and its API, from the git remote origin, unless
// flags name them.
func (s *starter) findRemote(ctx context.Context) error {
	remote, api, name := s.remoteOnGitHub(ctx)
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
	because := "no git remote origin is on GitHub"
	if s.options.Repository != "" {
		because = "neither --repository nor the git remote origin is on GitHub"
	}
	s.options.Repository = cmp.Or(s.options.Repository, remote)
	if name == "" {
		err := s.missing([2]string{"--project OWNER/NAME, because " + because, s.options.Project})
		if err != nil {
			return err
		}
	}
	if err := s.missing([2]string{"--repository", s.options.Repository}); err != nil {
		return err
	}
	return s.setValue(
		ctx,
		"Repository with the issues",
		"--project",
		s.options.Project,
		name,
		s.setGitHubProject,
	)
}

// remoteOnGitHub returns the address of the repository on GitHub: the address that --repository
// names, or the origin of the clone that it names, or else the git remote origin. If none is on
// GitHub, only this origin is returned, without an API and a name.
func (s *starter) remoteOnGitHub(ctx context.Context) (remote, api, name string) {
	origin := s.origin(ctx, filepath.Dir(s.p.Path))
	remote = workflow.WithoutPassword(cmp.Or(s.options.Repository, origin))
	clone := s.w.Absolute(s.expand(remote))
	if remote != "" && exists(clone) {
		remote = s.origin(ctx, clone)
	}
	api, name = workflow.GitHubForge.At(remote)
	if api == "" { // the issues may be there although the work is delivered elsewhere
		remote = origin
		api, name = workflow.GitHubForge.At(remote)
	}
	if api == "" {
		return remote, "", ""
	}
	return remote, api, name
}

// origin is the git remote origin of a directory, without a password; empty for none.
func (s *starter) origin(ctx context.Context, dir string) string {
	return workflow.WithoutPassword(s.git(ctx, dir, "remote", "get-url", "origin"))
}

// setGitHubProject sets the repository with the issues, such as octo/shop.
func (s *starter) setGitHubProject(_ context.Context, written string) error {
	owner, name, _ := strings.Cut(written, "/")
	if owner == "" || name == "" || strings.ContainsAny(name, "/ ") {
		return exit.Usage("init: %q is not the name of a repository: write OWNER/NAME", written)
	}
	s.options.Project = written
	return nil
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
		"wrote " + s.p.Path + ", for the issues of " + s.project.Name,
		token,
		"",
		s.labelTask(s.project.Name),
	}
	more = JSON{
		EnvironmentFile: s.keys.path(s.key),
		Repository:      s.project.Name,
		LabelExists:     &s.project.HasLabel,
	}
	return lines, more
}
