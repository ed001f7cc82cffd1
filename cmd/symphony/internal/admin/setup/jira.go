package setup

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

var jiraKind = kind{
	name:  "jira",
	check: (*starter).checkJira,
	suits: func(s *starter, _ context.Context) bool {
		token, _ := s.p.Lookup(workflow.JiraTokenVar)
		return token != ""
	},
	find: []func(*starter, context.Context) error{
		(*starter).findSite,
		(*starter).findEmail,
		(*starter).findKey,
		(*starter).findCloud,
		(*starter).findProject,
		(*starter).findStates,
	},
	write:   (*starter).writeKey,
	summary: (*starter).jiraSummary,
}

func (s *starter) checkJira() error {
	if err := s.checkKeyFile(); err != nil {
		return err
	}
	return s.missing(
		[2]string{"--endpoint https://NAME.atlassian.net", s.knownSite()},
		[2]string{"--email or the variable " + workflow.JiraEmailVar, s.knownEmail()},
		[2]string{"--project", s.options.Project},
		[2]string{"--repository", s.options.Repository},
	)
}

// knownSite is the address of the site, as a flag, the environment or the address of the project
// has it; empty if none has.
func (s *starter) knownSite() string {
	known, _ := s.p.Lookup(workflow.JiraSiteVar)
	site := cmp.Or(s.options.Endpoint, known)
	u, err := url.Parse(s.options.Project)
	if site == "" && err == nil && u.Scheme == "https" && u.Host != "" {
		site = "https://" + u.Host
	}
	return site
}

func (s *starter) knownEmail() string {
	known, _ := s.p.Lookup(workflow.JiraEmailVar)
	return strings.TrimSpace(cmp.Or(s.options.Email, known))
}

// findSite finds the address of the site.
func (s *starter) findSite(ctx context.Context) error {
	return s.setValue(ctx, "Address of the site, such as https://NAME.atlassian.net", "--endpoint",
		s.knownSite(), "", s.setSite)
}

// setSite sets the address of the site, also by the address of a page there.
func (s *starter) setSite(_ context.Context, written string) error {
	address := written
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return exit.Usage("init: %q is not the address of a site: write https://NAME.atlassian.net", written)
	}
	if !strings.ContainsAny(u.Host, ".:") && u.Host != "localhost" {
		return exit.Usage("init: %q is not the address of a site: write https://%s.atlassian.net", written, u.Host)
	}
	s.answers.Endpoint = u.Scheme + "://" + u.Host
	return nil
}

// findEmail finds the account to which the token belongs.
func (s *starter) findEmail(ctx context.Context) error {
	return s.setValue(ctx, "Email of the account that has the token", "--email", s.knownEmail(), "", s.setEmail)
}

func (s *starter) setEmail(_ context.Context, written string) error {
	name, host, _ := strings.Cut(written, "@")
	if name == "" || host == "" || strings.ContainsAny(written, " \t:") {
		return exit.Usage("init: %q is not an email", written)
	}
	s.answers.Email = written
	var err error
	s.tracker, err = wiring.TrackerSetup(s.kind.name, written)
	return err
}

// findCloud notes the id of the site, if the token works only with it.
func (s *starter) findCloud(context.Context) error {
	s.answers.CloudID = s.account.CloudID
	return nil
}

func (s *starter) jiraSummary() (lines []string, more JSON) {
	lines = []string{
		"wrote " + s.p.Path + ", for the project " + s.project.Name,
		s.keys.where("token", s.key),
		"",
		s.labelTask(s.tracker.Name),
	}
	return lines, JSON{
		EnvironmentFile: s.keys.path(s.key),
		ProjectSlug:     s.project.Slug,
		LabelExists:     &s.project.HasLabel,
	}
}
