// Package reconcile is the core of symphony: what one pass decides and in which order it makes that true.
// It imports nothing of ours and touches nothing: clock, database, processes and tracker come in as values
// and as the interfaces [Store], [Tracker] and [Runners].
//
//	Store, Runners ─► Snapshot ─► Compute (pure) ─► Plan ─► apply ─► Store, then Runners     local half
//	Tracker ────────► Snapshot ─► Compute (pure) ─► Plan ─► apply ─► Store, then Runners     tracker half
//
// # Words
//
// A pass is one call of [Tick]. A claim says that an issue is symphony's business; an issue without one is
// unclaimed. A run is one worker process for one issue; it gets exactly one outcome. To settle a run is to
// draw the consequence of its outcome for the claim, once. To reap is to end what a dead worker left behind.
// A candidate is an issue that the tracker offers; one that gets no claim gets a skip, with a reason. A block
// is a fault of the machine that makes every dispatch senseless for now; a probe is the one run that may try
// all the same.
//
// # A claim
//
//	unclaimed ──dispatch──► running ──settle──► retry ──cap, hold, stop──► held
//	                           ▲                │   ▲                       │
//	                           └────dispatch────┘   └────retry, comment─────┘
//
//	unclaimed ──hold, stop──► held                running ──settle, if HoldNext──► held
//	retry, held ──release──► unclaimed            running ──settle, if project_change──► unclaimed
//
// A running claim is never released: its run is stopped, a later pass settles it, and what the tracker says
// then decides. The one exception is the end of a run that was stopped because the workflow names another
// project. An operator's hold is released only by a terminal state or by a change of the project.
//
// # Invariants
//
//  1. A running claim names an unsettled run, and an unsettled agent's run is named by a running claim.
//  2. Every run is settled once, and only when its worker is dead and nothing of it is left.
//  3. No issue is dispatched that runs, or whose claim is held or not due.
//  4. A dispatch finds a slot, globally and in its state. What ran before is never ended for want of one.
//  5. What the tracker did not answer changes nothing: no stop, no release, no dispatch.
//  6. A command is deleted in the transaction that makes it true, or after all that it asks for.
//  7. The row comes before the process, the stop reason before the signal, the run's directory before its row.
//  8. Having been applied, a plan leaves nothing to do at the same instant.
//
// # Decisions
//
// Ended runs come before commands, and all of the local half before the tracker is asked. So a retry of an issue
// whose run has just died is due now instead of in backoff, and a stop of it holds at once.
//
// Whether a claim is held after its run was stopped is kept in the claim (HoldNext), not read from the run's stop
// reason: a retry given while the run ends takes the hold back.
//
// Caps, and among them the third interruption in a row, are looked at after the refresh. The hold then knows the
// newest comment, and what the agent itself wrote during the last run does not end it.
//
// A fault of the machine comes before an interruption in the table of outcomes: a tracker that was away for long
// must not count as something that ends our workers.
//
// A run of which processes are left keeps its slot until they are gone, even in the plan that tries to end them.
// The plan after that gives the slot away: a pass late at worst, and never one agent too many.
//
// Updates that decide nothing are kept apart from the actions, which are printed. They are stored where the
// versions of the claim put them between its actions.
//
// A block that was set before a clock was set back is brought to the present, since no run could be seen to have
// started after it otherwise.
//
// The faults of an account (login, allowance) are no block of the project's own: its worker shares them before it
// records how the run ended, and all projects of that codex home wait, probe one at a time and go on together. Where
// that could not be written the project blocks itself, as by any other fault.
//
// Slots of the account are taken after the first plan, as many as it would start runs, and the pass plans again with
// what it got: so a pass that waits for its tracker keeps none from the others.
package reconcile
