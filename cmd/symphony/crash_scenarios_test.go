//go:build linux

package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/team"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// crashScenario is a short life of the issue ABC-1. Its play must succeed wherever a process
// dies; then passes run until nothing is left to do.
type crashScenario struct {
	name  string
	issue string // what the agent does
	play  func(c *crashScene)
	// ends is the final state of the issue, which is then unclaimed; keeps is true if the
	// workspace is kept.
	ends      string
	keeps     bool
	exits     []int // allowed exit codes of commands besides 0
	deaths    int   // workers that the play itself kills
	recounted bool  // the play resets attempts
	// reports whether the system has what the scenario needs; nil for every system
	needs     func() bool
	stands    bool     // the process stops instead of dying
	late      bool     // workers may die only after arm
	accepted  bool     // the remote refuses no push
	handsOver int      // how often more than once, besides the answers to its pull request
	pushed    []string // the commits that a person pushes to the branch, the newest first
	inherited []string // the commits of another machine that the agent goes on from
	claims    string   // what repository.claims adds to the repository of the workflow, such as ", claims: true"
	// again lists prefixes of ROLE:NAME: with SYMPHONY_TEST=each points to die at in this
	// scenario although an earlier one reaches them, too.
	again []string
}

const (
	// saved is what makes all files of a workspace count as saved: git ignores them.
	saved    = "sh git init -q . && echo '*' > .git/info/exclude\n"
	handOver = "sh echo work > work.txt\n{move Human Review}"
	finish   = saved + "sh mkdir -p deep/er && touch deep/er/file && chmod 500 deep/er .\n{gate go}\n{move Done}"
	waits    = "sh touch work.txt\n{gate go}\n{move Human Review}"
	// commits makes one commit, even if an earlier run was killed while it did.
	commits = "sh find .git -name '*.lock' -delete; echo work > work.txt; git add . && git diff " +
		"--cached --quiet || git commit -qm 'work on it'\n"
	// remarks creates an object in the tracker, which is recorded.
	remarks = `tool linear_graphql {"query":"mutation { commentCreate(input: {issueId: \"ABC-1\", body: \"Begun.\"}) { success } }"}` + "\n"
)

var crashScenarios = []crashScenario{
	{
		// The first pass, hooks, an agent that comments and hands the issue over,
		// another issue that waits for it.
		name: "handover", issue: remarks + handOver, ends: "Human Review", keeps: true,
		play: func(c *crashScene) {
			c.arm()
			test.Must(c.linear.AddIssue(lineartest.Issue{
				Identifier: "ABC-2",
				Title:      "Later",
				State:      "Todo",
				BlockedBy:  []string{"ABC-1"},
			}))
		},
	},
	{
		// The agent finishes the issue, and its workspace is removed, with a directory that
		// needs a chmod first.
		name: "removed", issue: finish, ends: "Done", late: true,
		again: []string{
			"worker:state.Finish.",
			"worker:workspace.hook.started",
			"worker:durable.",
			"pass:state.Commit.",
		},
		play: func(c *crashScene) { c.finished() },
	},
	{
		// The issue is reopened while its workspace is being removed: the next run works in a
		// new one, or in the old one while that is complete.
		name:      "reopened",
		issue:     finish,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		late:      true,
		again: []string{
			"worker:workspace.remove.",
			"worker:workspace.tree.opened",
			"worker:workspace.trash.renamed",
			"worker:workspace.hook.started",
		},
		play: func(c *crashScene) {
			c.finished()
			c.passes("the removal begins", func() bool {
				return c.died() ||
					c.number(`SELECT count(*) FROM runs WHERE kind = 'cleanup' AND phase <> 'starting'`) > 0
			})
			if strings.HasPrefix(c.point, "worker:") {
				c.waitFor(
					"the removal ends or dies",
					func() bool { return c.died() || !c.exists("ws", ".symphony", "ABC-1.json") },
					nil,
				)
			}
			c.instruct(handOver)
			c.move("Todo")
		},
	},
	{
		// The issue is finished in the tracker while its agent is at work.
		name:  "stopped",
		issue: "sh sleep 30",
		ends:  "Done",
		again: []string{"pass:state.Commit.", "worker:state.Finish."},
		play: func(c *crashScene) {
			c.atWork()
			c.move("Done")
		},
	},
	{
		name: "operator", issue: waits, ends: "Human Review", keeps: true, recounted: true,
		again: []string{"pass:state.Commit.", "pass:state.RequestStop."},
		play: func(c *crashScene) {
			c.atWork()
			c.order("stop", "ABC-1")
			c.passes("held", func() bool { return c.claim() == "held operator" && c.unsettled() == 0 })
			c.order("stop", "--after-run", "ABC-1")
			c.order("retry", "--fresh", "ABC-1")
			c.write("go", "", 0o600)
		},
	},
	{
		name:      "told",
		issue:     "ask-command touch asked\n" + handOver,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		again: []string{
			"pass:state.Commit.",
			"worker:state.TakeAttention.",
			"worker:state.DoneAttention.",
			"worker:runner.attention.",
		},
		play: toldPlay,
	},
	{
		// The operator tells the agent something, which it gets whatever dies.
		name: "message", issue: waits, ends: "Human Review", keeps: true,
		play: func(c *crashScene) {
			c.atWork()
			c.symphony("tell", "ABC-1", "Use red.")
			if c.number(`SELECT count(*) FROM calls`) == 0 {
				c.symphony("tell", "ABC-1", "Use red.")
			}
			c.passes(
				"received",
				func() bool { return c.number(`SELECT count(*) FROM calls WHERE status = 'completed'`) == 1 },
			)
			c.write("go", "", 0o600)
		},
	},
	{
		// A worker dies and leaves a process that ignores SIGTERM.
		name:   "leftovers",
		issue:  "attempt 0:\nbackground trap '' TERM; sleep 31; sleep 32\nsleep 30s\nattempt 1+:\n" + handOver,
		ends:   "Human Review",
		keeps:  true,
		deaths: 1,
		again:  []string{"pass:state.Commit.after", "pass:state.EndDead."},
		play: func(c *crashScene) {
			c.atWork()
			c.kill(syscall.SIGKILL)
		},
	},
	{
		// A worker is stopped by SIGSTOP.
		name:   "frozen",
		issue:  "attempt 0:\nsleep 30s\nattempt 1+:\n" + handOver,
		ends:   "Human Review",
		keeps:  true,
		deaths: 1,
		again:  []string{"pass:state.EndDead."},
		play: func(c *crashScene) {
			c.atWork()
			if c.stopWorker() {
				c.frozen()
			}
		},
	},
	{
		// An agent ignores the end of its input and SIGTERM.
		name:  "deaf",
		issue: "deaf\nbackground sleep 33\n" + handOver,
		ends:  "Human Review",
		keeps: true,
		play:  func(c *crashScene) { c.arm() },
	},
	{
		// Old runs are pruned with their directories, and so are directories without a run.
		name: "pruned", issue: handOver, ends: "Human Review", keeps: true,
		play: func(c *crashScene) {
			c.handedOver()
			c.aged()
			c.arm()
			c.passes(
				"pruned",
				func() bool { return c.number(`SELECT count(*) FROM runs WHERE id LIKE 'old-%'`) == 20 },
			)
			// A pass that died between the rows and the directories leaves orphans, which
			// prune removes.
			c.ageDirs()
			c.alone()
			out := c.symphony("prune", "--yes") // it may be what dies
			out += c.symphony("prune", "--yes")
			dirs := c.glob("state", "runs", "old-*")
			if len(dirs) != 0 || c.exists("state", "runs", "never") ||
				c.number(`SELECT count(*) FROM runs WHERE id LIKE 'old-%'`) != 0 {
				c.t.Errorf("runs of an issue that the tracker does not have are left: %q\n%s", dirs, out)
			}
		},
	},
	{
		// The agent asks a question, which is answered; a later run may have to ask again.
		name:  "asked",
		issue: "ask-user Which way?\n" + handOver,
		ends:  "Human Review",
		keeps: true,
		exits: []int{1},
		play: func(c *crashScene) {
			c.arm()
			c.passes("handed over", func() bool { c.answer(); return c.state() == c.ends })
		},
	},
	{
		// The answer comes after the death of the worker: the next run receives it.
		name:   "answered late",
		issue:  "attempt 0:\nask-user Which way?\nattempt 1+:\n" + handOver,
		ends:   "Human Review",
		keeps:  true,
		deaths: 1,
		exits:  []int{1},
		play: func(c *crashScene) {
			c.passes("a question", func() bool { return len(c.questions()) > 0 || c.state() == c.ends })
			asked := c.questions()
			if c.kill(syscall.SIGKILL) && len(asked) > 0 {
				c.waitFor("the worker has ended", func() bool { return !c.working() }, nil)
				c.symphony("tell", asked[0], "Yes")
			}
			c.arm()
		},
	},
	{
		// The question is asked and answered in the tracker.
		name:  "answered in the tracker",
		issue: "ask-user Which way?\n" + handOver,
		ends:  "Human Review",
		keeps: true,
		again: []string{
			"pass:tracker.Post.",
			"pass:tracker.Edit.",
			"pass:state.SaveComment.",
			"pass:state.DecideRequest.",
		},
		play: answersPlay,
	},
	{
		// A hold is explained in the tracker, and ends only when a person comments.
		name:      "hold explained",
		issue:     "fail other no luck",
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		again:     []string{"pass:tracker.Post.", "pass:tracker.Edit.", "pass:state.SaveComment."},
		play:      explainedPlay,
	},
	{
		// The operator sends the result back, with one comment whatever dies.
		name:      "sent back",
		issue:     handOver,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		again:     []string{"pass:pass.move.", "pass:tracker.Post.", "pass:state.SaveMove."},
		play:      sentBackPlay,
	},
	{
		// codex loses its login, and a later run succeeds again.
		name:      "login",
		issue:     "fail httpConnectionFailed=401 who are you",
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		again:     []string{"worker:durable.", "pass:durable."},
		play: func(c *crashScene) {
			c.passes("blocked", func() bool {
				return c.number(`SELECT count(*) FROM claims WHERE kind = 'blocked'`) == 1 && c.blockIsDue()
			})
			c.instruct(handOver)
			c.arm()
			c.passes("tried again", func() bool {
				c.blockIsDue()
				return c.state() == c.ends
			})
		},
	},
	{
		// The operator takes the issue over in its first workspace, and a run continues
		// afterwards.
		name:      "taken over",
		issue:     handOver,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		exits:     []int{1},
		play:      takeoverPlay,
	},
	{
		// The operator restores a removed workspace, and the next run works in it.
		name:      "restored",
		issue:     saved + handOver,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		exits:     []int{1},
		late:      true,
		again:     []string{"pass:durable."},
		play:      restoredPlay,
	},
	{
		// The operator removes the project with its workspaces; the next pass begins again.
		name: "project removed", issue: handOver, ends: "Human Review", exits: []int{1},
		play: func(c *crashScene) {
			c.handedOver()
			c.arm()
			for range 2 {
				c.symphony("projects", "remove", "--workspaces", "--force", "--yes", "state")
			}
			test.Equal(c.t, "the state is left", c.exists("state"), false)
			test.Equal(c.t, "the workspaces are left", c.exists("ws"), false)
			c.must(os.RemoveAll(c.path("codex-home", "threads")))
		},
	},
	{
		// The project is backed up, its state is lost, and restored from the backup. Neither
		// is ever half there.
		name:      "backed up",
		issue:     handOver,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		exits:     []int{1},
		late:      true,
		again:     []string{"pass:durable."},
		play:      backupPlay,
	},
	{
		// symphony clones a repository, and pushes the commit of the agent. The remote refuses
		// the first push.
		name:  "delivered",
		issue: commits + "{move Human Review}",
		ends:  "Human Review",
		keeps: true,
		again: []string{"worker:state.Finish.", "pass:state.Commit."},
		play:  deliveredPlay,
	},
	{
		// The workspace is removed only once the commit is on the remote.
		name: "delivered and removed", issue: commits + "{move Done}", ends: "Done",
		again: []string{"worker:repository.deliver."},
		play:  deliveredPlay,
	},
	{
		// The agent asks that its issue is handed over: the commit is on the remote before
		// there is a comment, and the comment before the issue is moved. There is one comment.
		name:  "handed over",
		issue: commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:  "Human Review",
		keeps: true,
		again: []string{"worker:runner.handover.", "worker:runner.verified", "worker:state.UpdateRun."},
		play: func(c *crashScene) {
			c.edit(
				"hooks:\n",
				"handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\nhooks:\n",
			)
			deliveredPlay(c)
		},
	},
	{
		// The same where the first push is accepted: the agent's own worker does everything.
		name:     "handed over at once",
		accepted: true,
		issue:    commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:     "Human Review",
		keeps:    true,
		again:    []string{"worker:runner.handover.", "worker:runner.verified"},
		play: func(c *crashScene) {
			c.edit(
				"hooks:\n",
				"handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\nhooks:\n",
			)
			deliveredPlay(c)
		},
	},
	{
		// The same with a claim in the remote, which the delivery renews.
		name:     "claimed",
		accepted: true,
		claims:   ", claims: true",
		issue:    commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:     "Human Review",
		keeps:    true,
		again:    []string{"pass:team.", "worker:team.", "pass:repository.claims.", "worker:repository.claims."},
		play: func(c *crashScene) {
			c.edit(
				"hooks:\n",
				"handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\nhooks:\n",
			)
			deliveredPlay(c)
		},
	},
	{
		// The claim is deleted with the last of the work.
		name:     "claimed and done",
		accepted: true,
		claims:   ", claims: true",
		issue:    commits + "{move Done}",
		ends:     "Done",
		again:    []string{"pass:team.", "pass:state.DropOwnClaims."},
		play:     deliveredPlay,
	},
	{
		// An issue that is handed over, with the claims on a branch.
		name:     "claimed on a branch",
		accepted: true,
		claims:   ", claims: {branch: symphony-claims}",
		issue:    commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:     "Human Review",
		keeps:    true,
		again:    []string{"pass:repository.claims.", "worker:repository.claims."},
		play: func(c *crashScene) {
			c.edit(
				"hooks:\n",
				"handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\nhooks:\n",
			)
			deliveredPlay(c)
		},
	},
	// A machine that is not heard of any more has handed the issue over. This one watches
	// the pull request instead, and goes on from what was pushed when the issue comes back.
	takenOver("review taken over", reviewTakenOverPlay),
	// Another machine has delivered commits and made its claim free. This one takes the
	// issue and goes on from them.
	takenOver("work taken over", workTakenOverPlay),
	{
		// The base moves between two runs in a workspace.
		name:      "base moved",
		accepted:  true,
		issue:     commits + "{move Human Review}",
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		play: func(c *crashScene) {
			deliveredPlay(c)
			c.handedOver()
			remote := c.path("remote")
			moved := c.git(
				"--git-dir",
				remote,
				"-c",
				"user.name=A",
				"-c",
				"user.email=a@example.com",
				"commit-tree",
				"-p",
				"main",
				"-m",
				"first",
				"main^{tree}",
			)
			c.git("--git-dir", remote, "update-ref", "refs/heads/main", moved)
			c.move("Todo")
			c.handedOver()
			test.Equal(
				c.t,
				"the base in the workspace",
				c.git("-C", c.path("ws", "ABC-1"), "rev-parse", "origin/main"),
				moved,
			)
			test.Equal(
				c.t,
				"what is left in the mirrors",
				len(c.glob("ws", ".symphony", "mirrors", "incoming-*")),
				0,
			)
		},
	},
	{
		// A person pushes to the branch between two runs, and again during a turn. The
		// workspace is moved to both commits.
		name:      "helped",
		accepted:  true,
		issue:     commits + "{move Human Review}",
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		pushed:    []string{"meanwhile", "suggestion"},
		again:     []string{"worker:repository.forward.", "worker:workspace.branch."},
		play:      helpedPlay,
	},
	{
		// A check of the pull request fails twice, and the agent answers. Then it conflicts
		// with its base, and the issue is held.
		name:      "comes back",
		accepted:  true,
		issue:     commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		again: []string{
			"pass:feedback.",
			"pass:tracker.Move.",
			"pass:state.Commit.",
			"worker:runner.rework.",
		},
		play: comesBackPlay,
	},
	{
		// The same with a claim in the remote. As soon as the pull request has the answer to a
		// check, the claim names that check as answered.
		name:      "comes back to its claim",
		accepted:  true,
		claims:    ", claims: true",
		issue:     commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		late:      true,
		again: []string{
			"pass:feedback.",
			"pass:tracker.Move.",
			"pass:state.Commit.",
			"pass:team.",
			"pass:repository.claims.",
			"worker:runner.rework.",
			"worker:team.",
			"worker:repository.claims.",
		},
		play: comesBackToItsClaimPlay,
	},
	{
		// The pull request is closed while the issue waits for an agent, and is then merged.
		// The state of merged issues is not a terminal one.
		name:      "merged elsewhere",
		accepted:  true,
		issue:     commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:      "Backlog",
		keeps:     true,
		recounted: true,
		again:     []string{"pass:feedback.", "pass:tracker.Move.", "pass:state.AddCommand."},
		play:      mergedPlay,
	},
	{
		// The same, where that state is a terminal one.
		name:      "merged",
		accepted:  true,
		issue:     commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:      "Done",
		recounted: true,
		again:     []string{"pass:feedback.", "pass:tracker.Move.", "pass:state.AddCommand."},
		play:      mergedPlay,
	},
	{
		// Auto-merge of the pull request is armed. The worker of a next run takes that back,
		// and later a pass. In the end a pass merges.
		name:      "merges",
		accepted:  true,
		issue:     commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:      "Backlog",
		keeps:     true,
		recounted: true,
		handsOver: 1,
		again:     []string{"pass:feedback.", "pass:state.EndMerge.", "worker:state.EndMerge."},
		play:      mergesPlay,
	},
	{
		// The base demands that branches contain it, and has moved on: a pass merges it into the
		// branch, waits for the checks of that, and merges.
		name:      "merges a base",
		accepted:  true,
		issue:     commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:      "Backlog",
		keeps:     true,
		recounted: true,
		pushed:    []string{"Merge branch 'main' into symphony/ABC-1"},
		again:     []string{"pass:feedback.", "pass:repository.merge."},
		exits:     []int{1}, // nothing is left to take for the repeated command
		play:      mergesBasePlay,
	},
	{
		// A process that a dead worker left can't be killed for a while.
		name:   "stuck",
		issue:  "attempt 0:\nbackground sleep 3012\nsleep 30s\nattempt 1+:\n" + handOver,
		ends:   "Human Review",
		keeps:  true,
		deaths: 1,
		exits:  []int{1},
		needs:  canFreeze,
		play: func(c *crashScene) {
			c.atWork()
			thaw := c.freeze("sleep 3012")
			defer thaw()
			if c.kill(syscall.SIGKILL) {
				c.passes(
					"counted",
					func() bool { return c.died() || c.number(`SELECT max(reap_tries) FROM runs`) > 0 },
				)
			}
		},
	},
	{
		// The agent works on another machine. Its worker dies, and another one ends the run
		// there.
		name:   "host",
		issue:  "attempt 0:\nsleep 30s\nattempt 1+:\n" + handOver,
		ends:   "Human Review",
		keeps:  true,
		deaths: 1,
		needs:  canServeSSH,
		play: func(c *crashScene) {
			c.useHost()
			c.atWork()
			c.kill(syscall.SIGKILL)
		},
	},
	{
		// Hosts start an agent without an issue until one has had its turn, and end it. Then
		// the issue gets the slot.
		name: "agents", issue: handOver, ends: "Human Review", keeps: true,
		again: []string{"worker:state.Finish.", "worker:host.Open.", "pass:runner.start.spawned"},
		play:  agentsPlay,
	},
}

func backupPlay(c *crashScene) {
	c.handedOver()
	c.alone()
	c.arm()
	for range 2 { // the first may die, otherwise the second is refused
		c.symphony("backup", "b.tar.gz")
		if c.exists("b.tar.gz") {
			test.Run(
				c.t,
				exec.Command(
					"tar",
					"-xzf",
					c.path("b.tar.gz"),
					"-C",
					c.path("tmp"),
					"manifest.json",
					"project/state.db",
				),
			)
		}
	}
	c.must(os.Rename(c.path("state"), c.path("lost")))
	for range 2 {
		c.symphony("restore-state", "b.tar.gz")
		if c.exists("state", "state.db") {
			test.Equal(
				c.t,
				"runs",
				c.query(`SELECT identifier || ' ' || outcome FROM runs WHERE kind = 'agent'`),
				[]string{"ABC-1 succeeded"},
			)
		}
	}
	test.Equal(c.t, "what is left of the restoration", c.exists("state", "restoring"), false)
	for _, path := range []string{"lost", "b.tar.gz", "tmp/manifest.json", "tmp/project"} {
		c.must(os.RemoveAll(c.path(path)))
	}
	c.move("Todo")
	c.passes("handed over again", func() bool {
		return c.number(`SELECT count(*) FROM runs WHERE kind = 'agent'`) > 1 && c.state() == "Human Review"
	})
}

// comments lists the comments of symphony on the issue.
func (c *crashScene) comments() (list []lineartest.Comment) {
	issue := test.Must(c.linear.Issue("ABC-1"))
	for _, comment := range issue.Comments {
		if reconcile.Marked(comment.Body) {
			list = append(list, comment)
		}
	}
	return list
}

// answersPlay has an operator who answers each question in the tracker once.
func answersPlay(c *crashScene) {
	c.write(
		"WORKFLOW.md",
		strings.Replace(
			c.read("WORKFLOW.md"),
			"project_slug: demo",
			"project_slug: demo\n  operators: [kim@example.com]",
			1,
		),
		0o600,
	)
	c.arm()
	answered := map[string]bool{}
	c.passes("handed over", func() bool {
		for _, comment := range c.comments() {
			if id := regexp.MustCompile(`ABC-1\.[0-9]+`).FindString(comment.Body); !answered[id] &&
				strings.Contains(comment.Body, "can answer") {
				answered[id] = true
				test.Must(c.linear.Comment("ABC-1", "kim@example.com", id+": Yes"))
			}
		}
		return c.state() == c.ends
	})
	c.passes("every comment shows how its request ended", func() bool {
		return !slices.ContainsFunc(
			c.comments(),
			func(comment lineartest.Comment) bool { return strings.Contains(comment.Body, "can answer") },
		)
	})
	asked := map[string]bool{}
	for _, comment := range c.comments() {
		marker := comment.Body[strings.LastIndex(comment.Body, "<!--"):]
		if asked[marker] {
			c.t.Errorf("asked twice: %s", comment.Body)
		}
		asked[marker] = true
	}
	if n := c.number(`SELECT count(*) FROM requests WHERE decision = 'answer'`); n < 1 ||
		n != len(answered) && !c.died() ||
		len(asked) < n {
		c.t.Errorf("%d requests were answered, the operator answered %v: %+v", n, answered, c.comments())
	}
}

// explainedPlay has an issue that is held, and then continued by a person's comment.
func explainedPlay(c *crashScene) {
	c.write(
		"WORKFLOW.md",
		strings.Replace(c.read("WORKFLOW.md"), "on_question: ask", "max_failures: 1", 1),
		0o600,
	)
	c.arm()
	c.passes("explained", func() bool { return c.claim() == "held max_failures" && len(c.comments()) == 1 })
	c.pass()
	c.pass()
	test.Equal(c.t, "the claim", c.claim(), "held max_failures")
	test.Equal(c.t, "how many comments there are", len(c.comments()), 1)
	c.instruct(handOver)
	test.Must(c.linear.Comment("ABC-1", "kim@example.com", "try again"))
	c.passes("handed over", c.ended)
	c.passes("the comment says that the hold has ended", func() bool {
		return len(c.comments()) == 1 && strings.Contains(c.comments()[0].Body, "has ended")
	})
}

// sentBackPlay has a result that the operator sends back. The command is repeated only if it
// was not stored.
func sentBackPlay(c *crashScene) {
	c.handedOver()
	c.arm()
	c.symphony("tell", "ABC-1", "Once more.")
	if c.number(`SELECT count(*) FROM calls`) == 0 {
		c.symphony("tell", "ABC-1", "Once more.")
	}
	c.passes(
		"a second run",
		func() bool { return c.number(`SELECT count(*) FROM runs WHERE kind = 'agent'`) > 1 },
	)
	c.handedOver()
	said := 0
	for _, comment := range test.Must(c.linear.Issue("ABC-1")).Comments {
		if strings.HasSuffix(comment.Body, "Once more.") {
			said++
		}
	}
	test.Equal(c.t, "how often the operator's words are there", said, 1)
}

// deliveredPlay has a remote that refuses the first push, and opens a pull request.
func deliveredPlay(c *crashScene) {
	seed := c.path("tmp", "seed")
	remote := c.path("remote")
	c.git("init", "-q", "--bare", "-b", "main", remote)
	c.git("init", "-q", "-b", "main", seed)
	c.write("tmp/seed/.gitignore", "made/\n", 0o600)
	c.git("-C", seed, "add", ".")
	c.git("-C", seed, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "first")
	c.git("-C", seed, "push", "-q", remote, "main")
	c.must(os.RemoveAll(seed))
	if !c.accepted {
		c.write(
			"remote/hooks/pre-receive",
			"#!/bin/sh\n[ -e refused ] || { touch refused; exit 1; }\n",
			0o700,
		)
	}
	c.github = &githubtest.Server{
		Repository: filepath.Base(c.dir) + "/remote",
		Remote:     remote,
		Tokens:     []string{"github_pat_secretsecret"},
		Errorf:     c.t.Errorf,
	}
	c.github.Start()
	c.t.Cleanup(c.github.Close)
	c.env = append(c.env, "GITHUB_TOKEN="+c.github.Tokens[0])
	c.edit(
		"hooks:\n",
		"repository: {url: "+remote+", git_name: Agent, git_email: agent@example.com, deliver: pull-request, "+
			"api: "+c.github.URL()+", token: $GITHUB_TOKEN"+c.claims+"}\nhooks:\n",
	)
	c.arm()
}

// reviewTakenOverPlay lets this machine take over a review, and then sends the issue back.
func reviewTakenOverPlay(c *crashScene) {
	c.move("Human Review")
	c.leftBehind(team.Watching)
	c.passes("the review is taken over", func() bool {
		// Two days go by. A look in which a pass died is due again.
		c.query(`DELETE FROM meta WHERE key = 'team_looked' AND NOT EXISTS (SELECT 1 FROM team_seen)`)
		c.query(`UPDATE team_seen SET age = 48 * 3600 * 1000000000`)
		return c.number(`SELECT count(*) FROM releases WHERE in_review`) == 1
	})
	test.Equal(c.t, "what is in review", c.query(`SELECT identifier || ' ' || to_state FROM releases`),
		[]string{"ABC-1 Human Review"})
	c.isTakenOver()
	c.move("Todo")
	c.handedOver()
	c.isTakenOver()
}

// workTakenOverPlay lets this machine take an issue whose claim is free.
func workTakenOverPlay(c *crashScene) {
	c.leftBehind(team.Free)
	c.handedOver()
	c.isTakenOver()
}

// takenOver is a scenario in which this machine takes over what another one has left.
func takenOver(name string, play func(c *crashScene)) crashScenario {
	return crashScenario{
		name:      name,
		accepted:  true,
		claims:    ", claims: true",
		issue:     commits + `tool hand_over {"summary": "Wrote the file."}`,
		ends:      "Human Review",
		keeps:     true,
		recounted: true,
		inherited: []string{"begin"},
		again:     []string{"pass:team.", "pass:repository.claims.", "pass:state.SaveOwnClaims."},
		play:      play,
	}
}

// leftBehind makes what another machine has left in the remote: a branch with the work of the issue, its
// pull request, and the claim.
func (c *crashScene) leftBehind(status team.Status) {
	c.t.Helper()
	c.edit("hooks:\n", "handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\nhooks:\n")
	deliveredPlay(c)
	other := c.path("tmp", "other")
	remote := c.path("remote")
	c.git("clone", "-q", remote, other)
	c.write("tmp/other/.gitattributes", "* text\n", 0o600) // the witness expects nothing but files of git
	c.git("-C", other, "add", ".")
	c.git("-C", other, "-c", "user.name=B", "-c", "user.email=b@example.com", "commit", "-qm", "begin")
	c.git("-C", other, "push", "-q", "origin", "HEAD:refs/heads/symphony/ABC-1")
	commit := c.git("-C", other, "rev-parse", "HEAD")
	number := test.Must(c.github.AddPull(githubtest.Pull{
		Title:  "ABC-1: Issue ABC-1",
		Branch: "symphony/ABC-1",
		Base:   "main",
	}))
	issue := test.Must(c.linear.Issue("ABC-1"))
	claim := team.Claim{
		Token:       "other",
		Machine:     "other",
		Project:     c.linear.Endpoint() + " demo",
		IssueID:     issue.ID,
		Identifier:  "ABC-1",
		Origin:      "linear.invalid " + issue.ID,
		Status:      status,
		TermMS:      team.MinTerm.Milliseconds(),
		Branch:      "symphony/ABC-1",
		Commit:      commit,
		PullRequest: fmt.Sprintf("https://github.com/%s/pull/%d", c.github.Repository, number),
		Handled:     []string{"a review"},
		Rounds:      1,
	}
	entry := c.git("--git-dir", remote, "-c", "user.name=B", "-c", "user.email=b@example.com",
		"commit-tree", "main^{tree}", "-m", claim.Content())
	c.git("--git-dir", remote, "update-ref", "refs/symphony/claims/"+team.Key(claim.Origin), entry)
	c.must(os.RemoveAll(other))
}

// isTakenOver waits until this machine watches the issue, and what it knows of the branch is what was
// pushed there last.
func (c *crashScene) isTakenOver() {
	c.t.Helper()
	remote := c.path("remote")
	test.Equal(c.t, "how often the pull request has brought it back",
		c.query(`SELECT json_extract(watch, '$.rounds') FROM watches`), []string{"1"})
	c.passes("this machine has the claim", func() bool {
		content := c.git("--git-dir", remote, "for-each-ref", "--format=%(contents)", "refs/symphony/claims")
		claim := test.Must(team.Parse(content))
		tip := c.git("--git-dir", remote, "rev-parse", claim.Branch)
		return claim.Machine != "other" && claim.Status == team.Watching && claim.Commit == tip &&
			c.number(`SELECT count(*) FROM deliveries WHERE "commit" = '`+tip+`'`) == 1
	})
}

// helpedPlay has a person who pushes one commit before the second run, and another one during
// its first turn, which the agent's script does for the person.
func helpedPlay(c *crashScene) {
	c.write("push.sh", `set -e
cd `+c.path()+`
unset GIT_DIR
rm -rf tmp/person
git clone -q -b symphony/ABC-1 remote tmp/person
cd tmp/person
if ! [ -e "$1" ]; then
  echo "$1" > "$1"
  git add .
  git -c user.name=Kim -c user.email=kim@example.com commit -qm "$1"
  git push -q
fi
rm -rf ../person
`, 0o600)
	deliveredPlay(c)
	c.handedOver()
	push := exec.Command("sh", c.path("push.sh"), "suggestion")
	push.Env = c.env
	test.Run(c.t, push)
	c.instruct("turn 1:\nsh sh ../../push.sh meanwhile\nturn 2+:\n" + commits + "{move Human Review}")
	c.move("Todo")
	c.handedOver()
	c.must(os.Remove(c.path("push.sh")))
	workspace := c.path("ws", "ABC-1")
	test.Equal(c.t, "the workspace", c.git("-C", workspace, "log", "-1", "--format=%s"), c.pushed[0])
	test.Equal(c.t, "what is not committed", c.git("-C", workspace, "status", "--porcelain"), "")
}

// git runs git, and returns what it prints.
func (c *crashScene) git(args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = c.env
	return test.Run(c.t, cmd)
}

// comesBackToItsClaimPlay runs comesBackPlay, and then looks whether the claim names the answered check.
func comesBackToItsClaimPlay(c *crashScene) {
	comesBackPlay(c)
	c.passes("the claim says what was answered", func() bool {
		content := c.git("--git-dir", c.path("remote"), "for-each-ref", "--format=%(contents)", "refs/symphony/claims")
		claim := test.Must(team.Parse(content))
		return claim.Rounds == 1 && len(claim.Handled) > 0
	})
}

// comesBackPlay brings an issue back by a check, holds it for a conflict, and brings it back
// for that when an operator says so.
func comesBackPlay(c *crashScene) {
	c.edit(
		"hooks:\n",
		"handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\nfeedback: {state: "+
			"In Progress, rounds: 1}\nhooks:\n",
	)
	deliveredPlay(c)
	c.passes("handed over", c.ended)
	head := c.git("--git-dir", c.path("remote"), "rev-parse", "symphony/ABC-1")
	failing := githubtest.Check{
		Name:     "lint",
		Workflow: "CI",
		Run:      7,
		Job:      70,
		State:    "FAILURE",
		Log:      "x.go: no comment",
	}
	failures := 0
	look := func() { // the next pass reads the pull requests
		test.Must(query(c.path("state"), `DELETE FROM meta WHERE key = 'feedback_read_at'`))
	}
	c.passes("the issue comes back", func() bool {
		failures++
		if failures%2 == 1 { // the job has run again and failed
			c.github.SetChecks(head, failing)
		}
		look()
		return c.number(`SELECT coalesce(max(json_extract(watch, '$.rounds')), 0) FROM watches`) == 1
	})
	answered := func(rounds int) func() bool {
		const count = `SELECT count(*) FROM watches WHERE json_extract(watch, '$.rework') IS NULL AND json_array_length(watch, '$.history') = `
		return func() bool { look(); return c.ended() && c.number(count+strconv.Itoa(rounds)) == 1 && c.claim() == "" }
	}
	c.passes("answered", answered(1))
	answers := text.Filter(
		test.Must(c.github.Issue("1")).Comments,
		func(one githubtest.Comment) bool { return strings.HasPrefix(one.Body, "**Rework 1 of 1**") },
	)
	test.Equal(c.t, "answers on the pull request", len(answers), 1)
	c.must(c.github.EditPull(c.t.Context(), 1, func(p *githubtest.Pull) { p.Conflict = true }))
	c.passes("held", func() bool { look(); return c.claim() == "held feedback_rounds" && c.unsettled() == 0 })
	c.order("retry", "ABC-1") // from then on rounds count again
	c.passes("answered again", answered(2))
}

// mergesWhatIsGreen has an issue in review whose pull request symphony merges once it is green.
func (c *crashScene) mergesWhatIsGreen() {
	c.edit("hooks:\n", "handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\n"+
		"feedback: {state: In Progress, merged_state: "+c.ends+"}\nmerge: {when: green}\nhooks:\n")
	deliveredPlay(c)
	c.handedOver()
}

// looks lets the next pass read the pull requests, whose checks have had the time to begin. It
// returns whether the watch fulfils a condition.
func (c *crashScene) looks(until string) func() bool {
	return func() bool {
		test.Must(query(c.path("state"), `DELETE FROM meta WHERE key = 'feedback_read_at'`))
		test.Must(query(
			c.path("state"),
			`UPDATE watches SET watch = json_set(watch, '$.head_at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-3 minutes'))`,
		))
		return c.number(`SELECT count(*) FROM watches WHERE `+until) == 1
	}
}

// mergesBasePlay lets the base move on before a green pull request is merged.
func mergesBasePlay(c *crashScene) {
	c.mergesWhatIsGreen()
	remote := c.path("remote")
	moved := c.git("--git-dir", remote, "-c", "user.name=A", "-c", "user.email=a@example.com",
		"commit-tree", "-p", "main", "-m", "first", "main^{tree}")
	c.git("--git-dir", remote, "update-ref", "refs/heads/main", moved)
	c.must(c.github.EditPull(c.t.Context(), 1, func(p *githubtest.Pull) { p.Behind = true }))
	// A person takes the result meanwhile, and repeats the command if it was killed.
	c.passes("looked at", c.looks(`json_extract(watch, '$.pull.state') IS NOT NULL`))
	c.symphony("done", "ABC-1")
	if c.died() {
		c.symphony("done", "ABC-1")
	}
	c.passes("merged", func() bool {
		head := c.git("--git-dir", remote, "rev-parse", "symphony/ABC-1")
		c.github.SetChecks(head, githubtest.Check{Name: "test", State: "SUCCESS", Status: true})
		return c.looks(`ended`)() && c.ended() && c.claim() == ""
	})
	test.Equal(c.t, "merges", c.github.Pulls(c.t.Context())[0].Merges, 1)
}

// mergesPlay lets GitHub merge the pull request later, lets the worker of another run and a pass
// take that back, and then merges it at once.
func mergesPlay(c *crashScene) {
	c.mergesWhatIsGreen()
	change := func(change func(*githubtest.Pull)) { c.must(c.github.EditPull(c.t.Context(), 1, change)) }
	const armed = `json_extract(watch, '$.merge.state') = 'armed'`
	head := c.git("--git-dir", c.path("remote"), "rev-parse", "symphony/ABC-1")
	c.github.SetChecks(head, githubtest.Check{Name: "test", State: "SUCCESS", Status: true})
	change(func(p *githubtest.Pull) { p.Approvals = 1 })
	c.passes("armed", c.looks(armed))
	// No pass looks at the pull request before the worker delivers.
	test.Must(query(c.path("state"), `INSERT OR REPLACE INTO meta (key, value)
		VALUES ('feedback_read_at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+25 seconds'))`))
	c.move("Todo")
	c.handedOver()
	c.passes("armed again", c.looks(armed))
	change(func(p *githubtest.Pull) { p.Draft = true })
	// Nobody waits until the pass has also recorded that: it may have died in between.
	c.passes("disarmed", func() bool {
		return c.looks(`true`)() && c.github.Pulls(c.t.Context())[0].AutoMerge == ""
	})
	change(func(p *githubtest.Pull) {
		p.Draft = false
		p.Approvals = 0
	})
	c.passes("merged", func() bool { return c.looks(`ended`)() && c.ended() && c.claim() == "" })
	test.Equal(c.t, "merges", c.github.Pulls(c.t.Context())[0].Merges, 1)
}

// mergedPlay closes the pull request of an issue that has come back, which holds the issue,
// and merges it.
func mergedPlay(c *crashScene) {
	c.edit("hooks:\n", "handoff: {state: Human Review}\nverify: {command: git grep -q work HEAD}\n"+
		"feedback: {state: In Progress, merged_state: "+c.ends+"}\nhooks:\n")
	deliveredPlay(c)
	c.handedOver()
	c.order("pause")
	look := func(until func() bool) func() bool {
		return func() bool {
			test.Must(query(c.path("state"), `DELETE FROM meta WHERE key = 'feedback_read_at'`))
			return until()
		}
	}
	change := func(change func(*githubtest.Pull)) { c.must(c.github.EditPull(c.t.Context(), 1, change)) }
	change(func(p *githubtest.Pull) { p.Conflict = true })
	c.passes("it comes back", look(func() bool { return c.state() == "In Progress" }))
	change(func(p *githubtest.Pull) { p.State = "closed" })
	c.passes(
		"held",
		look(func() bool { return c.state() == "Human Review" && c.claim() == "held pull_request_closed" }),
	)
	change(func(p *githubtest.Pull) { p.Merged = true })
	c.passes(
		"merged",
		look(
			func() bool { return c.ended() && c.claim() == "" && c.number(`SELECT ended FROM watches`) == 1 },
		),
	)
	c.order("resume")
}

// checkHandedOver checks that an issue whose agent asks for it was handed over by one comment,
// about a verified commit.
func (c *crashScene) checkHandedOver() {
	c.t.Helper()
	if strings.Contains(c.issue, "tool hand_over") {
		about := slices.DeleteFunc(
			c.comments(),
			func(one lineartest.Comment) bool { return !strings.HasPrefix(one.Body, "**Handed over**") },
		)
		test.Equal(
			c.t,
			"comments about it",
			len(about),
			1+c.handsOver+c.number(
				`SELECT coalesce(sum(json_array_length(watch, '$.history') * (NOT ended)), 0) FROM watches`,
			),
		)
		// symphony may have merged the base on top of it
		head := c.git("--git-dir", c.path("remote"), "log", "-1", "--format=%H", "--grep=^work on it$", "symphony/ABC-1")
		test.Contains(c.t, "the comment", about[0].Body, "Verified "+head[:12]+": `git grep -q work HEAD`")
	}
}

// checkClaims checks that the remote has one claim, of this machine, that waits for the review, or none
// if the issue is done. It returns the other references.
func (c *crashScene) checkClaims(remote, refs string) string {
	c.t.Helper()
	if c.claims == "" {
		return refs
	}
	claims := c.git("--git-dir", remote, "for-each-ref", "--format=%(contents)", "refs/symphony/claims")
	if strings.Contains(c.claims, "branch") {
		names := c.git("--git-dir", remote, "ls-tree", "--name-only", "symphony-claims")
		claims = c.git("--git-dir", remote, "show", "symphony-claims:"+names)
	}
	want := 0
	if c.keeps {
		want = 1
	}
	test.Equal(c.t, "claims of watched issues", strings.Count(claims, `"status":"watching"`), want)
	test.Equal(c.t, "claims", strings.Count(claims, `"status":`), want)
	others := slices.DeleteFunc(strings.Split(refs, "\n"), func(line string) bool {
		return strings.Contains(line, "symphony/claims/") || strings.Contains(line, "symphony-claims ")
	})
	return strings.Join(others, "\n")
}

// checkRemote checks that the work was pushed once, to the branch of the issue only, with one
// pull request, and that no git command left anything.
func (c *crashScene) checkRemote() {
	c.t.Helper()
	if !c.exists("remote") {
		return
	}
	remote := c.path("remote")
	log := c.git("--git-dir", remote, "log", "--first-parent", "--format=%s", "symphony/ABC-1")
	refs := c.git("--git-dir", remote, "for-each-ref", "--format=%(refname) %(subject)")
	refs = c.checkClaims(remote, refs)
	commits := slices.Concat(c.pushed, []string{"work on it"}, c.inherited, []string{"first"})
	test.Equal(c.t, "the commits of the branch", log, strings.Join(commits, "\n"))
	test.Equal(c.t, "the references", refs, "refs/heads/main first\nrefs/heads/symphony/ABC-1 "+commits[0])
	if pulls := c.github.Pulls(c.t.Context()); len(pulls) != 1 ||
		pulls[0].State != "open" && !pulls[0].Merged {
		c.t.Errorf("the pull requests are %+v", pulls)
	}
	mirrors := c.glob("ws", ".symphony", "mirrors", "*")
	isOfClaims := func(path string) bool { return strings.Contains(path, ".claims") }
	mirrors = slices.DeleteFunc(mirrors, isOfClaims)
	if strings.Contains(c.point, "forward.") || strings.Contains(c.point, "branch.indexed") {
		// The directory in which git moves a workspace goes after a day, as one of a delivery
		// does.
		mirrors = slices.DeleteFunc(
			mirrors,
			func(path string) bool { return strings.Contains(path, "/incoming-") },
		)
	}
	if len(mirrors) != 2 || !strings.HasSuffix(mirrors[1], ".git.lock") {
		c.t.Fatalf("mirrors: %q", mirrors)
	}
	refs = c.git("--git-dir", mirrors[0], "for-each-ref", "--format=%(refname)", "refs/heads")
	refs = strings.ReplaceAll(refs, "refs/heads/symphony-claims\n", "")
	test.Equal(c.t, "the references of the mirror", refs, "refs/heads/main\nrefs/heads/symphony/ABC-1")
	c.git("--git-dir", mirrors[0], "fsck", "--connectivity-only")
}

// agentsPlay has hosts start an agent and give it a turn. A host that was killed is followed
// by one that makes the same calls. An agent whose worker was killed is followed by another
// one.
func agentsPlay(c *crashScene) {
	c.must(os.Mkdir(c.path("repo"), 0o700))
	c.arm()
	for n, done := 1, false; !done; n++ {
		if n > 5 {
			c.t.Fatal("no agent has had its turn")
		}
		id := fmt.Sprint("agent-", n)
		for host := 1; host <= 3; host++ {
			answers := c.host(
				toolCall{"spawn_agent", fmt.Sprintf(`{"id":%q,"cwd":%q}`, id, c.path("repo"))},
				toolCall{"new_conversation", fmt.Sprintf(`{"agentId":%q,"params":{"id":"c"}}`, id)},
				toolCall{
					"send_user_turn",
					fmt.Sprintf(
						`{"agentId":%q,"params":{"id":"t","conversationId":"c","items":[{"type":"text","text":"hello"}]}}`,
						id,
					),
				},
				toolCall{"wait_agent", fmt.Sprintf(`{"agentIds":[%q],"timeoutSeconds":10}`, id)},
				toolCall{"kill_agent", fmt.Sprintf(`{"agentId":%q}`, id)},
			)
			if len(answers) == 5 { // otherwise the host has died
				done = !answers[2].IsError &&
					strings.Contains(string(answers[3].StructuredContent), "completed")
				break
			}
		}
	}
	c.host(toolCall{"list_agents", `{"all":true}`})
	const left = `SELECT (SELECT count(*) FROM runs WHERE settled = 0) + (SELECT count(*) FROM calls WHERE status IN ('queued', 'running'))`
	open := test.Must(query(c.path("home", ".local", "state", "symphony", "agents"), left))
	test.Equal(c.t, "how many agents and calls are open", open, "0\n")
	c.must(os.Remove(c.path("repo"))) // the agent has left nothing there
	// The threads stay, so that the conversation can be continued.
	for _, dir := range c.glob("home", ".local", "state", "symphony", "accounts", "*", "codex", "threads") {
		c.must(os.RemoveAll(dir))
	}
}

// toolCall is a call of a tool of symphony mcp.
type toolCall struct{ tool, arguments string }

// host makes calls, one after the other, and returns their results: fewer if the server has
// died.
func (c *crashScene) host(calls ...toolCall) (results []toolResult) {
	h := &mcpHost{on: c.t, cmd: exec.Command(c.program, "mcp"), dies: true}
	h.cmd.Dir = c.dir
	h.cmd.Env = append(slices.Clip(c.environ()), "CODEX_BIN="+test.Must(exec.LookPath("fake-codex")))
	h.start(false, "{}")
	for _, call := range calls {
		if result := h.tool(call.tool, call.arguments); !h.ended {
			results = append(results, result)
		}
	}
	_ = h.in.Close() // it ends the server
	_ = h.wait()     // it may have died
	return results
}

// restoredPlay finishes the issue, which moves its workspace to the trash, restores the
// workspace, and reopens the issue.
func restoredPlay(c *crashScene) {
	c.handedOver()
	c.edit("keep_removed_ms: 0", "keep_removed_ms: 3600000")
	c.write("ws/ABC-1/marker", "", 0o600)
	c.move("Done")
	c.query(`UPDATE meta SET value = '0' WHERE key LIKE '%sweep%'`)
	c.passes("removed", func() bool { return !c.exists("ws", ".symphony", "ABC-1.json") })
	c.alone()
	c.arm()
	for range 2 {
		c.symphony("restore", "ABC-1")
	}
	// a purge removes it after an hour
	for _, note := range c.glob("ws", ".symphony", "trash", "*.note") {
		c.must(os.Remove(note))
	}
	c.move("Todo")
	c.passes("handed over", c.ended)
	test.Equal(c.t, "the run worked in the restored workspace", c.exists("ws", "ABC-1", "marker"), true)
}

// takeoverPlay takes the issue over in a terminal, with a codex that exits at once, and
// repeats a takeover that was killed.
func takeoverPlay(c *crashScene) {
	c.move("Backlog")
	c.pass()
	_, command, _ := strings.Cut(c.read("WORKFLOW.md"), "  command: exec")
	command, _, _ = strings.Cut("  command: exec"+command, "\n")
	// this codex is no agent and starts nothing
	const other = "  command: f() { echo --sandbox; }; f app-server"
	c.edit(command, other)
	c.move("Todo")
	c.arm()
	for range 2 {
		c.inTerminal("takeover", "ABC-1", "--yes", "--then", "hold")
	}
	c.orders = c.number(`SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'commands'`)
	c.edits = 0
	c.edit(other, command)
	c.order("retry", "ABC-1")
	c.ageDirs()
	c.alone()
	c.symphony("prune", "--yes") // also the directory of a takeover that was killed
}

// inTerminal runs a command in a new terminal.
func (c *crashScene) inTerminal(args ...string) {
	c.t.Helper()
	term := test.Must(newTerminal(80))
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = c.environ()
	cmd.Stdin = term.slave
	cmd.Stdout = term.slave
	cmd.Stderr = term.slave
	err := cmd.Run()
	text, closed := term.close()
	c.must(closed)
	if err != nil && !c.died() {
		c.t.Errorf("symphony %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// handedOver waits until the issue is handed over and no process is left.
func (c *crashScene) handedOver() {
	c.t.Helper()
	c.passes("settled", func() bool {
		return c.state() == "Human Review" && c.claim() == "" && len(c.query(`SELECT id FROM runs`)) > 0
	})
	c.alone()
}

func (c *crashScene) ended() bool { return c.state() == c.ends }

// alone waits until no process is left.
func (c *crashScene) alone() {
	c.t.Helper()
	c.waitFor("no process is left", func() bool { return len(c.processes()) == 0 }, nil)
}

// unsettled is the number of runs that no pass has settled.
func (c *crashScene) unsettled() int { return c.number(`SELECT count(*) FROM runs WHERE settled = 0`) }

// instruct changes what the agent does in its next run.
func (c *crashScene) instruct(script string) {
	c.t.Helper()
	text := c.agent(script)
	c.must(c.linear.Edit("ABC-1", func(i *lineartest.Issue) { i.Description = text }))
}

// atWork waits until an agent is working, and then arms the passes.
func (c *crashScene) atWork() {
	c.t.Helper()
	c.passes("an agent is working", func() bool { return c.streaming() || c.state() == c.ends })
	c.arm()
}

// questions lists the open requests.
func (c *crashScene) questions() []string {
	return c.query(`SELECT q.identifier || '.' || q.number FROM requests q JOIN runs r ON r.id = q.run_id
		WHERE r.outcome IS NULL AND q.decision IS NULL AND q.fate IS NULL`)
}

// answer answers all open requests. Requests that were closed in the meantime are refused.
func (c *crashScene) answer() {
	c.t.Helper()
	for _, id := range c.questions() {
		c.symphony("tell", id, "Yes")
	}
}

// finished lets the agent finish the issue, and arms all processes when only the removal of
// the workspace remains.
func (c *crashScene) finished() {
	c.t.Helper()
	c.passes("an agent is working", c.streaming)
	// While a loop has this lock the worker starts no pass, but asks the loop for one.
	file := test.Must(wiring.TakeLoopLock(context.Background(), c.path("state")))
	c.write("go", "", 0o600)
	c.waitFor("the worker ends", func() bool { return c.state() == "Done" && len(c.processes()) == 0 }, nil)
	c.must(lock.Release(file))
	c.must(os.Remove(c.path("state", "loop.lock")))
	c.must(os.Remove(wiring.RequestFile(c.path("state"))))
	c.arm()
}

// frozen makes the heartbeat of a stopped worker so old that a pass ends the worker.
func (c *crashScene) frozen() {
	c.t.Helper()
	c.silent()
	c.passes(
		"the worker is lost",
		func() bool { return c.number(`SELECT count(*) FROM runs WHERE outcome = 'lost'`) > 0 },
	)
}

// silent makes the last heartbeat of the first run half a minute old.
func (c *crashScene) silent() {
	c.t.Helper()
	alive := c.glob("state", "runs", "*", "alive")
	body := fmt.Sprintf("1 %020d %020d", 1, int64(proc.Monotonic()-30*time.Second))
	c.must(
		os.WriteFile(
			alive[0],
			fmt.Appendf(nil, "%-63s\n", fmt.Sprintf("%s %08x", body, crc32.ChecksumIEEE([]byte(body)))),
			0o600,
		),
	)
}

// aged adds 22 old runs, two more than are kept, and a directory without a run.
func (c *crashScene) aged() {
	c.t.Helper()
	columns := "kind, issue_id, identifier, phase, outcome, settled, issue"
	for n := range 22 {
		id := "old-" + strconv.Itoa(100+n)
		c.query(
			fmt.Sprintf(
				`INSERT INTO runs (id, started_at, ended_at, %[1]s) SELECT '%[2]s', 1, 2, kind, 'old', 'OLD-1', phase, outcome, settled, issue FROM runs
			WHERE kind = 'agent' ORDER BY id DESC LIMIT 1`,
				columns,
				id,
			),
		)
		c.must(os.MkdirAll(c.path("state", "runs", id), 0o700))
		c.write(filepath.Join("state", "runs", id, "workflow.md"), "old", 0o600)
	}
	c.must(os.MkdirAll(c.path("state", "runs", "never"), 0o700))
	c.ageDirs()
	c.query(`DELETE FROM meta WHERE key = 'last_prune'`)
	c.query(`UPDATE sqlite_sequence SET seq = 499 WHERE name = 'passes'`)
}

func (c *crashScene) ageDirs() {
	for _, dir := range c.glob("state", "runs", "*") {
		c.must(os.Chtimes(dir, time.Time{}, time.Now().Add(-48*time.Hour)))
	}
}

// freeze suspends a process so that no signal ends it, until thaw.
func (c *crashScene) freeze(cmdline string) (thaw func()) {
	c.t.Helper()
	var pids []int
	wait := func(what string, holds func() bool) { c.waitFor(what, holds, nil) }
	wait(cmdline, func() bool {
		for pid, found := range c.processes() {
			if found == cmdline {
				pids = append(pids, pid)
			}
		}
		return len(pids) > 0
	})
	group := freeze(wait, pids...)
	return func() {
		setFreezer(group, "THAWED")
		c.t.Cleanup(func() { wait("the group is empty", func() bool { return os.Remove(group) == nil }) })
	}
}
