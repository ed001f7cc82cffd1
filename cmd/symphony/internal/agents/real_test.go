package agents_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// TestRealAgent checks with the real codex what an agent in a repository may do, in turns with and without a policy and in one-off
// commands, and that it takes images, added input, and a codex that was killed.
func TestRealAgent(t *testing.T) {
	bin := os.Getenv("SYMPHONY_TEST_CODEX")
	if bin == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	model := modeltest.New()
	defer model.Close()
	r := newRig(t, "NO_PROXY=127.0.0.1", "MY_TOKEN=0123456789abcdef")
	codexHome := filepath.Join(r.env.Home, ".codex")
	test.OK(t, modeltest.WriteHome(codexHome, model.URL))
	login := filepath.Join(codexHome, "auth.json")
	test.OK(t, os.WriteFile(login, []byte(`{"OPENAI_API_KEY":"sk-0123456789"}`), 0o600))
	git := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", append([]string{"-C", r.dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v %s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	picture := filepath.Join(r.dir, "picture.png")
	test.OK(t, os.WriteFile(picture, test.Must(base64.StdEncoding.DecodeString(onePixel)), 0o600))

	s := r.settings("a")
	s.Codex = bin
	test.Must(r.Spawn(t.Context(), s))
	r.call("a", reconcile.Call{ID: "c", Verb: reconcile.CallConversation}, runner.ConversationCall{
		Model: "gpt-5.5", BaseInstructions: "Be short.", Config: map[string]any{"model_reasoning_effort": "low"}, ApprovalPolicy: []byte(`"never"`),
	})
	r.await("c", reconcile.CallCompleted, `"model":"gpt-5.5"`)

	// tries are the attempts of an agent. It says yes NAME for each that worked.
	tries := `for f in made .git/config .git/hooks/post-checkout .git/commondir; do (echo "#" >> $f) 2>/dev/null && echo yes $f; done; (echo x > ../beside) 2>/dev/null; ` +
		`git commit -q --allow-empty -m agent 2>/dev/null && echo yes commit; mv .git gone 2>/dev/null && echo yes move; ` +
		`grep -q sk- ` + login + ` 2>/dev/null && echo yes login; test -n "$MY_TOKEN" && echo yes token; true`
	did := func(output string) string {
		var list []string
		for line := range strings.Lines(output) {
			if what, ok := strings.CutPrefix(strings.TrimSpace(line), "yes "); ok {
				list = append(list, what)
			}
		}
		return strings.Join(list, " ")
	}
	inTurn := func(id, policy, want string) {
		t.Helper()
		p := script("sh " + tries + "\nsay tried")
		p.SandboxPolicy, p.Effort = []byte(policy), "low"
		r.call("a", turn(id), p)
		r.await(id, reconcile.CallCompleted, "tried")
		requests := model.Requests()
		test.Equal(t, "what the agent did with the policy "+policy, did(strings.Join(requests[len(requests)-1].Outputs, "\n")), want)
	}
	inTurn("t1", "", "made")
	inTurn("t2", `{"type":"readOnly","networkAccess":false}`, "")
	r.call("a", reconcile.Call{ID: "e", Verb: reconcile.CallExec}, runner.ExecCall{Command: []string{"sh", "-c", tries}})
	// A policy can't deny files: only a turn has a profile.
	if out := strings.ReplaceAll(string(r.await("e", reconcile.CallCompleted, `"exitCode":0`).Result), `\n`, "\n"); !strings.Contains(out, "yes made") ||
		strings.Contains(out, "yes .git") || strings.Contains(out, "yes commit") || strings.Contains(out, "yes token") || strings.Contains(out, "yes move") {
		t.Errorf("the one-off command printed %s", out)
	}

	test.Equal(t, "a file beside the directory of the agent", exists(filepath.Join(r.dir, "..", "beside")), false)

	r.call("a", turn("images"), runner.TurnCall{Items: []agent.Input{
		{Type: "text", Text: "```agent\nsay seen\n```"}, {Type: "image", URL: "data:image/png;base64," + onePixel}, {Type: "localImage", Path: picture},
	}})
	r.await("images", reconcile.CallCompleted, "seen")
	requests := model.Requests()
	prompts := requests[len(requests)-1].Prompts
	test.Equal(t, "how many images the model got", strings.Count(prompts[len(prompts)-1], "[image]"), 2)

	r.call("a", turn("long"), script("sh until test -e go; do sleep 0.05; done\nsay went"))
	test.Until(t, "command", func() bool { return strings.Contains(r.run("a").Activity, "test -e go") })
	r.call("a", reconcile.Call{ID: "s", Verb: reconcile.CallSteer, Conversation: "c"}, runner.TurnCall{Items: []agent.Input{{Type: "text", Text: "and say it twice"}}})
	r.await("s", reconcile.CallCompleted, "{}")
	test.OK(t, os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600))
	r.await("long", reconcile.CallCompleted, "turnId")

	r.call("a", reconcile.Call{ID: "d", Verb: reconcile.CallDiff}, struct{}{})
	r.await("d", reconcile.CallFailed, "response_error: gitDiffToRemote: ") // there is no remote
	r.call("a", reconcile.Call{ID: "l", Verb: reconcile.CallLogin}, struct{}{})
	r.await("l", reconcile.CallCompleted, "0.169.0")

	worker := r.run("a").Worker
	for _, p := range test.Must(proc.Descendants(worker.PID)) {
		test.OK(t, syscall.Kill(p.PID, syscall.SIGKILL))
	}
	test.Until(t, "end of codex", func() bool { return len(test.Must(proc.Descendants(worker.PID))) == 0 })
	r.call("a", turn("again"), script("say resumed"))
	r.await("again", reconcile.CallCompleted, "resumed")
}
