// Package proc starts the processes of runs, finds them again and ends them: the lowest part of the runner. It knows nothing of
// issues, workspaces or the tracker.
//
//	a pass                          a worker                             its tree
//	CreateAlive ─ Detach ─────────► TakeOver, HoldAlive
//	Detached.Ready ◄─── one byte ── Handover.Taken
//	ProbeAlive ◄─────── flock ───── Alive.Beat
//	                                Start ─────────────────────────────► agent, hooks
//	                                ProcFile.Record ◄── Descendants ──── whatever they start
//	LockDead, Find, KillTree ────── (dead) ────────────────────────────► what it left
//
// Decisions:
//
//   - A process is a pid with a start time, valid within one boot and one pid namespace (BootID). It is signalled through
//     a pidfd that was opened before the start time was compared. A kernel without pidfds (before 5.3) gives an error.
//   - Children are waited for without being reaped, so that the pid of a group's leader is not reused until the whole
//     group has been signalled.
//   - Several things show that a process belongs to a run, because each has a gap: markers in the environment (which can
//     be cleared), descent (a parent that ended), the procs file (a worker that died before it wrote), the tree file, an
//     open descriptor that children inherit (some programs close all descriptors), and the worker's session (daemons
//     leave it).
//   - A worker survives the systemd unit of its pass by a scope of its own (ScopeManager).
//   - Markers count only in processes of the same user, because any user can write them. Descent and the recorded start
//     time count for all users, so that a tree that changed its user is reported.
//
// Linux is the platform. proc_darwin.go says what macOS does worse.
package proc
