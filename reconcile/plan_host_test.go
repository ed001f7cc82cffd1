package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// hosted gives a scene two hosts with two slots each.
func (s *scene) hosted() *scene {
	s.Policy.Hosts = []string{"near", "far"}
	s.Policy.MaxPerHost = 2
	s.Policy.LostAfter = 15 * time.Minute
	return s
}

// on makes a run one of a host, where it has begun, and heard of now.
func on(host string, edits ...func(*Claim, *Run)) func(*Claim, *Run) {
	return func(c *Claim, r *Run) {
		r.Host = host
		r.Remote = RemoteBegun
		r.HeardAt = noon
		r.HeartbeatAt = noon
		for _, edit := range edits {
			edit(c, r)
		}
	}
}

// Only its host, or an operator, may say that a run on a host has ended. Until then the run is
// not settled, and its issue gets no other one.
func TestVerdicts(t *testing.T) {
	one := issueNo(1)
	heard := func(ago time.Duration) func(*Claim, *Run) {
		return func(_ *Claim, r *Run) { r.HeardAt = noon.Add(-ago) }
	}
	remote := func(s RemoteState) func(*Claim, *Run) { return func(_ *Claim, r *Run) { r.Remote = s } }
	failed := func(_ *Claim, r *Run) {
		r.Outcome = Lost
		r.ErrorCode = CodeWorkerLost
	}
	lost := func(c *Claim, r *Run) {
		c.Status = Held
		c.HoldReason = HoldHostLost
		c.HeldAt = noon
	}
	ending := func(ago time.Duration) func(*Claim, *Run) {
		return func(c *Claim, r *Run) {
			failed(c, r)
			r.Phase = EndingThere
			r.HeartbeatAt = noon.Add(-ago)
		}
	}
	dead := func(edits ...func(*Claim, *Run)) *scene {
		return newScene().hosted().running(one, on("far", edits...)).dead(one, 0)
	}
	alive := func(edits ...func(*Claim, *Run)) *scene {
		s := newScene().hosted().running(one, on("far", edits...))
		s.Liveness["run-A-1"] = Liveness{Alive: true}
		return s
	}
	for _, row := range []struct {
		rule         string
		s            *scene
		story, state string
	}{
		{"live", alive(), "", "running #1 runs=1"},
		{"live, but its host is lost", alive(heard(time.Hour)), "", "running #1 runs=1"},
		{"its worker has died", dead(), "reap A-1 worker_lost; end A-1 begun", "running #1 runs=1"},
		{"its worker has ended, its host has not confirmed that", dead(failed), "end A-1 begun", "running #1 runs=1"},
		{"another worker ends it there", alive(ending(0)), "", "running #1 runs=1"},
		{
			"that worker takes longer than a stop may",
			alive(ending(0), func(_ *Claim, r *Run) { r.StopAt = Instant{Boot: thisBoot} }).
				edit(func(s *Snapshot) { s.Mono = time.Hour }),
			"",
			"running #1 runs=1",
		},
		{
			"that worker is frozen", alive(ending(0)).edit(func(s *Snapshot) {
				s.Liveness["run-A-1"] = Liveness{
					Alive:  true,
					Frozen: true,
				}
			}),
			"reap A-1", "running #1 runs=1",
		},
		{"that worker has had no answer", dead(ending(time.Second)), "", "running #1 runs=1"},
		{"the next one is due", dead(ending(time.Minute)), "end A-1 begun", "running #1 runs=1"},
		{
			"the host is silent",
			dead(ending(time.Minute), heard(31*time.Minute)),
			"hold A-1 host_lost; end A-1 begun",
			"held host_lost runs=1",
		},
		{"held, and tried again", dead(ending(time.Minute), lost), "end A-1 begun", "held host_lost runs=1"},
		{
			"the host has confirmed the end",
			dead(failed, remote(RemoteEnded)),
			"settle A-1 lost",
			"retry backoff #2 in 20s failures=1 runs=1",
		},
		{
			"it does so while the claim is held",
			dead(failed, lost, remote(RemoteEnded)),
			"settle A-1 lost",
			"retry backoff #2 in 20s failures=1 runs=1",
		},
		{"an operator has said so", dead(failed, remote(RemoteGone)), "settle A-1 lost", "retry requested #1 in 0s"},
		{
			"nothing was begun there", dead(func(_ *Claim, r *Run) {
				r.Outcome = Failed
				r.ErrorCode = "host_unreachable"
				r.Remote = ""
			}),
			"settle A-1 failed", "retry blocked #1 in 0s",
		},
		{
			"its job can't ever start", dead(func(_ *Claim, r *Run) {
				r.Outcome = Failed
				r.ErrorCode = HoldNeverStarts
				r.Remote = ""
			}),
			"settle A-1 failed", "held never_starts",
		},
		{
			"an operator has said so while a worker tries to end it",
			alive(ending(0), remote(RemoteGone)),
			"reap A-1; settle A-1 lost",
			"retry requested #1 in 0s",
		},
		{
			"this machine cannot start workers",
			dead(failed).edit(func(s *Snapshot) { s.MachineBlock = &Block{Code: "x"} }),
			"",
			"running #1 runs=1",
		},
		{
			"retry does not start it twice",
			dead(ending(time.Second), lost).command(VerbRetry, one).same().candidates(),
			"retry A-1 operator",
			"retry requested #1 in 0s",
		},
		{
			"retry --host-is-gone",
			dead(ending(time.Second), lost).command(VerbHostGone, one),
			"retry A-1 host_lost",
			"held host_lost runs=1",
		},
		{
			"retry --host-is-gone while a worker tries to end it",
			alive(ending(0), lost).command(VerbHostGone, one),
			"retry A-1 host_lost",
			"held host_lost runs=1",
		},
		{
			"retry --host-is-gone while a worker that ends it has only begun",
			alive(failed, lost).command(VerbHostGone, one),
			"retry A-1 host_lost",
			"held host_lost runs=1",
		},
		{
			"an operator has stopped it, then its host is silent",
			dead(ending(time.Minute), heard(31*time.Minute), func(c *Claim, _ *Run) { c.HoldNext = true }),
			"hold A-1 host_lost; end A-1 begun",
			"held host_lost runs=1 then held",
		},
		{
			"its host answers",
			dead(failed, lost, remote(RemoteEnded), func(c *Claim, _ *Run) { c.HoldNext = true }),
			"settle A-1 lost",
			"held operator runs=1",
		},
		{
			"it is moved meanwhile",
			dead(ending(time.Second), lost).answer(issueNo(1, inState("Human Review"))),
			"",
			"held host_lost",
		},
		{
			"the daemon was killed", dead(func(_ *Claim, r *Run) {
				r.Outcome = InterruptedRun
				r.ErrorCode = "host_died"
				r.Remote = RemoteEnded
			}),
			"settle A-1 interrupted", "retry interrupted #1 in 0s interruptions=1",
		},
		{
			"retry --host-is-gone of a waiting issue with a workspace there",
			newScene().hosted().claim(one, func(c *Claim) { c.Kind = Blocked }).
				edit(func(s *Snapshot) {
					s.RemoteWorkspaces = []Workspace{{
						IssueID: one.ID,
						Project: thisProject,
						Host:    "far",
					}}
				}).
				command(VerbHostGone, one),
			"retry A-1 host_lost",
			"retry requested #1 in 0s",
		},
		{
			"retry --host-is-gone of a held issue with a workspace there",
			newScene().hosted().held(one, HoldMaxFailures).edit(func(s *Snapshot) {
				s.RemoteWorkspaces = []Workspace{{IssueID: one.ID, Project: thisProject, Host: "far"}}
			}).command(VerbHostGone, one),
			"retry A-1 host_lost",
			"retry requested #1 in 0s",
		},
		{"retry --host-is-gone of a live run", alive().command(VerbHostGone, one), "", "running #1 runs=1"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p := compute(row.s.Snapshot)
			equal(t, "plan", story(p.plan), row.story)
			equal(t, "claim", state(p, one), row.state)
		})
	}
}

// The host with the fewest runs gets the next one; an issue stays where its workspace is;
// nothing falls back to another machine.
func TestHosts(t *testing.T) {
	two := func(s *scene, host string, first int) *scene {
		for i := range 2 {
			s.running(issueNo(first+i), on(host))
			s.Liveness[fmt.Sprintf("run-A-%d", first+i)] = Liveness{Alive: true}
		}
		return s
	}
	home := func(s *scene, host string) *scene {
		s.RemoteWorkspaces = append(s.RemoteWorkspaces, Workspace{
			IssueID: "id-9",
			Project: thisProject,
			Host:    host,
		})
		return s
	}
	block := func(next time.Duration) func(*Snapshot) {
		return func(s *Snapshot) {
			s.RemoteBlocks = map[string]Block{"near": {
				Code:    "host_unreachable",
				Message: "no route",
				Since:   noon.Add(-time.Hour),
				NextTry: noon.Add(next),
			}}
		}
	}
	silent := func(s *Snapshot) {
		s.Runs[0].HeardAt = noon.Add(-time.Minute)
		s.Runs[1].HeardAt = noon.Add(-40 * time.Second)
	}
	for _, row := range []struct {
		rule string
		s    *scene
		want string // the host of A-9's run, or why it has none
	}{
		{"both are free", newScene().hosted(), "near"},
		{"one has a run", newScene().hosted().running(issueNo(1), on("near")), "far"},
		{"without a limit", two(newScene().hosted(), "near", 1).edit(func(s *Snapshot) {
			s.Policy.MaxPerHost = 0
			s.Policy.Hosts = []string{"near"}
		}), "near"},
		{"all are full", two(two(newScene().hosted(), "near", 1), "far", 3), "no_slot near, far: both slots are taken"},
		{"it has a workspace", home(newScene().hosted().running(issueNo(1), on("far")), "far"), "far"},
		{
			"the host of its workspace is full",
			home(two(newScene().hosted(), "far", 1), "far"),
			"no_slot far: both slots are taken",
		},
		{"the host of its workspace is not in the workflow any more", home(newScene().hosted(), "old"), "near"},
		{
			"that host is gone",
			home(newScene().hosted(), "far").edit(func(s *Snapshot) { s.RemoteWorkspaces[0].Abandoned = true }),
			"near",
		},
		{
			"an operator asks: a host without a fault",
			newScene().hosted().running(issueNo(1), on("far")).edit(block(time.Minute)).
				edit(func(s *Snapshot) {
					s.Only = []string{"id-9"}
					s.AtOnce = true
				}),
			"far",
		},
		{"an operator asks: only a blocked one", home(newScene().hosted(), "near").edit(block(time.Minute)).
			edit(func(s *Snapshot) {
				s.Only = []string{"id-9"}
				s.AtOnce = true
			}), "near"},
		{"a host is blocked", newScene().hosted().edit(block(time.Minute)), "far"},
		{"its block is tested", newScene().hosted().running(issueNo(1), on("far")).edit(block(0)), "near"},
		{
			"it is being tested", two(newScene().hosted(), "far", 2).running(issueNo(1), on("near")).edit(block(0)),
			"no_slot far: both slots are taken; near: host_unreachable: no route",
		},
		{
			"the only host is blocked",
			home(newScene().hosted(), "near").edit(block(time.Minute)),
			"blocked near: host_unreachable: no route",
		},
		{
			"a host is silent",
			home(two(newScene().hosted(), "near", 1), "near").edit(silent).edit(func(s *Snapshot) { s.Policy.MaxPerHost = 3 }),
			"blocked near: lost for 40s",
		},
		{
			"one of its runs is heard of", home(two(newScene().hosted(), "near", 1), "near").edit(func(s *Snapshot) {
				s.Policy.MaxPerHost = 3
				s.Runs[0].HeardAt = noon.Add(-40 * time.Second)
				s.Runs[1].HeardAt = noon
			}), "near",
		},
		{"faults of this machine's account and codex do not count", newScene().hosted().edit(func(s *Snapshot) {
			s.AgentBlock = &Block{Code: "agent_auth", NextTry: noon.Add(time.Hour)}
			s.Accounts = []Account{{Limit: &Limit{Until: noon.Add(time.Hour)}}}
		}), "near"},
		{"the repository can't be reached from this machine", newScene().hosted().edit(func(s *Snapshot) {
			s.AgentBlock = &Block{
				Code:    "repository_unavailable",
				Message: "no route",
				Since:   noon.Add(-time.Hour),
				NextTry: noon.Add(time.Minute),
			}
		}), "blocked repository_unavailable: no route"},
		{"no hosts", newScene(), ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p := compute(row.s.same().candidates(issueNo(9)).Snapshot)
			got := "nothing"
			for _, a := range p.plan.Actions {
				if a.Kind == ActDispatch {
					got = a.Change.Insert.Host
				}
			}
			for _, s := range p.plan.Skips {
				got = s.Reason + " " + s.Message
			}
			equal(t, "A-9", got, row.want)
		})
	}
}

// A fault of a host blocks that host, and no other one. A completed turn there ends the block.
func TestHostBlocks(t *testing.T) {
	one := issueNo(1)
	failed := newScene().hosted().running(one, func(_ *Claim, r *Run) {
		r.Host = "near"
		r.Outcome = Failed
		r.ErrorCode = "host_unreachable"
		r.ErrorText = "no route"
	})
	p := compute(failed.Snapshot)
	equal(t, "claim", state(p, one), "retry blocked #1 in 0s")
	want := map[string]Block{"near": {
		Code:    "host_unreachable",
		Message: "near: no route",
		Since:   noon,
		NextTry: noon.Add(firstBackoff),
	}}
	test.Equal(t, "blocks", p.s.RemoteBlocks, want)
	test.Equal(t, "stored", p.plan.Actions[0].Change.RemoteBlocks, want)
	equal(t, "of this machine", p.s.AgentBlock, nil)
	next := newScene().hosted().edit(func(s *Snapshot) { s.RemoteBlocks = want }).candidates(one)
	equal(t, "the next run", compute(next.Snapshot).plan.Actions[0].Change.Insert.Host, "far")

	worked := newScene().hosted().running(one, on("near", func(_ *Claim, r *Run) {
		r.TurnsDone = 1
		r.StartedAt = noon.Add(time.Second)
	}))
	worked.Liveness["run-A-1"] = Liveness{Alive: true}
	worked.RemoteBlocks = want
	p = compute(worked.Snapshot)
	test.Equal(t, "ended", updates(p.plan)[0].RemoteBlocks, map[string]Block{"near": {}})
	equal(t, "blocks", len(p.s.RemoteBlocks), 0)

	asked := newScene().hosted().command(VerbUnblock, Issue{})
	asked.RemoteBlocks = want
	test.Equal(
		t,
		"unblock",
		updates(compute(asked.Snapshot).plan)[0].RemoteBlocks,
		map[string]Block{"near": {}},
	)
}
