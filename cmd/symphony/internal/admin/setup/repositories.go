package setup

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

var githubKind = kind{
	name:  "github",
	forge: workflow.GitHubForge,
	suits: func(s *starter, ctx context.Context) bool { return s.originIsOn(ctx, workflow.GitHubForge) },
	find: append([]func(*starter, context.Context) error{
		(*starter).findGitHub,
	}, repositorySteps...),
	write:   (*starter).writeKey,
	summary: (*starter).repositorySummary,
}

var giteaKind = kind{
	name:  "gitea",
	forge: workflow.GiteaForge,
	suits: func(s *starter, ctx context.Context) bool { return s.originIsOn(ctx, workflow.GiteaForge) },
	find: append([]func(*starter, context.Context) error{
		(*starter).findServer,
	}, repositorySteps...),
	write:   (*starter).writeKey,
	summary: (*starter).repositorySummary,
	apiPath: "/api/v1",
}

var gitlabKind = kind{
	name:  "gitlab",
	forge: workflow.GitLabForge,
	suits: func(s *starter, ctx context.Context) bool { return s.originIsOn(ctx, workflow.GitLabForge) },
	find: append([]func(*starter, context.Context) error{
		(*starter).findServer,
	}, repositorySteps...),
	write:   (*starter).writeKey,
	summary: (*starter).repositorySummary,
	apiPath: "/api/v4",
	groups:  true,
}

// form says how the repository with the issues is named.
func (k kind) form() string {
	if k.groups {
		return "GROUP/PROJECT"
	}
	return "OWNER/NAME"
}

// repositorySteps follow the step that finds the address of the API.
var repositorySteps = []func(*starter, context.Context) error{
	(*starter).findRemote,
	(*starter).findKey,
	(*starter).checkToken,
	(*starter).findProject,
	(*starter).findStates,
}

// originIsOn reports whether the git remote origin is on a host that is known to be of a kind.
func (s *starter) originIsOn(ctx context.Context, kind workflow.ForgeKind) bool {
	return kind.Knows(s.git(ctx, filepath.Dir(s.p.Path), "remote", "get-url", "origin"))
}

// findGitHub finds the address of the API, unless a flag names it.
func (s *starter) findGitHub(ctx context.Context) error {
	remote, api, _ := s.remoteOnForge(ctx)
	if isElsewhere(s.kind, remote) && s.options.Endpoint == "" {
		if s.options.Project == "" {
			return s.elsewhere(remote, "--project OWNER/NAME")
		}
		api = "" // the issues are on github.com, and only the code is there
	}
	// the token may be for another host
	if s.options.Endpoint == "" && api != "" && !s.kind.forge.Knows(remote) {
		return exit.Usage(
			"init: %q is not an address on github.com: give --endpoint %s, or %s if that is GitHub Enterprise",
			remote,
			s.tracker.Endpoint,
			api,
		)
	}
	s.answers.Endpoint = cmp.Or(s.options.Endpoint, api)
	return nil
}

// findServer finds the address of the API, unless a flag names it. The host of origin is taken for
// one of this kind unless it is known to be something else.
func (s *starter) findServer(ctx context.Context) error {
	title := s.kind.forge.Title
	remote, api, _ := s.remoteOnForge(ctx)
	if at, err := url.Parse(remote); err == nil && at.Scheme == "http" {
		api = "http://" + at.Host + s.kind.apiPath // the server has no TLS, and perhaps a port of its own
	}
	if isElsewhere(s.kind, remote) {
		if !s.interactive && s.options.Endpoint == "" {
			return s.elsewhere(remote, "--endpoint https://HOST"+s.kind.apiPath+" and --project "+s.kind.form())
		}
		api = ""
	}
	if api == "" {
		err := s.missing([2]string{
			"--endpoint https://HOST" + s.kind.apiPath + ", because no git remote origin is on " + title,
			s.options.Endpoint,
		})
		if err != nil {
			return err
		}
	}
	return s.setValue(ctx, "Address of "+title+"'s API", "--endpoint", s.options.Endpoint, api, s.setServer)
}

// isElsewhere reports whether an address of git is on a host that is known not to be of a kind.
func isElsewhere(k kind, remote string) bool {
	return k.forge.IsElsewhere(remote) || workflow.HostWithoutTracker(remote) != ""
}

// elsewhere refuses a tracker of another kind than the host of the repository is. flags are what
// names the place of the issues.
func (s *starter) elsewhere(remote, flags string) error {
	const message = "init: the repository %q is not on %s: give %s if the issues are there, or another --tracker"
	return exit.Usage(message, remote, s.kind.forge.Title, flags)
}

// setServer sets the address of the API, such as https://git.example.com/api/v1, also by the
// address of the server's pages.
func (s *starter) setServer(_ context.Context, written string) error {
	path := s.kind.apiPath
	u, err := url.Parse(written)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return exit.Usage("init: %q is not the address of a server: write https://HOST%s", written, path)
	}
	s.answers.Endpoint = strings.TrimSuffix(strings.TrimRight(written, "/"), path) + path
	return nil
}

// findRemote finds the repository on the forge from the git remote origin, unless flags name it.
func (s *starter) findRemote(ctx context.Context) error {
	remote, api, name := s.remoteOnForge(ctx)
	name = s.kind.forge.Below(cmp.Or(s.answers.Endpoint, api), name)
	forge := s.kind.forge.Title
	if s.answers.Endpoint == s.tracker.Endpoint { // the usual one
		s.answers.Endpoint = ""
	}
	because := "no git remote origin is on " + forge
	if s.options.Repository != "" {
		because = "neither --repository nor the git remote origin is on " + forge
	}
	s.options.Repository = cmp.Or(s.options.Repository, remote)
	if name == "" {
		err := s.missing([2]string{"--project " + s.kind.form() + ", because " + because, s.options.Project})
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
		s.setRepositoryName,
	)
}

// remoteOnForge returns the address of the repository on the forge: the address that --repository
// names, or the origin of the clone that it names, or else the git remote origin. If none is on
// the forge, only this origin is returned, without an API and a name.
func (s *starter) remoteOnForge(ctx context.Context) (remote, api, name string) {
	origin := s.origin(ctx, filepath.Dir(s.p.Path))
	remote = workflow.WithoutPassword(cmp.Or(s.options.Repository, origin))
	clone := s.w.Absolute(s.expand(remote))
	if remote != "" && exists(clone) {
		remote = s.origin(ctx, clone)
	}
	api, name = s.kind.forge.At(remote)
	if api == "" { // the issues may be there although the work is delivered elsewhere
		remote = origin
		api, name = s.kind.forge.At(remote)
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

// setRepositoryName sets the repository with the issues, such as octo/shop.
func (s *starter) setRepositoryName(_ context.Context, written string) error {
	parts := strings.Split(written, "/")
	isDeep := len(parts) > 2 && !s.kind.groups
	if len(parts) < 2 || isDeep || slices.Contains(parts, "") || strings.Contains(written, " ") {
		return exit.Usage("init: %q is not the name of a repository: write %s", written, s.kind.form())
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
		if lower := strings.ToLower(name); lower != "open" && lower != "opened" && lower != "closed" && name != "" {
			labels = append([]string{name}, labels...)
		}
	}
	return labels
}

func (s *starter) repositorySummary() (lines []string, more JSON) {
	token := s.keys.where("token", s.key)
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
