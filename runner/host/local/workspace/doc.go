// Package workspace manages the directories of issues (specification 9): their keys, leases
// and records, hooks and removal.
//
//	<root>/<key>/                   the workspace itself: agent and hooks run here
//	<root>/.symphony/<key>.lock     the lease: a flock, inherited by hooks and agent
//	<root>/.symphony/<key>.json     the record: the issue of the workspace, and its state
//	<root>/.symphony/work/<key>/    tmp and cache (TMPDIR, XDG_CACHE_HOME) of the agent's
//	                                commands, the same of hooks and agents, and the git settings
//	                                from before the agent (package git)
//	<root>/.symphony/trash/         removed workspaces, <key>-<time>, until they are purged
//	<root>/.symphony/mirrors/       mirrors of remote repositories, whose objects workspaces
//	                                borrow (package repository)
//	<root>/.symphony/projects/      which state directory works on which project of the tracker
//
// The states of a workspace. Each record is synced before its effect:
//
//	(nothing) ── Acquire ──► creating ── Ready ──► ready ── Remove ──► removing ──► (nothing)
//
// Discard leads from creating to (nothing). After a crash, Acquire creates again a workspace
// in the state creating. It does the same for a workspace in the state removing, which it
// first moves to the trash.
//
// # Decisions
//
// A directory without a record is adopted as an existing workspace (Created is false,
// after_create does not run). Symphony always writes a record first, so another implementation
// or the operator created the directory.
//
// An identifier that already looks like a key with a hash (it ends in "-" and 16 hex digits)
// gets a hash, too. Otherwise an issue could be named so that it shares the directory of
// another issue whose identifier needed a hash.
//
// A holder is listed in Previous until a later holder calls Ready. So if a worker dies after
// it acquired the workspace and before it ended the processes of its predecessor, its
// successor still ends them.
//
// Nothing is deleted in place. A directory is first renamed into the trash, so that its path
// is free at once, and a file that can't be deleted does not block the workspace. Deletion
// opens every directory relative to its parent and follows no link.
package workspace
