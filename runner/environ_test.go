package runner

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host"
)

// A secret of symphony reaches hooks but not the agent's program, whether the worker has it or
// the profile sets it again.
func TestOwnSecretsAreWithheld(t *testing.T) {
	for _, profile := range []string{"", "export SYMPHONY_WEB_PASSWORD=of-the-profile\n"} {
		r := newRig(t, "say hm")
		r.Here.Env = append(r.Here.Env, "SYMPHONY_WEB_PASSWORD=as-it-was", "OPENAI_API_KEY=of-the-model")
		r.profile(profile)
		r.Here.Config.Hooks.BeforeRun = "env > hook.txt"
		r.Here.Config.Command = "env > agent.txt; " + r.Here.Config.Command
		r.ends(reconcile.EndedRun, "")
		test.Contains(
			t,
			"the environment of the hook",
			test.Read(t, r.space("hook.txt")),
			"SYMPHONY_WEB_PASSWORD=",
		)
		agent := test.Read(t, r.space("agent.txt"))
		if strings.Contains(agent, "SYMPHONY_WEB_PASSWORD") ||
			!strings.Contains(agent, "OPENAI_API_KEY=of-the-model\n") {
			t.Errorf("with the profile %q the agent has\n%s", profile, agent)
		}
	}
}

// The usual variable of a forge reaches hooks, but not the agent's program, which would give it to
// its commands: GITLAB_PAT has none of the words by which it knows secrets.
func TestHiddenVariablesAreWithheld(t *testing.T) {
	r := newRig(t, "say hm")
	r.Here.Env = append(r.Here.Env, "GITLAB_PAT=as-it-was")
	r.Here.Config.Hidden = []string{"GITLAB_PAT"}
	r.profile("export GITLAB_PAT=of-the-profile\n")
	r.Here.Config.Hooks.BeforeRun = "env > hook.txt"
	r.Here.Config.Command = "env > agent.txt; " + r.Here.Config.Command
	r.ends(reconcile.EndedRun, "")
	test.Contains(t, "the environment of the hook", test.Read(t, r.space("hook.txt")), "GITLAB_PAT=")
	test.Lacks(t, "the environment of the agent", test.Read(t, r.space("agent.txt")), "GITLAB_PAT")
}

// An agent has the mark by which processes are found that are left of a run, and the variables
// of agent.env.
func TestMarkOfAgent(t *testing.T) {
	r := newRig(t, "say hm")
	r.Here.Config.AgentEnv = []string{"OF_THE_WORKFLOW=1"}
	r.Here.Config.Command = "env > agent.txt; " + r.Here.Config.Command
	run := r.ends(reconcile.EndedRun, "")
	test.Contains(t, "the environment of the agent", test.Read(t, r.space("agent.txt")),
		host.RunMark+"="+run.ID+"\n", "OF_THE_WORKFLOW=1\n")
}

// A secret that only the login profile exports is redacted in the hook's log and error.
func TestHookPrintsSecretOfProfile(t *testing.T) {
	for name, profile := range map[string]string{
		"plain": "export OF_PROFILE_TOKEN=value-of-the-profile\n",
		"a process is left behind": "export OF_PROFILE_TOKEN=value-of-the-profile; sleep 300 " +
			">/dev/null 2>&1 &\nexport OF_PROFILE_TOKEN=value-of-the-profile\n",
		"several lines": "export OF_PROFILE_TOKEN='value-of-the-profile\nwhich-is-long-enough'\n",
		"more than fits into the pipe": "export OF_PROFILE_TOKEN=value-of-the-profile A=$(head -c " +
			"100000 /dev/zero | tr '\\0' x)\n",
		"the PATH is broken": "env() { echo not that one; }; PATH=/nowhere; export " +
			"OF_PROFILE_TOKEN=value-of-the-profile\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "say hm")
			r.profile(profile)
			r.Here.Config.Hooks.BeforeRun = "echo begun; (echo open >&4) 2>/dev/null\necho it has " +
				"$OF_PROFILE_TOKEN >&2; exit 3"
			run := r.ends(reconcile.Failed, "hook_failed")
			said := test.Read(t, filepath.Join(r.Dir, HooksFile))
			test.Lacks(t, "output, error and log", said+run.ErrorText+r.log.String(), "value-of-the-profile")
			test.Contains(t, "output of the hook", said, "begun\n", "\nit has "+agent.Redacted)
			test.Lacks(t, "output of the hook", said, "open\n")
		})
	}
}

// The agent gets a tool's answer without the tracker's key, but otherwise unchanged: an issue
// may be about tokens.
func TestToolAnswerIsNotRedacted(t *testing.T) {
	r := newRig(t, "")
	r.Tracker.Tools = changing(func(string) reconcile.ToolAnswer {
		return reconcile.ToolAnswer{
			Text:    "send Bearer tokens, ghp_0123456789 or " + testKey,
			Success: true,
		}
	})
	a := r.newJob(r.run, func(error) {}).turns.agent
	got := a.options(&agentProcess{}, nil).CallTool(t.Context(), "linear_graphql", nil)
	test.Equal(
		t,
		"text and success",
		[]any{got.Text, got.Success},
		[]any{"send Bearer tokens, ghp_0123456789 or [redacted]", true},
	)
}

// namedSession records the name of the thread that is started.
type namedSession struct {
	agent.Session
	name *string
}

func (s namedSession) StartThread(ctx context.Context, p agent.ThreadParams) (string, error) {
	*s.name = p.Name
	return s.Session.StartThread(ctx, p)
}

// If an issue's title contains the tracker's key, neither hooks nor the name of the thread
// show it.
func TestKeyInTitle(t *testing.T) {
	r := newRig(
		t,
		"say hm",
		with(func(i *reconcile.Issue) { i.Title = "rotate " + testKey }),
		in("Human Review"),
	)
	r.run.Issue.Title = "rotate " + testKey
	r.Here.Config.Hooks.BeforeRun = `printf %s "$SYMPHONY_ISSUE_TITLE" >title`
	var name string
	r.Here.Config.Agent.Start = func(s agent.Streams, o agent.Options) agent.Session {
		return namedSession{codex.New(s, o), &name}
	}
	// not ends: the row has the issue as the tracker gave it
	test.Must(r.Run(t.Context(), r.run, r.terminate))
	const want = "rotate " + agent.Redacted
	test.Equal(
		t,
		"title of the hook and name of the thread",
		[]any{test.Read(t, r.space("title")), name},
		[]any{want, "ABC-1: " + want},
	)
}

// A run whose kind of agent this program does not have is refused before anything is started.
func TestUnknownKindOfAgent(t *testing.T) {
	r := newRig(t, "say hm", with(func(*reconcile.Issue) {}))
	r.Here.Config.Agent = agent.Kind{Name: "other"}
	run := test.Must(r.Run(t.Context(), r.run, r.terminate))
	test.Equal(t, "error", run.ErrorCode, string(agent.CodeIncompatible))
}
