// Package runner supervises one run: it takes the run, prepares the workspace, drives the agent
// through its turns, and records how it ended; and it gives a pass what it must know and do about workers:
// start them detached, see whether they live, ask them to end, and clear up after dead ones.
//
//	pass ── Local.Prepare, Start ──► symphony worker ── Worker.Run ──► hooks, codex app-server
//	  ▲                                    │
//	  └── Local.Probe, Reap ◄── alive, procs, the run's row
//
// A worker is another program: it shares types, a directory and a database with the pass that started it,
// never memory, and outlives it.
//
// The first turn of a thread gets the workflow's prompt, every later one guidance: why the last run ended, what people
// have written since, what they answered too late. What a thread was told is written down when codex has accepted the
// turn: a crash before that tells it twice, and none keeps it from being told.
package runner
