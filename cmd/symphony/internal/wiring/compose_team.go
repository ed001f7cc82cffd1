package wiring

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"os/user"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// MachineVar is the variable with the name of this machine for its team; by default the host name.
const MachineVar = "SYMPHONY_MACHINE"

// NewTeam returns this machine as a member of the team that shares the project's repository, for a run;
// nil if repository.claims is off. The processes of git are marked as the run's, and end with it.
func NewTeam(p *Project, cfg *workflow.Config, db *state.DB, runID string) (*team.Member, error) {
	if !cfg.Repository.Claims.On {
		return nil, nil //nolint:nilnil // most projects have one machine
	}
	return newMember(p, cfg, db.Team, newTeamRemote(p, cfg, runID))
}

// newMember returns this machine as a member of the team, which reaches the others through remote.
func newMember(p *Project, cfg *workflow.Config, journal team.Journal, remote *teamRemote) (*team.Member, error) {
	claims := cfg.Repository.Claims
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	sinceBoot := proc.SinceBoot
	if p.Env.SinceBoot != nil {
		sinceBoot = p.Env.SinceBoot
	}
	return &team.Member{
		Remote:   remote,
		Journal:  journal,
		Terms:    team.Terms{Term: claims.Term, Watch: claims.Watch},
		Machine:  MachineName(p),
		Account:  accountName(),
		Project:  cfg.Policy.Project,
		Now:      p.Env.Now,
		Clock:    func() team.Instant { return team.Instant{Boot: boot, Since: sinceBoot()} },
		NewToken: rand.Text,
	}, nil
}

// MachineName is the name of this machine for its team.
func MachineName(p *Project) string {
	if name, _ := p.Lookup(MachineVar); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "a machine without a name"
	}
	return name
}

// accountName is the name of the account on this machine; empty if it has none.
func accountName() string {
	account, err := user.Current()
	if err != nil {
		return ""
	}
	return account.Username
}

// teamRemote reaches the claims in the remote when they are needed first: the login profile of the
// account may name an ssh agent or a credential helper of git.
type teamRemote struct {
	p      *Project
	config runner.Config
	runID  string
	dir    string        // of what was read from the remote
	limit  time.Duration // of each request, of which git itself has none

	opening sync.Mutex
	claims  host.Claims
}

func newTeamRemote(p *Project, cfg *workflow.Config, runID string) *teamRemote {
	return &teamRemote{
		p:      p,
		config: RunnerConfig(p, cfg),
		runID:  runID,
		dir:    mirrorsDir(p.StateDir),
		limit:  min(claimsLimit, cfg.Repository.Claims.Term/4),
	}
}

// claimsLimit is how long a request about claims may take. A renewal that takes longer than a quarter of
// the term would end after its claim.
const claimsLimit = 2 * time.Minute

// limited calls f with the limit on its time.
func limited[A any](ctx context.Context, r *teamRemote, f func(context.Context, host.Claims) (A, error)) (A, error) {
	call := func(ctx context.Context) (answer A, err error) {
		claims, err := r.open(ctx)
		if err != nil {
			return answer, err
		}
		return f(ctx, claims)
	}
	return host.Within(ctx, r.limit, host.CodeClaimsUnavailable, "the answer of the remote about claims", call)
}

// Look implements team.Remote.
func (r *teamRemote) Look(ctx context.Context) ([]team.Entry, error) {
	return limited(ctx, r, func(ctx context.Context, claims host.Claims) ([]team.Entry, error) {
		return claims.Look(ctx)
	})
}

// Change implements team.Remote.
func (r *teamRemote) Change(ctx context.Context, changes []team.Change) (map[string]team.Changed, error) {
	return limited(ctx, r, func(ctx context.Context, claims host.Claims) (map[string]team.Changed, error) {
		return claims.Change(ctx, changes)
	})
}

// tip returns the commit of a branch of the remote; empty if it is gone.
func (r *teamRemote) tip(ctx context.Context, branch string) (commit string, err error) {
	return limited(ctx, r, func(ctx context.Context, claims host.Claims) (string, error) {
		return claims.Tip(ctx, branch)
	})
}

// try finds out whether the remote takes claims.
func (r *teamRemote) try(ctx context.Context) error {
	_, err := limited(ctx, r, func(ctx context.Context, claims host.Claims) (struct{}, error) {
		return struct{}{}, claims.Try(ctx)
	})
	return err
}

// close ends the processes that git has left behind.
func (r *teamRemote) close(ctx context.Context) error {
	if r.claims == nil {
		return nil
	}
	_, err := ThisMachine().Run(r.runID).Kill(ctx, host.KillRequest{})
	return err
}

// open runs the login shell, once.
func (r *teamRemote) open(ctx context.Context) (host.Claims, error) {
	r.opening.Lock()
	defer r.opening.Unlock()
	if r.claims != nil {
		return r.claims, nil
	}
	profile, err := ThisMachine().Run(r.runID).Login(ctx, host.LoginRequest{
		Env:     append(r.config.HookEnv(r.p.Environ()), host.RunMark+"="+r.runID),
		Timeout: loginTimeout,
	})
	if err != nil {
		return nil, err
	}
	mirrors := local.Mirrors{Dir: r.dir, RunID: r.runID}
	env := r.config.GitEnv(r.p.Environ(), profile)
	r.claims = mirrors.Claims(r.config.Repository.Repository, r.config.Repository.ClaimsBranch, env)
	return r.claims, nil
}

// TeamClaims are the claims of the team, as a pass uses them. They implement reconcile.IssueClaims.
type TeamClaims struct {
	member *team.Member
	remote *teamRemote
	db     *state.DB
	looked team.Instant // when Confirm looked last
	// asked is what the tracker has answered about claims that nobody looks after
	asked reconcile.Tracked
}

// NewTeamClaims returns the claims of the team for a pass; nil if repository.claims is off, or before
// the first pass.
func NewTeamClaims(p *Project, cfg *workflow.Config, db *state.DB) (*TeamClaims, error) {
	if !cfg.Repository.Claims.On || db == nil {
		return nil, nil //nolint:nilnil // there are no claims
	}
	remote := newTeamRemote(p, cfg, "pass-"+NewRunID(p.Env.Now()))
	member, err := newMember(p, cfg, db.Team, remote)
	if err != nil {
		return nil, err
	}
	return &TeamClaims{member: member, remote: remote, db: db}, nil
}

// Member returns this machine as a member of the team; nil without a team.
func (t *TeamClaims) Member() *team.Member {
	if t == nil {
		return nil
	}
	return t.member
}

// confirmedFor is for how long a pass trusts its last look at the claims.
const confirmedFor = 5 * time.Second

// Confirm returns an error if another machine has an issue, before a pass changes something about it
// that people see. A pass looks at most every five seconds.
func (t *TeamClaims) Confirm(ctx context.Context, i team.Issue) error {
	if t == nil {
		return nil
	}
	now := t.member.Clock()
	age, isKnown := now.Sub(t.looked)
	if !isKnown || age >= confirmedFor {
		if err := t.member.Look(ctx); err != nil {
			return err
		}
		t.looked = now
	}
	return t.member.Check(ctx, i)
}

// Confirmed returns a tracker whose steps that people see fail for issues that other machines have.
func (t *TeamClaims) Confirmed(tracker *reconcile.TrackerAdapter) *reconcile.TrackerAdapter {
	if t == nil || tracker == nil {
		return tracker
	}
	confirmed := *tracker
	named := func(issueID string) team.Issue { return team.Issue{ID: issueID, Identifier: "the issue"} }
	if tracker.Move != nil {
		confirmed.Move = func(ctx context.Context, issueID, state string) error {
			if err := t.Confirm(ctx, named(issueID)); err != nil {
				return err
			}
			return tracker.Move(ctx, issueID, state)
		}
	}
	if tracker.Post != nil {
		confirmed.Post = func(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
			if err := t.Confirm(ctx, named(issueID)); err != nil {
				return reconcile.Comment{}, err
			}
			return tracker.Post(ctx, issueID, body)
		}
	}
	if tracker.Edit != nil {
		confirmed.Edit = func(ctx context.Context, issueID, commentID, body string) (string, error) {
			if err := t.Confirm(ctx, named(issueID)); err != nil {
				return "", err
			}
			return tracker.Edit(ctx, issueID, commentID, body)
		}
	}
	return &confirmed
}

// Close ends the processes that git has left behind during the pass.
func (t *TeamClaims) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.remote.close(ctx)
}

// Known implements reconcile.IssueClaims. An issue whose claim may be free by now is not among them: if
// it could start, Take looks who has it.
func (t *TeamClaims) Known(ctx context.Context) (known reconcile.Claimed, err error) {
	others, taken, err := t.member.Known(ctx)
	if err != nil {
		return known, err
	}
	maps.DeleteFunc(others, func(_ string, e team.Elsewhere) bool { return e.MayBeFree })
	known.Elsewhere = sentences(others)
	known.Taken = sentences(taken)
	return known, nil
}

// Take implements reconcile.IssueClaims.
func (t *TeamClaims) Take(
	ctx context.Context,
	issues []reconcile.Issue,
	dryRun bool,
) (not reconcile.NotTaken, err error) {
	if dryRun {
		return not, nil
	}
	var wanted []team.Issue
	for _, i := range issues {
		wanted = append(wanted, team.Issue{ID: i.ID, Identifier: i.Identifier})
	}
	own, err := t.member.Own(ctx)
	if err != nil {
		return not, err
	}
	missing, err := t.member.Take(ctx, wanted)
	if err != nil {
		return not, err
	}
	for _, i := range wanted {
		if missing.Has(i.ID) {
			continue
		}
		isNew := !slices.ContainsFunc(own, func(c team.Claim) bool { return c.IssueID == i.ID })
		if err := t.inherit(ctx, i, isNew); err != nil {
			return not, err
		}
	}
	return reconcile.NotTaken{Elsewhere: sentences(missing.Elsewhere), Refused: missing.Refused}, nil
}

// inherit records what another machine has delivered for an issue that this one has taken from it, so
// that the work goes on from there. The claim of the issue names the branch. If the claim is new here,
// what this machine has delivered before is older, and forgotten.
func (t *TeamClaims) inherit(ctx context.Context, i team.Issue, isNew bool) error {
	claim, isHeld, err := t.member.Held(ctx, i.ID)
	if err != nil || !isHeld || claim.Branch == "" {
		return err
	}
	if isNew {
		err := t.db.Store.Commit(ctx, t.member.Now(), reconcile.Change{ForgetWork: i.ID})
		if err != nil {
			return err
		}
	}
	_, isKnown, err := t.db.Delivered(ctx, i.ID)
	if err != nil || isKnown {
		return err
	}
	commit, err := t.remote.tip(ctx, claim.Branch)
	if err != nil || commit == "" {
		return err
	}
	work := t.workIn(claim)
	work.Commit = commit
	return t.db.Team.Inherit(ctx, i.ID, work)
}

// workIn is what another machine has done for an issue, by its claim.
func (t *TeamClaims) workIn(c team.Claim) state.Work {
	return state.Work{
		Delivered: reconcile.Delivered{
			URL:         t.remote.config.Repository.URL,
			Branch:      c.Branch,
			Commit:      c.Commit,
			Base:        t.remote.config.Repository.Base,
			At:          t.member.Now(),
			PullRequest: c.PullRequest,
			Origin:      c.Holder(),
		},
		Handled: c.Handled,
		Rounds:  c.Rounds,
	}
}

// These are the keys of the moments at which a pass last looked which machines are heard of, and last
// asked the tracker about issues whose claims may be taken.
const (
	lookedKey = "team_looked"
	askedKey  = "team_asked"
)

// looksIn is how many looks there are in the term of a claim that waits for a review.
const looksIn = 24

// TakeOver takes the claims of issues that need no agent now, and that nobody works on: those of
// machines that are not heard of any more, and free ones. This machine watches those that wait for a
// review from now on. The claims of finished issues are deleted at the end of the pass. Active issues
// are taken when they are started.
func (t *TeamClaims) TakeOver(ctx context.Context, tracker *reconcile.TrackerAdapter, handoff string) error {
	if err := t.lookIfDue(ctx); err != nil {
		return err
	}
	// once an hour, because some of them are of issues that the tracker does not have any more
	isDue, err := t.isDue(ctx, askedKey)
	if err != nil || !isDue {
		return err
	}
	left, err := t.left(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	var ids []string
	for _, c := range left {
		ids = append(ids, c.IssueID)
	}
	t.asked.ByID, err = tracker.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	t.asked.Refreshed = map[string]bool{}
	for _, id := range ids {
		t.asked.Refreshed[id] = true
	}
	var taking []team.Issue
	for _, c := range left {
		issue, isVisible := t.asked.ByID[c.IssueID]
		if isVisible && (isIn(issue, handoff) || t.policy().Terminal(issue.State)) {
			taking = append(taking, team.Issue{ID: issue.ID, Identifier: issue.Identifier})
		}
	}
	missing, err := t.member.TakeForReview(ctx, taking)
	if err != nil {
		return err
	}
	for _, c := range left {
		issue, isVisible := t.asked.ByID[c.IssueID]
		isMissing := missing.Has(c.IssueID) // another machine was faster, or the first one is back
		if !isVisible || !isIn(issue, handoff) || isMissing {
			continue
		}
		if err := t.db.Team.InheritReview(ctx, issue, t.workIn(c), t.member.Now()); err != nil {
			return err
		}
	}
	return t.done(ctx, askedKey)
}

// isIn reports whether an issue is in a state; it is in none without a name.
func isIn(i reconcile.Issue, state string) bool {
	return state != "" && reconcile.SameState(i.State, state)
}

func (t *TeamClaims) policy() reconcile.Policy { return t.remote.config.Policy }

// left are the claims that this machine may take, as it saw them last, and those of its own whose issues
// it does not work on now. Nobody looks after these issues.
func (t *TeamClaims) left(ctx context.Context) ([]team.Claim, error) {
	ended, err := t.member.Ended(ctx)
	if err != nil {
		return nil, err
	}
	own, err := t.member.Own(ctx)
	if err != nil {
		return nil, err
	}
	// one that a pass has taken is among the ended ones until the next look
	isOwn := func(c team.Claim) bool {
		return slices.ContainsFunc(own, func(o team.Claim) bool { return o.IssueID == c.IssueID })
	}
	ended = slices.DeleteFunc(ended, isOwn)
	needed, err := t.needed(ctx)
	if err != nil {
		return nil, err
	}
	isNeeded := func(c team.Claim) bool {
		return slices.ContainsFunc(needed, func(k team.Keep) bool { return k.ID == c.IssueID })
	}
	return append(ended, slices.DeleteFunc(own, isNeeded)...), nil
}

// lookIfDue looks at the claims of all machines if the last look is some time ago.
func (t *TeamClaims) lookIfDue(ctx context.Context) error {
	isDue, err := t.isDue(ctx, lookedKey)
	if err != nil || !isDue {
		return err
	}
	if err := t.done(ctx, lookedKey); err != nil {
		return err
	}
	return t.member.Look(ctx)
}

// isDue reports whether something was last done an hour ago, or another part of a review's term.
func (t *TeamClaims) isDue(ctx context.Context, key string) (bool, error) {
	stored, _, err := t.db.Meta(ctx, key)
	if err != nil {
		return false, err
	}
	var last team.Instant
	_ = json.Unmarshal([]byte(stored), &last) // nothing before the first time
	age, isKnown := t.member.Clock().Sub(last)
	return !isKnown || age >= t.member.Terms.Watch/looksIn, nil
}

// done records that something was done now.
func (t *TeamClaims) done(ctx context.Context, key string) error {
	now, err := json.Marshal(t.member.Clock())
	if err != nil {
		return err
	}
	return t.db.SetMeta(ctx, key, string(now))
}

// Release implements reconcile.IssueClaims: the claims stay until the issues need no more work.
func (t *TeamClaims) Release() {}

// Settle implements reconcile.IssueClaims.
func (t *TeamClaims) Settle(ctx context.Context, tracked *reconcile.Tracked) error {
	keep, err := t.kept(ctx, tracked)
	if err != nil {
		return err
	}
	return t.member.Settle(ctx, keep)
}

// kept are the issues whose claims stay. Those that need this machine now are its own. Any other machine
// may take one that is not finished, such as an issue that was sent back while this machine has no free
// slot: its claim becomes free, and says where the work goes on.
func (t *TeamClaims) kept(ctx context.Context, tracked *reconcile.Tracked) (keep []team.Keep, err error) {
	keep, err = t.needed(ctx)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, k := range keep {
		needed[k.ID] = true
	}
	own, err := t.member.Own(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range own {
		ids = append(ids, c.IssueID)
	}
	told, err := t.db.Team.Told(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, c := range own {
		if needed[c.IssueID] {
			continue
		}
		fate, err := t.fateOf(ctx, c.IssueID, tracked)
		if err != nil {
			return nil, err
		}
		k := team.Keep{
			Issue:  team.Issue{ID: c.IssueID, Identifier: c.Identifier},
			Status: team.Free,
		}
		switch {
		case fate == isFinished:
		case told[c.IssueID] && fate != isIdle: // no other machine could tell the agent
			k.Status = team.Working
			keep = append(keep, k)
		case c.Branch != "":
			keep = append(keep, k)
		}
	}
	return keep, t.addWork(ctx, keep)
}

// fate is what becomes of an issue on which no machine works.
type fate string

const (
	isFinished fate = "finished" // it is in a terminal state, or the tracker does not have it any more
	isIdle     fate = "idle"     // no agent would work on it now
	isAwaited  fate = "awaited"  // an agent is to work on it, or it is not known what becomes of it
)

// fateOf says what becomes of an issue, by the tracker's answers in this pass. Without one it is
// finished if its agent has moved it to a terminal state.
func (t *TeamClaims) fateOf(ctx context.Context, issueID string, tracked *reconcile.Tracked) (fate, error) {
	for _, answer := range []*reconcile.Tracked{tracked, &t.asked} {
		if answer == nil || !answer.Refreshed[issueID] {
			continue
		}
		issue, isVisible := answer.ByID[issueID]
		switch {
		case !isVisible, t.policy().Terminal(issue.State):
			return isFinished, nil
		case !t.policy().Active(issue.State):
			return isIdle, nil
		}
		return isAwaited, nil
	}
	last, err := t.db.Views.Releases(ctx, issueID, 1)
	if err != nil {
		return "", err
	}
	if len(last) > 0 && last[0].To != nil && t.policy().Terminal(*last[0].To) {
		return isFinished, nil
	}
	return isAwaited, nil
}

// needed are the issues that need this machine: those that it works on, and those whose review it waits
// for.
func (t *TeamClaims) needed(ctx context.Context) (keep []team.Keep, err error) {
	stored, err := t.db.Store.State(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range stored.Claims {
		keep = append(keep, team.Keep{
			Issue:     team.Issue{ID: c.IssueID, Identifier: c.Identifier},
			Status:    team.Working,
			HasWorker: c.Status == reconcile.Running,
		})
	}
	reviews, err := t.db.Views.Reviews(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range reviews {
		keep = append(keep, team.Keep{
			Issue:  team.Issue{ID: r.IssueID, Identifier: r.Identifier},
			Status: team.Watching,
		})
	}
	return keep, nil
}

// addWork adds what was delivered for issues, for the machine that goes on with them.
func (t *TeamClaims) addWork(ctx context.Context, keep []team.Keep) error {
	var ids []string
	for _, k := range keep {
		ids = append(ids, k.ID)
	}
	done, err := t.db.Team.Work(ctx, ids)
	if err != nil {
		return err
	}
	for i := range keep {
		work := done[keep[i].ID]
		keep[i].Branch = work.Branch
		keep[i].Commit = work.Commit
		keep[i].PullRequest = work.PullRequest
		keep[i].Handled = work.Handled
		keep[i].Rounds = work.Rounds
	}
	return nil
}

// Elsewhere says who has issues instead of this machine, as it saw that last, by their ids. It makes no
// request.
func (t *TeamClaims) Elsewhere(ctx context.Context) (map[string]string, error) {
	others, _, err := t.member.Known(ctx)
	return sentences(others), err
}

// sentences are the reasons in words.
func sentences(all map[string]team.Elsewhere) map[string]string {
	said := map[string]string{}
	for id, e := range all {
		said[id] = e.String()
	}
	return said
}
