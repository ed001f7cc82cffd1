// Package proc identifies, watches and signals processes of this machine, and starts the
// workers of a pass. It does not depend on issues, workspaces or the tracker. Package
// runner/host/local/tree, which is above it, starts and ends the processes of a run.
//
//	a pass                          a worker
//	CreateAlive ─ Detach ─────────► TakeOver, HoldAlive
//	Detached.Ready ◄─── one byte ── Handover.Taken
//	ProbeAlive ◄─────── flock ───── Alive.Beat
//	LockDead ─────────── (dead)
//
// Decisions:
//
//   - A process is identified by its pid and start time, within a boot and a pid namespace
//     (BootID). It is signalled through a pidfd that was opened before its start time was
//     compared. On a kernel without pidfds (before 5.3) that is an error.
//   - A worker gets its own systemd scope, so that it survives the unit of its pass
//     (ScopeManager).
//
// The main platform is Linux. proc_darwin.go lists the limitations on macOS.
package proc
