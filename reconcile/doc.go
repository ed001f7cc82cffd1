// Package reconcile is the core of symphony: it decides what one pass does, and in which order that takes effect. It imports
// nothing of ours and touches nothing: clock, database, processes and tracker come in as values and through the interfaces
// of ports.go.
//
//	Store, Runners ─► Snapshot ─► Compute (pure) ─► Plan ─► apply ─► Store, then Runners     local half
//	Tracker ────────► Snapshot ─► Compute (pure) ─► Plan ─► apply ─► Store, then Runners     tracker half
//
// # Words
//
// A pass is one call of [Tick]. A claim is symphony's record of an issue that it works on; an issue without one is
// unclaimed. A run is one worker process for one issue; it gets exactly one outcome. To settle a run is to turn its outcome
// into the next state of the claim, once. To reap is to end the processes that a dead worker left. A candidate is an issue
// that the tracker offers; one that gets no claim gets a skip, with a reason. A block is a fault of the machine for which no
// run is started; a probe is the one run that may start nevertheless.
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
// A running claim is never released: its run is stopped, a later pass settles it, and the tracker's answer then decides. The
// exception is a run that was stopped because the workflow names another project. An operator's hold is released only by a
// terminal state or by a change of the project.
//
// # Invariants
//
//  1. A running claim names an unsettled run, and a running claim names every unsettled run of an agent.
//  2. Every run is settled once, and only when its worker is dead and none of its processes is left.
//  3. No issue is dispatched that is running, held or not due.
//  4. A dispatch finds a slot, globally and in its state. A run is never ended for want of a slot.
//  5. What the tracker did not answer changes nothing: no stop, no release, no dispatch.
//  6. A command is deleted in the transaction that carries it out, or after everything that it asks for.
//  7. The row comes before the process, the stop reason before the signal, the run's directory before its row.
//  8. Once applied, a plan leaves nothing to do at the same instant.
//
// # Decisions
//
// Ended runs come before commands, and all of the local half before the tracker is asked. So a retry of an issue whose run
// has just died is due now instead of in backoff, and a stop of it holds at once.
//
// Caps, among them the third interruption in a row, come after the refresh. The hold then knows the newest comment, and a
// comment that the agent itself wrote during the last run does not end it.
//
// In the table of outcomes a fault of the machine comes before an interruption: a worker that gives up because the tracker
// is away must not count as one that something ends from outside.
//
// An ended run with remaining processes keeps its slot until they are gone, even in the plan that tries to end them. The slot
// is free in the next plan: at worst a pass late, and never one agent too many.
//
// The faults of an account (login, allowance) are no block of the project: the worker shares them before it records how the
// run ended, and all projects of that codex home wait, probe one at a time and continue together. Where that could not be
// written, the project sets a block of its own, as for any other fault.
package reconcile
