package agents_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
	"github.com/symphony-cron/symphony/runner/proc"
)

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// did lists what an agent said that it could do, in lines of yes NAME.
func did(output string) string {
	var list []string
	for line := range strings.Lines(output) {
		if what, ok := strings.CutPrefix(strings.TrimSpace(line), "yes "); ok {
			list = append(list, what)
		}
	}
	return strings.Join(list, " ")
}

// triesInTurn lets agent a run a shell script in the directory of the rig, in a turn, and checks what
// it could do there.
func triesInTurn(t *testing.T, r *rig, model *modeltest.Server, tries, want string) {
	t.Helper()
	test.OK(t, os.WriteFile(filepath.Join(r.dir, "tries"), []byte("cd "+r.dir+"\n"+tries), 0o600))
	r.call("a", turn("t"), script("sh sh "+r.dir+"/tries\nsay tried"))
	r.await("t", reconcile.CallCompleted, "tried")
	requests := model.Requests()
	test.Equal(
		t,
		"what the agent did",
		did(strings.Join(requests[len(requests)-1].Outputs, "\n")),
		want,
	)
}

// newRealRig is newRig with the real codex, whose model is a mock, and the settings of an
// agent a that uses it.
func newRealRig(t *testing.T, environ ...string) (*rig, *modeltest.Server, agents.Settings) {
	t.Helper()
	bin := os.Getenv("SYMPHONY_TEST_CODEX")
	if bin == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	model := modeltest.New()
	t.Cleanup(model.Close)
	r := newRig(t, append(environ, "NO_PROXY=127.0.0.1")...)
	test.OK(t, modeltest.WriteHome(filepath.Join(r.env.Home, ".codex"), model.URL))
	s := r.settings("a")
	s.Program = bin
	return r, model, s
}

// TestRealAgent checks with the real codex what an agent in a repository may do, in turns with
// and without a policy, and that it takes images, added input, and a codex that was killed.
func TestRealAgent(t *testing.T) {
	r, model, s := newRealRig(t, "MY_TOKEN=0123456789abcdef")
	login := filepath.Join(r.env.Home, ".codex", "auth.json")
	test.OK(t, os.WriteFile(login, []byte(`{"OPENAI_API_KEY":"sk-0123456789"}`), 0o600))
	git := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(
			t.Context(),
			"git",
			append([]string{"-C", r.dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v %s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	picture := filepath.Join(r.dir, "picture.png")
	test.OK(t, os.WriteFile(picture, test.Must(base64.StdEncoding.DecodeString(onePixel)), 0o600))

	test.Must(r.Spawn(t.Context(), s))
	r.call("a", reconcile.Call{ID: "c", Verb: reconcile.CallConversation}, runner.ConversationCall{
		Model:            "gpt-5.5",
		BaseInstructions: "Be short.",
		Config:           map[string]any{"model_reasoning_effort": "low"},
		ApprovalPolicy:   []byte(`"never"`),
	})
	r.await("c", reconcile.CallCompleted, `"model":"gpt-5.5"`)

	// tries are the attempts of an agent. It prints yes NAME for each that worked.
	tries := `for f in made .git/config .git/hooks/post-checkout .git/commondir; do (echo "#" >> $f) 2>/dev/null && echo yes $f; done; (echo x > ../beside) 2>/dev/null; ` +
		`git commit -q --allow-empty -m agent 2>/dev/null && echo yes commit; mv .git gone 2>/dev/null && echo yes move; ` +
		`grep -q sk- ` + login + ` 2>/dev/null && echo yes login; test -n "$MY_TOKEN" && echo yes token; true`
	inTurn := func(id, policy, want string) {
		t.Helper()
		p := script("sh " + tries + "\nsay tried")
		p.SandboxPolicy = []byte(policy)
		p.Effort = "low"
		r.call("a", turn(id), p)
		r.await(id, reconcile.CallCompleted, "tried")
		requests := model.Requests()
		test.Equal(
			t,
			"what the agent did with the policy "+policy,
			did(strings.Join(requests[len(requests)-1].Outputs, "\n")),
			want,
		)
	}
	inTurn("t1", "", "made")
	inTurn("t2", `{"type":"readOnly","networkAccess":false}`, "")
	test.Equal(
		t,
		"a file beside the directory of the agent",
		exists(filepath.Join(r.dir, "..", "beside")),
		false,
	)

	r.call("a", turn("images"), runner.TurnCall{Items: []agent.Input{
		{
			Type: "text",
			Text: "```agent\nsay seen\n```",
		}, {
			Type: "image",
			URL:  "data:image/png;base64," + onePixel,
		}, {
			Type: "localImage",
			Path: picture,
		},
	}})
	r.await("images", reconcile.CallCompleted, "seen")
	requests := model.Requests()
	prompts := requests[len(requests)-1].Prompts
	test.Equal(t, "how many images the model got", strings.Count(prompts[len(prompts)-1], "[image]"), 2)

	r.call("a", turn("long"), script("sh until test -e go; do sleep 0.05; done\nsay went"))
	test.Until(t, "command", func() bool { return strings.Contains(r.run("a").Activity, "test -e go") })
	r.call("a", reconcile.Call{
		ID:           "s",
		Verb:         reconcile.CallSteer,
		Conversation: "c",
	}, runner.TurnCall{Items: []agent.Input{{
		Type: "text",
		Text: "and say it twice",
	}}})
	r.await("s", reconcile.CallCompleted, "{}")
	test.OK(t, os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600))
	r.await("long", reconcile.CallCompleted, "turnId")

	// mcpserver refuses a longer input before codex does.
	r.call("a", turn("longest"), runner.TurnCall{Items: []agent.Input{{
		Type: "text",
		Text: strings.Repeat("ä", 1<<20-20) + "\n```agent\nsay x\n```",
	}}})
	r.await("longest", reconcile.CallCompleted, "x")
	r.call("a", turn("too long"), runner.TurnCall{Items: []agent.Input{{
		Type: "text",
		Text: strings.Repeat("ä", 1<<20+1),
	}}})
	r.await("too long", reconcile.CallFailed, "maximum length of 1048576 characters")

	worker := r.run("a").Worker
	for _, p := range test.Must(proc.Descendants(worker.PID)) {
		test.OK(t, syscall.Kill(p.PID, syscall.SIGKILL))
	}
	test.Until(t, "end of codex", func() bool { return len(test.Must(proc.Descendants(worker.PID))) == 0 })
	r.call("a", turn("again"), script("say resumed"))
	r.await("again", reconcile.CallCompleted, "resumed")
}

// TestRealAgentAroundProjects checks with the real codex that an agent in a directory around projects can
// write nothing in theirs, and that a directory that is replaced by a link leads it nowhere.
func TestRealAgentAroundProjects(t *testing.T) {
	r, model, s := newRealRig(t)
	r.project("one", "one/WORKFLOW.md")
	r.project("two", "below/app/WORKFLOW.md")
	r.project("later", "gone/WORKFLOW.md")
	r.project("also later", "gone/deep/WORKFLOW.md")
	test.OK(t, os.RemoveAll(filepath.Join(r.dir, "gone")))
	test.OK(t, os.MkdirAll(filepath.Join(r.dir, "sub", ".git"), 0o700))

	test.Must(r.Spawn(t.Context(), s))
	r.call("a", reconcile.Call{
		ID:   "c",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{ApprovalPolicy: []byte(`"never"`)})
	r.call("a", reconcile.Call{
		ID:   "sub",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{
		ApprovalPolicy: []byte(`"never"`), Cwd: filepath.Join(r.dir, "sub"),
	})
	r.await("c", reconcile.CallCompleted, "threadId")
	r.await("sub", reconcile.CallCompleted, "threadId")
	const tries = `for f in HEAD one/ch/config.toml fine sub/.git/config sub/fine one/WORKFLOW.md one/issues/1.md one/ws/x below/app/tracker below/fine below/app/fine \
		below/app/WORKFLOW.md below/app/built below/app/hook.sh gone/WORKFLOW.md; do
		(echo "#" >> $f) 2>/dev/null && echo yes $f; done
	mv below/app below/a 2>/dev/null && echo yes moved
	mv below b 2>/dev/null && echo yes moved
	mkdir gone 2>/dev/null && echo yes gone; true`
	const fine = " sub/fine below/fine"
	test.OK(t, os.WriteFile(filepath.Join(r.dir, "tries"), []byte("cd "+r.dir+"\n"+tries), 0o600))
	for conversation, also := range map[string]string{"c": " sub/.git/config", "sub": ""} {
		call := reconcile.Call{
			ID:           "turn in " + conversation,
			Verb:         reconcile.CallTurn,
			Conversation: conversation,
		}
		r.call("a", call, script("sh sh "+r.dir+"/tries\nsay tried"))
		r.await(call.ID, reconcile.CallCompleted, "tried")
		requests := model.Requests()
		test.Equal(
			t,
			"what a "+call.ID+" did",
			did(strings.Join(requests[len(requests)-1].Outputs, "\n")),
			"fine"+also+fine,
		)
	}
	left := exists(filepath.Join(r.dir, "gone")) || exists(filepath.Join(r.dir, "HEAD"))
	test.Equal(t, "codex has left something in place of what is missing", left, false)

	// The operator creates the missing project again.
	test.OK(t, os.Mkdir(filepath.Join(r.dir, "gone"), 0o700))
	test.OK(t, os.WriteFile(filepath.Join(r.dir, "gone", "WORKFLOW.md"), []byte("mine"), 0o600))
	r.call(
		"a",
		turn("back"),
		script("sh cd "+r.dir+"; mv gone gone2; mkdir -p gone; echo '#' >> gone/WORKFLOW.md\nsay tried"),
	)
	r.await("back", reconcile.CallCompleted, "tried")
	test.Equal(
		t,
		"the workflow that was put back",
		string(test.Must(os.ReadFile(filepath.Join(r.dir, "gone", "WORKFLOW.md")))),
		"mine",
	)

	// A project is added while the conversation is open.
	r.project("added", "added/WORKFLOW.md")
	was := test.Must(os.ReadFile(filepath.Join(r.dir, "added", "WORKFLOW.md")))
	r.call(
		"a",
		turn("added"),
		script("sh cd "+r.dir+"; echo x > added/fine; echo '#' >> added/WORKFLOW.md\nsay tried"),
	)
	r.await("added", reconcile.CallCompleted, "tried")
	test.Equal(
		t,
		"there is a file beside the workflow that was added",
		exists(filepath.Join(r.dir, "added", "fine")),
		false,
	)
	test.Equal(
		t,
		"the workflow that was added",
		string(test.Must(os.ReadFile(filepath.Join(r.dir, "added", "WORKFLOW.md")))),
		string(was),
	)

	outside := t.TempDir()
	swap := "cd " + r.dir + " && mv sub away && ln -s " + outside + " sub"
	r.call("a", turn("swap"), script("sh "+swap+"\nsay swapped"))
	r.await("swap", reconcile.CallCompleted, "swapped")
	test.Equal(t, "the directory is a link", test.Must(os.Readlink(filepath.Join(r.dir, "sub"))), outside)
	into := `(echo "#" > taken) 2>/dev/null && echo yes; (echo "#" > ` + outside + `/taken) 2>/dev/null && echo yes; true`
	r.call("a", reconcile.Call{
		ID:           "after",
		Verb:         reconcile.CallTurn,
		Conversation: "sub",
	}, script("sh "+into+"\nsay went"))
	r.await("after", reconcile.CallCompleted, "went")
	r.call("a", reconcile.Call{
		ID:   "new",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{Cwd: filepath.Join(r.dir, "sub")})
	r.await("new", reconcile.CallCompleted, "threadId")
	r.call("a", reconcile.Call{
		ID:           "in new",
		Verb:         reconcile.CallTurn,
		Conversation: "new",
	}, script("sh "+into+"\nsay went"))
	r.await("in new", reconcile.CallCompleted, "went")
	test.Equal(t, "what is outside", exists(filepath.Join(outside, "taken")), false)

	test.OK(t, r.Kill(t.Context(), "a"))
	next := r.settings("next")
	next.Cwd = filepath.Join(r.dir, "sub")
	r.refuses(agents.CodeInvalid, "is a symlink, which agent a may have made")(r.Spawn(t.Context(), next))
}

// TestRealAgentAroundRepositories checks with the real codex that an agent can't write what
// git and an engine run in the next pass, wherever the workflow names it from.
func TestRealAgentAroundRepositories(t *testing.T) {
	r, model, s := newRealRig(t)
	r.git("", "init", "-q", "--bare", "bare.git")
	r.git("", "init", "-q", "main")
	r.git("main", "commit", "-q", "--allow-empty", "-m", "first")
	r.git("main", "worktree", "add", "-q", "../tree")
	test.OK(t, os.Mkdir(filepath.Join(r.dir, "engine"), 0o700))
	test.OK(t, os.WriteFile(filepath.Join(r.dir, "engine", "start.sh"), nil, 0o600))
	const engine = "worker: {engine: {kind: command, start: sh DIR/engine/start.sh, connect: x, status: x, stop: x}}"
	for name, config := range map[string]string{
		"a": "repository: {url: 'file://DIR/bare.git'}",
		"b": "repository: {url: DIR/tree}",
		"c": engine,
	} {
		r.project(name, name+"/WORKFLOW.md")
		config = strings.ReplaceAll(
			"---\ntracker: {kind: linear, project_slug: x-0123456789ab}\n"+config+"\n---\nWork.\n",
			"DIR",
			r.dir,
		)
		test.OK(t, os.WriteFile(filepath.Join(r.dir, name, "WORKFLOW.md"), []byte(config), 0o600))
	}
	test.Must(r.Spawn(t.Context(), s))
	r.call("a", reconcile.Call{
		ID:   "c",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{ApprovalPolicy: []byte(`"never"`)})
	r.await("c", reconcile.CallCompleted, "threadId")
	const tries = `for f in bare.git/config bare.git/hooks/update main/.git/config main/.git/hooks/update tree/.git engine/start.sh main/fine tree/fine; do
		(echo "#" >> $f) 2>/dev/null && echo yes $f; done
	for f in bare.git main/.git main tree engine; do mv $f gone 2>/dev/null && echo yes moved $f; done; true`
	triesInTurn(t, r, model, tries, "main/fine tree/fine")
}

// TestRealAgentBesideProjects checks with the real codex that an agent in a directory without
// a project makes none there, and can't write the programs and settings of the account that
// are in its directory.
func TestRealAgentBesideProjects(t *testing.T) {
	r, model, s := newRealRig(t)
	settings := filepath.Join(r.env.Home, ".config")
	for _, dir := range []string{filepath.Join(r.dir, "bin"), filepath.Join(r.dir, "fish"), settings} {
		test.OK(t, os.MkdirAll(dir, 0o700))
	}
	test.OK(t, os.Symlink(filepath.Join(r.dir, "fish"), filepath.Join(settings, "fish")))
	test.OK(t, os.Symlink("/", filepath.Join(r.env.Home, ".root"))) // it forbids nothing
	for i, entry := range r.env.Environ {
		if value, is := strings.CutPrefix(entry, "PATH="); is {
			r.env.Environ[i] = "PATH=" + filepath.Join(r.dir, "bin") + ":" + value
		}
	}
	test.OK(t, r.Close())
	r.reopen()
	test.Must(r.Spawn(t.Context(), s))
	r.converse("a")
	const tries = `for f in WORKFLOW.md bin/git fish/config.fish fine; do (echo "#" >> $f) 2>/dev/null && echo yes $f; done
	for f in bin fish; do mv $f gone 2>/dev/null && echo yes moved $f; done; true`
	triesInTurn(t, r, model, tries, "fine")
	test.Equal(t, "codex has left a workflow", exists(filepath.Join(r.dir, "WORKFLOW.md")), false)
}

// In a worktree an agent of the real codex can commit, and write neither the operator's
// repository nor the mirror.
func TestRealAgentInAWorktree(t *testing.T) {
	r, model, s := newRealRig(t)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"commit", "-q", "--allow-empty", "-m", "first"}} {
		c := exec.CommandContext(
			t.Context(),
			"git",
			append([]string{"-C", r.dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		c.Env = r.env.Environ
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v %s", args, err, out)
		}
	}
	r.env.Environ = append(
		r.env.Environ,
		"GIT_COMMITTER_NAME=A",
		"GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_NAME=A",
		"GIT_AUTHOR_EMAIL=a@example.com",
	)
	s.Worktree = &agents.Worktree{}
	one := test.Must(r.Spawn(t.Context(), s))
	r.call("a", reconcile.Call{
		ID:   "c",
		Verb: reconcile.CallConversation,
	}, runner.ConversationCall{ApprovalPolicy: []byte(`"never"`)})
	r.await("c", reconcile.CallCompleted, "threadId")
	mirrors := filepath.Join(filepath.Dir(one.WorkspacePath), ".symphony", "mirrors")
	tries := "for f in made " + r.dir + "/made " + r.dir + "/.git/made " + mirrors + "/made ../made; do " +
		"(echo x > $f) 2>/dev/null && echo yes $f; done; " +
		"git add made && git commit -q -m agent && echo yes commit; true"
	r.call("a", turn("t"), script("sh "+tries+"\nsay tried"))
	r.await("t", reconcile.CallCompleted, "tried")
	requests := model.Requests()
	test.Equal(
		t,
		"what the agent did",
		did(strings.Join(requests[len(requests)-1].Outputs, "\n")),
		"made commit",
	)
	test.OK(t, r.Kill(t.Context(), "a"))
	test.Equal(t, "the unsaved worktree is kept", test.Must(r.Find(t.Context(), "a")).HasWorktree(), true)
}
