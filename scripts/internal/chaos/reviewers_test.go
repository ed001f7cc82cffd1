//go:build linux

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// With -merges there are many issues, whose agents only commit and hand over, and reviewers who
// approve at once, so that many pull requests are merged while processes are killed.

// issueCount is how many issues there are at the beginning: with -merges as many as a storm may
// merge, because agents hand all of them over before it.
func issueCount() int {
	if *merges {
		return min(10+*seconds, 40)
	}
	return allIssues
}

// quickWorkflow lets more agents work at once.
func quickWorkflow(text string) string {
	return strings.Replace(text, "max_concurrent_agents: 4", "max_concurrent_agents: 6", 1)
}

// fill lets agents hand over all issues before the storm.
func (c *checker) fill(ctx context.Context) {
	c.remote.rests.Store(true)
	c.forge.setCalm(true)
	isLeft := func(i lineartest.Issue) bool { return i.State != "Human Review" }
	for end := time.Now().Add(5 * time.Minute); slices.ContainsFunc(c.tracker.Issues(), isLeft); {
		if time.Now().After(end) {
			panic("the issues are not handed over after five minutes")
		}
		c.calmPass(ctx)
	}
	c.remote.rests.Store(false)
	c.forge.setCalm(false)
}

// supply moves an issue that is done back to the agents, so that there is always something to
// merge. Sometimes it moves an issue in review, whose pull request may be armed.
func (s *scene) supply(random *rand.Rand) error {
	i := s.tracker.Issues()[ownedIssues+random.IntN(issueCount()-ownedIssues)]
	if i.State == "Done" || i.State == "Human Review" && random.IntN(4) == 0 {
		return s.tracker.Move(i.Identifier, "Todo")
	}
	return nil
}

// mergeStep is a request that makes a merge, arms one or takes that back: how many in a hundred
// passes are killed then.
type mergeStep int

const (
	noMergeStep mergeStep = 0
	aMergeStep  mergeStep = 15
	disarmStep  mergeStep = 40 // there are few
)

func mergeStepOf(r *http.Request, body []byte) mergeStep {
	switch {
	case bytes.Contains(body, []byte("disablePullRequestAutoMerge")):
		return disarmStep
	case bytes.Contains(body, []byte("PullRequestAutoMerge")):
		return aMergeStep
	case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/merge"):
		return aMergeStep
	}
	return noMergeStep
}

// mergeStriker kills passes, and sometimes a worker, while the forge has a request that makes a
// merge, arms one or takes that back, or just after it has answered.
func (c *checker) mergeStriker(ctx context.Context) error {
	random := c.random("merge striker")
	for {
		var at mergeStep
		select {
		case <-ctx.Done():
			return nil
		case at = <-c.forge.merging:
		}
		if random.IntN(100) >= int(at) {
			continue
		}
		pause(ctx, time.Duration(random.IntN(80))*time.Millisecond)
		list, err := c.processes()
		if err != nil {
			return fmt.Errorf("merge striker: %w", err)
		}
		list = slices.DeleteFunc(list, func(p process) bool {
			isRare := p.kind() == "worker" && random.IntN(4) > 0
			return isRare || !slices.Contains([]string{"worker", "pass", "loop"}, p.kind())
		})
		for _, p := range list {
			if err := c.hit(ctx, p, syscall.SIGKILL, 0, nil); err != nil {
				return fmt.Errorf("merge striker: %w", err)
			}
		}
	}
}

// reviewers judge pull requests at once during the storm.
func (c *checker) reviewers(ctx context.Context) error {
	random := c.random("reviewers")
	for n := 0; pause(ctx, time.Duration(50+random.IntN(100))*time.Millisecond); n++ {
		if n%2 == 0 {
			// a stopped process may have the database
			_ = c.write(ctx, tryAgain)
			_ = c.write(ctx, forget)
		}
		if err := stage.Catch(func() { c.reviewOne(ctx, random) }); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// reviewOne lets someone do something about a pull request whose issue is in review.
func (c *checker) reviewOne(ctx context.Context, random *rand.Rand) {
	f := c.forge
	inReview := map[string]bool{}
	for _, i := range c.tracker.Issues() {
		inReview[i.Identifier] = i.State == "Human Review"
	}
	open := text.Filter(f.pulls(ctx), func(p githubtest.Pull) bool {
		isArmed := p.AutoMerge != ""
		issue := p.Branch[strings.LastIndex(p.Branch, "/")+1:]
		return p.State == "open" && time.Now().After(f.rests[p.Number]) && (inReview[issue] || isArmed)
	})
	if len(open) == 0 {
		return
	}
	p := open[random.IntN(len(open))]
	armed := text.Filter(open, func(p githubtest.Pull) bool { return p.AutoMerge != "" })
	if len(armed) > 0 && random.IntN(2) == 0 {
		c.judgeArmed(ctx, armed[random.IntN(len(armed))], random)
		return
	}
	switch random.IntN(20) {
	case 0:
		f.review(p.Number, "CHANGES_REQUESTED", true)
	case 1:
		f.fail(p.Commit, true)
	case 2:
		f.edit(p.Number, func(p *githubtest.Pull) { p.Draft = true }) // until its next review
	case 3, 4:
		f.edit(p.Number, func(p *githubtest.Pull) { p.Behind = !p.Behind })
	case 5, 6, 7, 8, 9, 10, 11:
		// The base requires one approval more, so that the forge is to merge it later.
		f.edit(p.Number, func(p *githubtest.Pull) {
			p.Behind = false
			p.Approvals = approvals(p) + 2
		})
		f.approveNow(p, "kim")
		f.rests[p.Number] = time.Now().Add(2 * time.Second)
	default:
		f.edit(p.Number, func(p *githubtest.Pull) { p.Approvals = 0 })
		f.approveNow(p, "kim")
		f.rests[p.Number] = time.Now().Add(time.Duration(1+random.IntN(4)) * time.Second)
	}
}

// judgeArmed does something about a pull request that the forge is to merge later.
func (c *checker) judgeArmed(ctx context.Context, p githubtest.Pull, random *rand.Rand) {
	f := c.forge
	if f.armed[p.Number] == "" {
		f.armed[p.Number] = p.Commit
	}
	if f.armed[p.Number] != p.Commit { // someone approves what he saw before the last push
		f.edit(p.Number, func(now *githubtest.Pull) {
			now.Reviews = append(now.Reviews, approval("bob", f.armed[p.Number]))
		})
		return
	}
	switch random.IntN(10) {
	case 0: // a person ends auto-merge
		f.edit(p.Number, func(p *githubtest.Pull) { p.AutoMerge = "" })
		f.ended[p.Commit] = true
	case 1, 2, 3:
		c.draftForAMoment(ctx, p)
	case 4, 5, 6:
		issue := p.Branch[strings.LastIndex(p.Branch, "/")+1:]
		stage.Must(c.tracker.Move(issue, "Todo"))
		f.rests[p.Number] = time.Now().Add(5 * time.Second)
	default:
		f.approveNow(p, "bob")
	}
}

// draftForAMoment makes a pull request a draft until symphony has ended its auto-merge, which a
// pass may not live to record.
func (c *checker) draftForAMoment(ctx context.Context, p githubtest.Pull) {
	set := func(draft bool) {
		c.forge.edit(p.Number, func(p *githubtest.Pull) { p.Draft = draft })
	}
	set(true)
	_ = c.write(ctx, forget) // a stopped process may have the database
	isArmed := func(now githubtest.Pull) bool { return now.Number == p.Number && now.AutoMerge != "" }
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && pause(ctx, 20*time.Millisecond); {
		if !slices.ContainsFunc(c.forge.hub.Pulls(ctx), isArmed) {
			break
		}
	}
	set(false)
}

// approvals counts what the fake counts for Pull.Approvals.
func approvals(p *githubtest.Pull) (n int) {
	for _, r := range p.Reviews {
		if r.State == "APPROVED" && r.Writer {
			n++
		}
	}
	return n
}

func approval(author, commit string) githubtest.Review {
	return githubtest.Review{
		Author: author,
		Role:   "MEMBER",
		Writer: true,
		State:  "APPROVED",
		Commit: commit,
		At:     time.Now().Add(-3 * time.Minute),
	}
}

// approveNow approves the newest commit of a pull request, whose checks succeed, and which is no
// draft any more. The forge may merge it at once.
func (f *forge) approveNow(p githubtest.Pull, author string) {
	f.hub.SetChecks(p.Commit, githubtest.Check{Name: "lint", State: "SUCCESS"})
	f.edit(p.Number, func(now *githubtest.Pull) {
		if now.Commit != p.Commit { // a push was faster: its checks are not known
			return
		}
		f.mu.Lock()
		f.proven[now.Commit] = true
		f.mu.Unlock()
		now.Draft = false
		now.Reviews = append(now.Reviews, approval(author, now.Commit))
	})
}

// judgeMerges lets reviewers approve all that is in review, with a tracker, a remote and a forge
// that work, and checks that all of that is merged.
func (c *checker) judgeMerges(ctx context.Context) {
	isAtWork := func(i lineartest.Issue) bool { return i.State == "Todo" || i.State == "In Progress" }
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		stage.Must(c.write(ctx, forget))
		c.calmPass(ctx)
		claims := c.query(ctx, `SELECT issue_id FROM claims WHERE status <> 'held'`)
		held := c.query(ctx, `SELECT identifier FROM claims WHERE status = 'held'`)
		isLeft := func(i lineartest.Issue) bool { return isAtWork(i) && !slices.Contains(held, i.Identifier) }
		if len(claims) == 0 && !slices.ContainsFunc(c.tracker.Issues(), isLeft) {
			break
		}
	}
	for _, i := range c.tracker.Issues() {
		if !isAtWork(i) {
			c.handedOver++
		}
	}
	approved := map[int]bool{}
	for _, j := range c.judgedPulls(ctx) {
		below := c.forge.withoutUpdates(j.pull.Commit)
		main := stage.Get(c.remote.run("rev-parse", "main"))
		_, conflict := c.remote.run("merge-tree", "--write-tree", main, j.pull.Commit)
		isOpen := j.pull.State == "open" && j.named.State == "Human Review" && j.Claim == "" && j.Ended == 0
		isOwn := below[len(below)-1] == j.Commit && !c.forge.ended[j.pull.Commit]
		if !isOpen || !isOwn || conflict != nil {
			continue
		}
		c.forge.edit(j.pull.Number, func(p *githubtest.Pull) {
			p.Approvals = 0
			p.Behind = false
		})
		c.forge.approveNow(j.pull, "kim")
		approved[j.pull.Number] = true
	}
	stage.Must(c.write(ctx, tryAgain))
	c.judgedAtEnd = len(approved)
	c.followPulls(ctx)
	for _, j := range c.judgedPulls(ctx) {
		if approved[j.pull.Number] && (j.pull.Merges != 1 || j.named.State != "Done") {
			c.fault("merges lost", "approved and green: %s, merge %+v", j, j.Watch.Merge)
		}
	}
	c.checkMerged(ctx)
	c.checkMerges()
}

// beCalm makes verify succeed from now on.
func (s *scene) beCalm() {
	stage.Must(os.WriteFile(filepath.Join(s.Dir, "calm"), nil, 0o600))
}
