package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// OpenAccount opens the account that the project's agents use. An account is identified by the
// home of the agents, in which its login is.
func OpenAccount(p *Project, home string) *state.Account {
	kind := DefaultAgent()
	fromEnv, _ := p.Lookup(kind.HomeVar)
	home = cmp.Or(home, fromEnv, filepath.Join(p.Env.Home, kind.HomeDir))
	if !filepath.IsAbs(home) {
		// the same for every process of the project
		home = filepath.Join(filepath.Dir(p.Path), home)
	}
	base, _ := p.Lookup("XDG_STATE_HOME")
	return state.NewAccount(base, p.Env.Home, home)
}

// MaxAgents is the limit of live runs over all projects of the account; 0 for no limit.
func MaxAgents(p *Project) (int, error) {
	value, _ := p.Lookup(reconcile.MaxAgentsVar)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		where := "the environment"
		if _, inEnv := p.Env.Lookup(reconcile.MaxAgentsVar); !inEnv {
			where = p.EnvPath()
		}
		return 0, reconcile.NewError(
			"invalid_config",
			fmt.Sprintf("%s: %s is %q", where, reconcile.MaxAgentsVar, value),
			"set it to a whole number of at least 1, or unset it; until then no run starts",
		)
	}
	return n, nil
}

// AgentAccount is the account of an agent that may work on issues.
type AgentAccount struct {
	reconcile.Agent
	*state.Account
}

// ChosenAgent returns the agent of a choice. Its home, without links, stands for its account.
func ChosenAgent(p *Project, c workflow.AgentChoice) reconcile.Agent {
	return reconcile.Agent{Kind: c.Kind, Home: OpenAccount(p, c.Home).Home}
}

// ChoiceOf returns the choice of an agent, the first one if none is of that agent.
func ChoiceOf(p *Project, choices []workflow.AgentChoice, a reconcile.Agent) workflow.AgentChoice {
	i := slices.IndexFunc(choices, func(c workflow.AgentChoice) bool { return ChosenAgent(p, c) == a })
	return choices[max(i, 0)]
}

// PassPolicy is the policy with the agents that may work on issues.
func PassPolicy(p *Project, cfg *workflow.Config) reconcile.Policy {
	pol := Policy(cfg)
	agents := func(list []workflow.AgentChoice) []reconcile.Agent {
		return text.Map(list, func(c workflow.AgentChoice) reconcile.Agent { return ChosenAgent(p, c) })
	}
	pol.Agents = agents(cfg.AgentsFor(nil))
	for _, row := range cfg.Agent.ByLabel {
		pol.AgentsByLabel = append(pol.AgentsByLabel, reconcile.LabelAgents{
			Label:  row.Label,
			Agents: agents(row.AgentsOfRow()),
		})
	}
	return pol
}

// Accounts opens the accounts of all agents of a policy, in order.
func Accounts(p *Project, pol reconcile.Policy) []AgentAccount {
	return text.Map(pol.AllAgents(), func(a reconcile.Agent) AgentAccount {
		return AgentAccount{Agent: a, Account: OpenAccount(p, a.Home)}
	})
}

// ForEachAccount calls f for every account of the agents that may work on issues.
func ForEachAccount(p *Project, cfg *workflow.Config, f func(*state.Account) error) error {
	var errs []error
	for _, a := range Accounts(p, PassPolicy(p, cfg)) {
		errs = append(errs, f(a.Account))
	}
	return errors.Join(errs...)
}

// PassAccounts are the accounts as a pass uses them. The first has the slots.
type PassAccounts struct {
	all      []AgentAccount
	stateDir string
	max      int // 0: the number of runs is not bounded
	warn     func(string)
	warned   sync.Once
	slots    chan *os.File // taken, not yet passed to a worker
}

// Look implements reconcile.Accounts.
func (a *PassAccounts) Look(_ context.Context, now time.Time) []reconcile.Account {
	return text.Map(a.all, func(one AgentAccount) reconcile.Account {
		s, err := one.Read(now)
		if err != nil {
			a.warned.Do(func() { a.warn(exit.From(err).Message) })
		}
		out := reconcile.Account{Agent: one.Agent, Limit: s.Limit, Block: s.Block, Over: s.Over}
		if s.Probe != "" {
			// The worker of the probe holds its alive file as long as it lives. If the file
			// can't be read, the probe counts as ended: otherwise no further run would test
			// the block.
			pulse, err := proc.ProbeAlive(s.Probe)
			out.Probing = err == nil && pulse.Held
		}
		return out
	})
}

// TakeSlots implements reconcile.Accounts.
func (a *PassAccounts) TakeSlots(ctx context.Context, want int, dryRun bool) (*reconcile.Slots, error) {
	if a.max == 0 {
		return nil, nil
	}
	first := a.all[0].Account
	if dryRun {
		count, err := first.CountSlots(ctx, a.max, want)
		count.Home = first.Home
		count.Max = a.max
		return &count, err
	}
	a.Release()
	slots, count, err := first.TakeSlots(ctx, a.max, want)
	count.Home = first.Home
	count.Max = a.max
	a.slots = make(chan *os.File, len(slots))
	for _, f := range slots {
		a.slots <- f
	}
	return &count, err
}

// NextSlot hands out a slot that was taken earlier, nil if the number of runs is not bounded.
func (a *PassAccounts) NextSlot() (*os.File, error) {
	if a.max == 0 {
		return nil, nil
	}
	select {
	case slot := <-a.slots:
		return slot, nil
	default:
		return nil, reconcile.NewError(
			reconcile.CodeSpawnFailed,
			"no slot of "+reconcile.MaxAgentsVar+" is left",
			"the next pass tries again",
		)
	}
}

// Release implements reconcile.Accounts.
func (a *PassAccounts) Release() {
	for {
		select {
		case f := <-a.slots:
			f.Close()
		default:
			return
		}
	}
}

// Probe implements reconcile.Accounts.
func (a *PassAccounts) Probe(ctx context.Context, b reconcile.Block, run reconcile.Run) error {
	i := slices.IndexFunc(a.all, func(one AgentAccount) bool { return one.Agent == run.Agent })
	if i < 0 {
		return fmt.Errorf("no account of the agent %s", run.Agent.Kind)
	}
	return a.all[i].Probe(ctx, run.StartedAt, b, AliveFile(a.stateDir, run.ID))
}

// OpenPassAccounts opens the accounts of a policy's agents for a pass. A wrong limit counts as
// none here: the pass reports it and starts nothing.
func OpenPassAccounts(p *Project, pol reconcile.Policy, warn func(string)) *PassAccounts {
	most, _ := MaxAgents(p)
	return &PassAccounts{
		all:      Accounts(p, pol),
		stateDir: p.StateDir,
		max:      most,
		warn:     warn,
	}
}

// ForgetLimits makes the next pass ask the tracker and the forge although their allowance was used
// up, and try the claims again that the remote of a team has refused.
func ForgetLimits(ctx context.Context, db *state.DB) error {
	return errors.Join(
		db.SetMeta(ctx, transport.LimitKey("tracker"), ""),
		db.SetMeta(ctx, transport.LimitKey("forge"), ""),
		db.SetMeta(ctx, state.RefusalsKey, ""),
	)
}

// Limited reports whether an allowance of the tracker or the forge counts as used up.
func Limited(ctx context.Context, p *Project, db *state.DB) (bool, error) {
	for _, key := range []string{transport.LimitKey("tracker"), transport.LimitKey("forge")} {
		stored, _, err := db.Meta(ctx, key)
		if err != nil {
			return true, err
		}
		ms, _ := strconv.ParseInt(stored, 10, 64) // empty for no limit
		if ms > p.Env.Now().UnixMilli() {
			return true, nil
		}
	}
	return false, nil
}

// BlockedRow is a condition that keeps all issues of a project from starting.
type BlockedRow struct {
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	NextTry time.Time `json:"next_try"`
	// Until is when the block ends by itself, where that is known.
	Until *time.Time `json:"until"`
	// Status is the status of the HTTP answer that was the fault, such as 503; 0 for other
	// faults.
	Status int `json:"-"`
}

// BlockedBy returns the most important block, nil for none. A block of the tracker comes
// first.
func BlockedBy(rec reconcile.State) *BlockedRow {
	b := cmp.Or(rec.TrackerBlock, rec.MachineBlock, rec.AgentBlock)
	if b == nil {
		return nil
	}
	return &BlockedRow{
		Since:   b.Since.UTC(),
		Reason:  b.Code,
		Message: b.Message,
		NextTry: b.NextTry.UTC(),
		Status:  b.Status,
	}
}

// AgentsBlock returns the condition that stops all usual agents of the project, nil if any of
// them can work. It ends when the first of theirs does.
func AgentsBlock(p *Project, cfg *workflow.Config, now time.Time) *BlockedRow {
	pol := PassPolicy(p, cfg)
	var all *BlockedRow
	for _, a := range pol.Agents {
		b := AccountBlock(OpenAccount(p, a.Home), now)
		if b == nil {
			return nil
		}
		if all == nil {
			all = b
			continue
		}
		all.Message += "; " + pol.AgentName(a) + ": " + b.Message
		if b.NextTry.Before(all.NextTry) {
			all.NextTry = b.NextTry
			all.Until = b.Until
		}
	}
	return all
}

// Instead names the usual agent that works while the account of another can't be used; empty if
// none does.
func Instead(p *Project, pol reconcile.Policy, of reconcile.Agent, now time.Time) string {
	if !slices.Contains(pol.Agents, of) {
		return "" // only a label chooses it
	}
	for _, a := range pol.Agents {
		if a != of && AccountBlock(OpenAccount(p, a.Home), now) == nil {
			return pol.AgentName(a)
		}
	}
	return ""
}

// AccountBlock returns the condition that stops all projects of the account, nil for none. An
// account that can't be read stops nothing, and each pass reports it.
func AccountBlock(a *state.Account, now time.Time) *BlockedRow {
	s, err := a.Read(now)
	if err != nil {
		return nil
	}
	switch {
	case s.Limit != nil:
		until := s.Limit.Until.UTC()
		return &BlockedRow{
			Since:   s.Limit.Since.UTC(),
			Reason:  reconcile.CodeAgentQuota,
			Message: s.Limit.Text(a.Home, now),
			NextTry: until,
			Until:   &until,
		}
	case s.Block != nil:
		return &BlockedRow{
			Since:   s.Block.Since.UTC(),
			Reason:  s.Block.Code,
			Message: s.Block.Message,
			NextTry: s.Block.NextTry.UTC(),
		}
	}
	return nil
}
