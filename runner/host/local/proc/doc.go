// Package proc says which processes are whose, and starts and ends them: the lowest part of the runner.
// It knows nothing of issues, workspaces or the tracker (design 6 and 8).
//
//	a pass                          a worker                           its tree
//	CreateAlive ─ Detach ─────────► ReadySocket, HoldAlive
//	Detached.Ready ◄─── one byte ── Ready.Taken
//	ProbeAlive ◄─────── flock ───── Alive.Beat
//	                                Start ───────────────────────────► agent, hooks
//	                                ProcFile.Record ◄── Brood.Fresh ── whatever they start
//	LockDead, Find, KillTree ────── (dead) ──────────────────────────► what it left behind
//
// Decisions:
//
//   - A process is the pair of pid and start time, valid within one boot and one pid namespace (BootID). It is
//     signalled through a pidfd that was opened before the start time was compared: from then on the number
//     can't come to mean another process. There is no way back to kill(2); a kernel without pidfds (before
//     5.3) gives an error.
//   - Children are waited for without being reaped, so that the number of a group's leader stays taken until
//     the whole group has been signalled.
//   - Whether a zombie was adopted or is the business of an os/exec caller is read from the process's own
//     descriptors: since Go 1.23 package os keeps a pidfd for every child that it still has to wait for
//     (Reaper). Nobody has to register anything, and what can't be told is left alone.
//   - What belongs to a run is known by several reasons, since each has its hole: the marks in the environment (a
//     cleared one), descent (a parent that ended), the procs file (a worker that died within a quarter of a second),
//     the tree file, an open descriptor that children inherit (programs that close what they don't know), the worker's
//     session (daemons leave it), and the cgroup of the worker's scope, which has none but is not to be had everywhere.
//   - The tree file is looked for at one number, TreeFD, by the text of its link, and compared by inode only where the
//     text fits: 2 µs a process, and no look at a file system that may not answer.
//   - The members of a scope are read from the cgroup, not asked of each process (7 µs each); a scope is killed at one
//     stroke, because a process that does nothing but fork is gone before it can be signalled.
//   - A worker outlives the unit of systemd that its pass stands in by a scope of its own; ScopeManager says how it gets one.
//   - A mark in an environment counts only in processes of the same user: anybody may write one. Descent and
//     the recorded start time count whatever the user is, so that a tree that changed its user is reported.
//
// Linux is the platform. What other systems can't do as well is in the files named weak_*.go, and said there.
package proc
