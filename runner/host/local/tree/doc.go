// Package tree starts, finds, watches and ends the processes of a run: the agent, hooks, and
// all processes that they start.
//
//	Start ─► agent, hooks ─► their descendants
//	ProcFile.Record ◄── descendants of the worker
//	Find, Kill ───────► processes that outlive a dead worker
//
// Decisions:
//
//   - Several signs show that a process belongs to a run, because each sign can fail: markers in
//     the environment (a process can clear them), descent (a parent can end), the procs file
//     (the worker can die before it writes), an open descriptor of the tree file (some
//     programs close all descriptors), and the worker's session (daemons leave it).
//   - Waiting for a child does not reap it, so that the pid of a group's leader is not reused
//     before the whole group was signalled.
//   - Markers count only in processes of the same user, because any user can set them. Descent
//     and the recorded start time count for all users, so that processes that changed their
//     user are reported.
package tree
