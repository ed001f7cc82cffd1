// Package runner carries out one run: it prepares the workspace, drives the agent through its turns, and records
// how the run ended. It also gives a pass what it needs of workers: start them detached, see whether they live, ask
// them to end, and clear up after dead ones.
//
//	pass ── Local.Prepare, Start ──► symphony worker ── Worker.Run ──► hooks, codex app-server
//	  ▲                                    │
//	  └── Local.Probe, Reap ◄── alive, procs, the run's row
//
// A worker is a process of its own. It shares types, a directory and a database with the pass that started it, never memory,
// and outlives it.
//
// Worker.Run is a sequence of steps: take the workspace (workspaceStep), render the prompt, launch the agent, take it
// through its turns, finish. What they share is a job. The steps know the machine as a host.Host and the agent as what
// package agent describes.
//
// The first turn of a thread gets the workflow's prompt, later turns guidance: why the last run ended, what people wrote
// since, and the prompt again if it has changed. What a thread was told is stored once codex has accepted the turn. After
// a crash it is told again.
package runner
