package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func authBlock(tries int, next time.Duration) *Block {
	return &Block{
		Code:    CodeAgentAuth,
		Message: "log in",
		Since:   noon.Add(-time.Hour),
		NextTry: noon.Add(next),
		Tries:   tries,
	}
}

// While a limit of the account is used up nothing starts; while login or allowance fail, one
// run at a time.
func TestAccount(t *testing.T) {
	limit := &Limit{
		Window: "primary",
		Since:  noon.Add(-time.Hour),
		Until:  noon.Add(2*time.Hour + 5*time.Minute),
	}
	auth := authBlock
	for _, row := range []struct {
		rule    string
		account Account
		own     *Block // the project's
		run     func(*Claim, *Run)
		want    string
	}{
		{"used up", Account{Limit: limit}, nil, nil, "skip A-2 rate_limited"},
		{"used up, not even a probe", Account{
			Limit: limit,
			Block: auth(0, 0),
		}, nil, nil, "skip A-2 rate_limited"},
		{"blocked", Account{Block: auth(0, time.Second)}, nil, nil, "skip A-2 blocked"},
		{"one probe", Account{Block: auth(0, 0)}, nil, nil, "dispatch A-2 probe"},
		{"another project's probe lives", Account{
			Block:   auth(1, 0),
			Probing: true,
		}, nil, nil, "skip A-2 blocked"},
		{
			"our own probe lives",
			Account{Block: auth(1, 0)},
			nil,
			func(_ *Claim, r *Run) { r.StartedAt = noon.Add(-time.Minute) },
			"skip A-2 blocked",
		},
		{
			"a run from before the block is no probe",
			Account{Block: auth(0, 0)},
			nil,
			func(_ *Claim, r *Run) { r.StartedAt = noon.Add(-2 * time.Hour) },
			"dispatch A-2 probe",
		},
		{"the project's own block, too", Account{Block: auth(0, 0)}, &Block{
			Code:    "network",
			Since:   noon,
			NextTry: noon.Add(time.Second),
		}, nil, "skip A-2 blocked"},
		{"one probe of both", Account{Block: auth(0, 0)}, &Block{
			Code:    "network",
			Since:   noon,
			NextTry: noon,
		}, nil, "dispatch A-2 probe"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().claim(issueNo(3), nil)
			if row.run != nil {
				s.running(issueNo(1), row.run)
			}
			s.same().candidates(issueNo(2))
			s.Accounts = []Account{row.account}
			s.AgentBlock = row.own
			equal(t, "plan", story(Compute(s.Snapshot)), row.want)
		})
	}
}

// A limit of runs over all projects goes to the first contenders.
func TestAccountSlots(t *testing.T) {
	for want, slots := range map[string]Slots{
		"dispatch A-2; retry A-3 no_slot":     {Free: 1, Taken: 1, Max: 2},
		"retry A-3 no_slot; skip A-2 no_slot": {Taken: 2, Max: 2},
	} {
		s := newScene().claim(issueNo(3), nil).same().candidates(issueNo(2))
		s.Slots = &slots
		equal(t, "plan", story(Compute(s.Snapshot)), want)
	}
	s := newScene().candidates(issueNo(2))
	s.Slots = &Slots{Home: "/home/ann/.codex", Taken: 2, Max: 2}
	equal(t, "skip", Compute(s.Snapshot).Skips[0].Message,
		"SYMPHONY_MAX_AGENTS: both slots of /home/ann/.codex are taken")
}

// A skip and a waiting retry name what they wait for.
func TestAccountSaysWhy(t *testing.T) {
	for want, account := range map[string]Account{
		"rate_limited: the primary limit of /home/ann/.codex is used up until 14:05": {
			Limit: &Limit{Window: "primary", Until: noon.Add(2*time.Hour + 5*time.Minute)},
		},
		"rate_limited: the secondary limit of /home/ann/.codex is used up until 5 Mar 12:00": {
			Limit: &Limit{Window: "secondary", Until: noon.Add(72 * time.Hour)},
		},
		"blocked: agent_auth: log in": {Block: authBlock(0, time.Second)},
	} {
		s := newScene().candidates(issueNo(2))
		account.Agent = Agent{Kind: "codex", Home: "/home/ann/.codex"}
		s.Policy.Agents = []Agent{account.Agent}
		s.Accounts = []Account{account}
		skip := Compute(s.Snapshot).Skips[0]
		equal(t, "skip", skip.Reason+": "+skip.Message, want)
	}
	s := newScene().claim(issueNo(3), nil).same()
	s.Slots = &Slots{Home: "/h", Taken: 1, Max: 1}
	s.Only = []string{"id-3"}
	s.AtOnce = true // the account's limit applies even to a pass that may exceed the workflow's
	p := compute(s.Snapshot)
	equal(t, "waits", p.plan.Waits[0].Reason, SkipNoSlot)
	equal(
		t,
		"retry",
		p.plan.Actions[0].Message,
		"SYMPHONY_MAX_AGENTS: the only slot of /h is taken",
	)
	equal(t, "kept as the specification words it", p.claims["id-3"].ErrorMessage, MessageNoSlot)
}

// A run that ended with a fault of the account does not block the project if the account has
// the block. If the worker could not publish the fault, the project is blocked.
func TestAccountFaultSettled(t *testing.T) {
	one := issueNo(1)
	for _, row := range []struct {
		rule    string
		code    string
		account Account
		own     bool
	}{
		{"login, not shared", CodeAgentAuth, Account{}, true},
		{"login, and only the limit is known", CodeAgentAuth, Account{Limit: &Limit{Until: noon.Add(time.Hour)}}, true},
		{"allowance, until when is known", CodeAgentQuota, Account{Limit: &Limit{Until: noon.Add(time.Hour)}}, false},
		{"allowance, shared", CodeAgentQuota, Account{Block: authBlock(0, time.Second)}, false},
		{"another fault", "network", Account{Block: authBlock(0, time.Second)}, true},
		{"login, and it is over since", CodeAgentAuth, Account{Over: noon.Add(-time.Second)}, false},
		{"it was over before the run", CodeAgentAuth, Account{Over: noon.Add(-time.Hour)}, true},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(one, func(_ *Claim, r *Run) {
				r.Outcome = Failed
				r.ErrorCode = row.code
				r.StartedAt = noon.Add(-time.Minute)
			})
			s.Accounts = []Account{row.account}
			p := compute(s.Snapshot)
			equal(t, "claim", state(p, one), "retry blocked #1 in 0s")
			equal(t, "own block", p.s.AgentBlock != nil, row.own)
		})
	}
}

// An issue that has used up its tokens during a turn is held by the pass that settles the run,
// without a failure. If the limit was raised in the meantime, the issue continues.
func TestTokensUsedUp(t *testing.T) {
	one := issueNo(1)
	spent := func(c *Claim, r *Run) {
		r.Outcome = Canceled
		r.ErrorCode = HoldMaxTokens
		r.ErrorText = "1200 tokens used"
		c.Failures = 2
		c.Interruptions = 1
		c.Runs = 4
	}
	for most, want := range map[int64]string{
		1000: "settle A-1 canceled; hold A-1 max_tokens",
		2000: "settle A-1 canceled; dispatch A-1 continuation",
	} {
		s := newScene().running(one, spent).same()
		s.Policy.MaxTokens = most
		s.Tokens[one.ID] = 1200
		p := compute(s.Snapshot)
		equal(t, fmt.Sprint(most), story(p.plan), want)
		equal(t, "failures", p.claims[one.ID].Failures, 2)
		equal(t, "runs", p.claims[one.ID].Runs >= 4, true)
	}
}

// The limit counts the tokens since the last hold ended. The message tells both numbers.
func TestTokensUsedUpAgain(t *testing.T) {
	s := newScene()
	s.Policy.MaxTokens = 1000
	s.Tokens["1"] = 2500
	for base, want := range map[int64]string{
		0:    "2500 tokens used, agent.max_tokens is 1000",
		1400: "1100 tokens used, agent.max_tokens is 1000",
	} {
		_, message := s.reachedCap(Claim{IssueID: "1", TokenBase: base})
		equal(t, fmt.Sprint(base), message, want)
	}
}

// fakeAccounts is an account in memory.
type fakeAccounts struct {
	account  Account
	free     int
	most     int
	err      error
	late     bool // another project started its probe first
	probes   []string
	taken    int
	released int
	asked    []string
}

func (f *fakeAccounts) Look(context.Context, time.Time) []Account { return []Account{f.account} }

func (f *fakeAccounts) TakeSlots(_ context.Context, want int, dryRun bool) (*Slots, error) {
	f.asked = append(f.asked, fmt.Sprintf("%d %v", want, dryRun))
	if f.err != nil || f.most == 0 {
		return nil, f.err
	}
	f.taken = min(want, f.free)
	return &Slots{Free: f.taken, Taken: f.most - f.free, Max: f.most}, nil
}

func (f *fakeAccounts) Release() { f.released++ }

func (f *fakeAccounts) Probe(_ context.Context, b Block, run Run) error {
	if f.late {
		return fmt.Errorf("late: %w", ErrConflict)
	}
	f.probes = append(f.probes, fmt.Sprintf("%s %d", run.Identifier, b.Tries))
	return nil
}

func accountPass(t *testing.T, w *world, p Policy, o Options, f *fakeAccounts) Report {
	t.Helper()
	deps := w.deps(p)
	deps.Accounts = f
	r := Tick(t.Context(), deps, o)
	w.noWrong(t)
	equal(t, "released", f.released, 1)
	return r
}

// A pass asks for as many slots as it has runs to start. If it gets fewer, it starts the first
// ones.
func TestSlotsAreTaken(t *testing.T) {
	for name, row := range map[string]struct {
		free, most int
		options    Options
		asked      string
		want       string
	}{
		"not bounded":      {0, 0, Options{}, "3 false", "dispatch A-1; dispatch A-2; dispatch A-3"},
		"enough":           {5, 5, Options{}, "3 false", "dispatch A-1; dispatch A-2; dispatch A-3"},
		"one left":         {1, 4, Options{}, "3 false", "dispatch A-1; skip A-2 no_slot; skip A-3 no_slot"},
		"none left":        {0, 4, Options{}, "3 false", "skip A-1 no_slot; skip A-2 no_slot; skip A-3 no_slot"},
		"only counted":     {1, 4, Options{DryRun: true}, "3 true", "dispatch A-1; skip A-2 no_slot; skip A-3 no_slot"},
		"nothing to start": {1, 4, Options{DispatchOff: true}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().candidates(issueNo(1), issueNo(2), issueNo(3))
			w := worldOf(s.Snapshot)
			f := &fakeAccounts{free: row.free, most: row.most}
			r := accountPass(t, w, s.Policy, row.options, f)
			equal(t, "plan", w.story(r), row.want)
			equal(t, "asked", strings.Join(f.asked, ", "), row.asked)
		})
	}
}

// If the slots cannot be counted, nothing is started, and the pass reports the error.
func TestSlotsUnknown(t *testing.T) {
	s := newScene().running(issueNo(2), func(_ *Claim, r *Run) { r.Outcome = Failed }).
		same().
		candidates(issueNo(1))
	w := worldOf(s.Snapshot)
	r := accountPass(t, w, s.Policy, Options{}, &fakeAccounts{err: &Error{
		Code:    "disk_full",
		Message: "no space",
	}})
	equal(t, "plan", w.story(r), "settle A-2 failed")
	equal(t, "errors", codes(r), "disk_full")
}

// A probe is announced to the other projects before its run is stored. A project that comes
// second starts nothing.
func TestProbeOfAll(t *testing.T) {
	s := newScene().candidates(issueNo(1), issueNo(2))
	w := worldOf(s.Snapshot)
	f := &fakeAccounts{account: Account{Block: authBlock(2, 0)}}
	r := accountPass(t, w, s.Policy, Options{}, f)
	equal(t, "plan", w.story(r), "dispatch A-1 probe; skip A-2 blocked")
	equal(t, "announced", slices.Equal(f.probes, []string{"A-1 2"}), true)

	w = worldOf(s.Snapshot)
	f = &fakeAccounts{account: Account{Block: authBlock(2, 0)}, late: true}
	r = accountPass(t, w, s.Policy, Options{}, f)
	equal(t, "runs", len(w.runs), 0)
	equal(t, "errors", codes(r), "")
}

// An allowance that is used up is notified once. Later reports of it, whose reset may differ
// by seconds, have the same key. An allowance that is used up hours later has another key.
func TestLimitAttention(t *testing.T) {
	l := Limit{Window: "primary", Since: noon, Until: noon.Add(4 * time.Hour)}
	first := LimitAttention(l, "/home/ann/.codex", noon)
	equal(
		t,
		"text",
		first.Text,
		"nothing new starts: agent_quota: the primary limit of /home/ann/.codex is used up until 16:00",
	)
	equal(t, "kind", first.Kind, AttentionBlocked)
	equal(t, "time", first.At, noon)
	for more, same := range map[time.Duration]bool{-3 * time.Second: true, 5 * time.Hour: false} {
		again := Limit{Window: "primary", Since: noon.Add(time.Hour), Until: l.Until.Add(more)}
		equal(
			t,
			more.String(),
			LimitAttention(again, "/home/ann/.codex", noon.Add(time.Hour)).Key == first.Key,
			same,
		)
	}
}
