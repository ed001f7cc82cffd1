// Package proc starts, finds and ends the processes of runs. It is the lowest layer of the runner and does not depend on issues,
// workspaces or the tracker.
//
//	a pass                          a worker                             its tree
//	CreateAlive ─ Detach ─────────► TakeOver, HoldAlive
//	Detached.Ready ◄─── one byte ── Handover.Taken
//	ProbeAlive ◄─────── flock ───── Alive.Beat
//	                                Start ─────────────────────────────► agent, hooks
//	                                ProcFile.Record ◄── Descendants ──── all descendants
//	LockDead, Find, KillTree ────── (dead) ────────────────────────────► processes that outlive it
//
// Decisions:
//
//   - A process is identified by its pid and start time, within one boot and one pid namespace (BootID). It is signalled through
//     a pidfd that was opened before its start time was compared. On a kernel without pidfds (before 5.3) that is an error.
//   - Waiting for a child does not reap it, so that the pid of a group's leader is not reused before the whole group has been
//     signalled.
//   - Several signs show that a process belongs to a run, because each has a gap: markers in the environment (a process can clear
//     them), descent (a parent can end), the procs file (the worker can die before it writes), an open descriptor of the tree file
//     (some programs close all descriptors), and the worker's session (daemons leave it).
//   - A worker gets its own systemd scope, so that it survives the unit of its pass (ScopeManager).
//   - Markers count only in processes of the same user, because any user can set them. Descent and the recorded start time count
//     for all users, so that processes that changed their user are reported.
//
// The main platform is Linux. proc_darwin.go lists the limitations on macOS.
package proc
