// Package reconcile is the core of symphony: it decides the actions of a pass and their order.
// It imports no other package of symphony and does no I/O: the clock, the database, the
// processes and the tracker are values or interfaces of ports.go.
//
//	Store, Runners ─► Snapshot ─► Compute (pure) ─► Plan ─► apply ─► Store, then Runners
//	Tracker ────────► Snapshot ─► Compute (pure) ─► Plan ─► apply ─► Store, then Runners
//
// The first line is the local half of a pass, the second the tracker half.
//
// # Words
//
// A pass is a call of [Tick]. A claim is symphony's record of an issue that it works on; an
// issue without a claim is unclaimed. A run is a worker process for an issue; it gets a single
// outcome. To settle a run is to turn its outcome into the next state of the claim, once. To
// reap is to end the processes that a dead worker left behind. A candidate is an issue that
// the tracker offers; a candidate that gets no claim gets a skip, with a reason. A block is a
// fault of the machine that keeps runs from starting; a probe is the only run that starts
// nevertheless, to test whether the fault is over.
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
// A running claim is never released: its run is stopped, a later pass settles it, and the
// tracker's answer then decides. The exception is a run that was stopped because the workflow
// names another project. An operator's hold is released only when the issue reaches a terminal
// state or the workflow names another project that the tracker knows.
//
// # Delivery
//
// Where the workflow names a repository, the commits of a run are pushed at the end of the
// run. A claim whose commits could not be pushed (Claim.Delivery) gets no further run of an
// agent and is not released. Passes start delivery runs for it, which have no agent, until the
// commits are pushed; they need neither the tracker nor a slot. An operator's hold also holds
// the delivery.
//
// # Invariants
//
//  1. A running claim names an unsettled run. Every unsettled run of an agent, and every
//     delivery, is named by the claim of its issue. That claim is running; only while a lost
//     host did not confirm the end of the run, it is held (host_lost), or waits after a retry.
//  2. Every run is settled once, and only when its worker is dead and none of its processes is
//     left.
//  3. No issue is dispatched that is running, held or not due; an operator's run need not be
//     due (Options.AtOnce).
//  4. Every dispatch gets a free slot, globally and in its state. No run is ended because
//     slots are short.
//  5. An issue for which the tracker gave no answer is not stopped, released or dispatched.
//  6. A command is deleted in the transaction that carries it out, or after everything that it
//     asks for.
//  7. The row comes before the process, the stop reason before the signal, the run's directory
//     before its row.
//  8. After a plan is applied, a new plan for the same instant is empty.
//
// # Decisions
//
// Ended runs are settled before commands are carried out, and the whole local half comes
// before the tracker is asked. So `retry` of an issue whose run just died makes it due now,
// not after a backoff, and `stop` holds it at once.
//
// Caps, among them the third interruption in a row, are checked after the refresh. The hold
// then knows the newest comment, and a comment that the agent wrote during its last run does
// not end it.
//
// When a run is settled, a fault of the machine takes precedence over an interruption: a
// worker that gives up because the tracker does not answer must not count as interrupted.
//
// An ended run with remaining processes keeps its slot until they are gone, even in the plan
// that tries to end them. The next plan gives the slot away: at worst a pass late, and never
// with an agent too many.
//
// Faults of an account (login, allowance) do not block a single project: the worker publishes
// them before it records how the run ended, and all projects of that account wait, take turns
// to probe and continue together. If publishing failed, the project sets its own block, as for
// any other fault.
package reconcile
