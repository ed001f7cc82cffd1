package wiring

import (
	"context"
	"crypto/rand"
	"os"
	"os/user"
	"sync"
	"time"

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

// holderName names this machine as its claims do, such as "ann on buildhost-2".
func holderName(p *Project) string {
	return team.Claim{Machine: MachineName(p), Account: accountName()}.Holder()
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

// TeamOfPass is this machine as a member of the team during a pass.
type TeamOfPass struct {
	*team.Member
	remote *teamRemote
}

// NewTeamOfPass returns this machine as a member of the team, for a pass, and for views, which make no
// request; nil if repository.claims is off, or before the first pass.
func NewTeamOfPass(p *Project, cfg *workflow.Config, db *state.DB) (*TeamOfPass, error) {
	if !cfg.Repository.Claims.On || db == nil {
		return nil, nil //nolint:nilnil // there are no claims
	}
	remote := newTeamRemote(p, cfg, "pass-"+NewRunID(p.Env.Now()))
	member, err := newMember(p, cfg, db.Team, remote)
	if err != nil {
		return nil, err
	}
	return &TeamOfPass{Member: member, remote: remote}, nil
}

// Tip returns the commit of a branch of the remote; empty if it is gone.
func (t *TeamOfPass) Tip(ctx context.Context, branch string) (string, error) {
	return t.remote.tip(ctx, branch)
}

// Close ends the processes that git has left behind during the pass.
func (t *TeamOfPass) Close(ctx context.Context) error {
	return t.remote.close(ctx)
}
