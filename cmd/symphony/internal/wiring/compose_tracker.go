package wiring

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/tracker/command"
	"github.com/symphony-cron/symphony/tracker/file"
	"github.com/symphony-cron/symphony/tracker/gitea"
	"github.com/symphony-cron/symphony/tracker/github"
	"github.com/symphony-cron/symphony/tracker/gitlab"
	"github.com/symphony-cron/symphony/tracker/jira"
)

// TrackerOptions describe how an adapter is used.
type TrackerOptions struct {
	Memory reconcile.TrackerMemory // nil: the adapter remembers nothing after its process
	// Warn receives a message about each part of an answer that the adapter ignores; nil
	// discards them.
	Warn func(string)
	// IgnoreProxy is for a check on behalf of a schedule, which does not have the proxy of
	// this process's environment.
	IgnoreProxy bool
}

// NewTracker builds the adapter of a configuration.
func NewTracker(p *Project, cfg *workflow.Config, o TrackerOptions) (*reconcile.TrackerAdapter, error) {
	t, err := newAdapter(p, cfg, o)
	if err != nil {
		return nil, err
	}
	t.Tracker = transport.RetryReads(t.Tracker)
	return t, nil
}

func newAdapter(p *Project, cfg *workflow.Config, o TrackerOptions) (*reconcile.TrackerAdapter, error) {
	t := cfg.Tracker
	readOnly := cfg.Tracker.ToolScope == "read"
	connection := transport.Options{
		Endpoint:    t.Endpoint,
		Key:         t.APIKey.Reveal(),
		KeySource:   p.keySourceOf(cfg),
		CAFile:      t.CAFile,
		IgnoreProxy: o.IgnoreProxy,
		Now:         p.Env.Now,
		Warn:        o.Warn,
	}
	switch t.Kind {
	case "command":
		return command.Adapter(commandOptions(p, cfg))
	case "file":
		return file.Adapter(file.Options{
			Path:     t.Folder,
			Active:   cfg.Policy.ActiveStates,
			Terminal: cfg.Policy.TerminalStates,
			Others:   t.OtherStates,
			Handoff:  cfg.Handoff.States(),
			Assignee: cfg.Policy.Assignee,
			ReadOnly: readOnly,
			Now:      p.Env.Now,
			Warn:     o.Warn,
		})
	case "github":
		g := t.Repositories
		options := github.Options{
			Options:        connection,
			Repositories:   g.Names,
			StateLabels:    g.StateLabels,
			PriorityLabels: g.PriorityLabels,
			Assignee:       cfg.Policy.Assignee,
			Project:        g.Project,
			ReadOnly:       readOnly,
			Memory:         o.Memory,
		}
		if cfg.Repository.URL != "" {
			options.Branch = func(issue reconcile.Issue) string {
				// without a branch there is no pull request
				branch, _ := cfg.Repository.Render(issue, 0)
				return branch
			}
		}
		return github.Adapter(options)
	case "gitea":
		return gitea.Adapter(gitea.Options{
			Options:        connection,
			Repositories:   t.Repositories.Names,
			StateLabels:    t.Repositories.StateLabels,
			PriorityLabels: t.Repositories.PriorityLabels,
			Assignee:       cfg.Policy.Assignee,
			ReadOnly:       readOnly,
			Memory:         o.Memory,
		})
	case "gitlab":
		return gitlab.Adapter(gitlab.Options{
			Options:        connection,
			Projects:       t.Repositories.Names,
			StateLabels:    t.Repositories.StateLabels,
			PriorityLabels: t.Repositories.PriorityLabels,
			Assignee:       cfg.Policy.Assignee,
			ReadOnly:       readOnly,
			Memory:         o.Memory,
		})
	case "jira":
		connection.User = t.Jira.Email
		return jira.Adapter(jira.Options{
			Options:    connection,
			CloudID:    t.Jira.CloudID,
			Project:    t.Jira.Project,
			JQL:        t.Jira.JQL,
			Priorities: t.Jira.Priorities,
			ReadOnly:   readOnly,
		})
	case "linear":
		return linear.Adapter(linear.Options{
			Options:            connection,
			ProjectSlug:        t.ProjectSlug,
			Team:               t.Team,
			ReadOnly:           readOnly,
			Specified:          cfg.OnlySpecified(),
			Assignee:           cfg.Policy.Assignee != "" || strings.Contains(p.Source.Body, "assignee"),
			ProjectDescription: workflow.NamesProjectDescription(p.Source.Body),
		})
	}
	return nil, reconcile.NewError(
		workflow.CodeTrackerKind,
		fmt.Sprintf("no adapter for tracker.kind %q", t.Kind),
		"correct tracker.kind",
	)
}

// commandOptions are the options for a tracker that is a program. It is started beside
// WORKFLOW.md, with the environment of hooks and the tracker's key, which hooks do not get.
func commandOptions(p *Project, cfg *workflow.Config) command.Options {
	t := cfg.Tracker
	key := cfg.Tracker.APIKey.Reveal()
	env := p.Environ()
	if key != "" {
		env = append(env, command.KeyVar+"="+key)
	}
	return command.Options{
		Command:  t.Command,
		Verbs:    t.Verbs,
		Key:      key,
		ReadOnly: t.ToolScope == "read",
		Now:      p.Env.Now,
		States:   slices.Concat(cfg.Policy.ActiveStates, cfg.Policy.TerminalStates),
		Redact: func(text string) string {
			return agent.NewRedactor(append(agent.EnvSecrets(env), key)).Text(text)
		},
		Run: func(ctx context.Context, argv []string, stdin []byte, limit int) (command.Output, error) {
			out, err := tree.Run(ctx, host.StartRequest{
				Argv: argv,
				Dir:  filepath.Dir(p.Path),
				Env:  env,
			}, stdin, limit)
			if errors.Is(err, tree.ErrNotInPath) {
				err = fmt.Errorf("%w: %w", command.ErrNoProgram, err)
			}
			return command.Output{
				Stdout: out.Stdout,
				Stderr: out.Stderr,
				Exit:   out.Exit.Code,
				Status: out.Exit.Text,
			}, err
		},
	}
}

// TrackerSetup returns the setup by which init connects a project to a kind of tracker with a
// key. It refuses other kinds. The key belongs to user, for a tracker that asks for both.
func TrackerSetup(kind, user string) (reconcile.TrackerSetup, error) {
	switch kind {
	case "github":
		return github.Setup(), nil
	case "gitea":
		return gitea.Setup(), nil
	case "gitlab":
		return gitlab.Setup(), nil
	case "jira":
		return jira.Setup(user), nil
	case "linear":
		return linear.Setup(), nil
	}
	return reconcile.TrackerSetup{}, reconcile.NewError(
		workflow.CodeTrackerKind,
		fmt.Sprintf("init can't connect to tracker.kind %q", kind),
		"write WORKFLOW.md yourself, see docs/trackers.md",
	)
}

// FolderStates returns the states that a folder of issues defines, in their order; none if an
// issue there can have any state.
func FolderStates(dir string) []reconcile.TrackerState { return file.States(dir) }

// WrittenStates returns the states of the issues in a folder, as their files write them.
func WrittenStates(dir string) []string { return file.WrittenStates(dir) }

// WarnForIssue is WarnOn for a command about one issue. It does not report mistakes in the files of
// a folder, which are about other issues: passes, issues and check do.
func WarnForIssue(w *environ.Env, cfg *workflow.Config) func(string) {
	if cfg.Tracker.Folder != "" {
		return func(string) {}
	}
	return WarnOn(w)
}

// WarnOn reports warnings to the operator, each once.
func WarnOn(w *environ.Env) func(string) {
	var printed sync.Map
	return func(text string) {
		if _, again := printed.LoadOrStore(text, true); !again {
			w.Warn(text)
		}
	}
}
