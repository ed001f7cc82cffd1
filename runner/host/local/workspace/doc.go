// Package workspace owns the directories that issues are worked on in (specification 9): their keys, their leases and records,
// hooks and removal.
//
//	<root>/<key>/                    the workspace itself: agent and hooks run here
//	<root>/.symphony/<key>.lock      the lease: a flock, inherited by hooks and agent
//	<root>/.symphony/<key>.json      the record: whose workspace this is, and how far it has come
//	<root>/.symphony/work/<key>/     tmp and cache (TMPDIR, XDG_CACHE_HOME), and what git was trusted with before the
//	                                 agent (package git)
//	<root>/.symphony/trash/          removed workspaces, <key>-<time>, until they are purged
//	<root>/.symphony/projects/       which state directory works on which tracker project
//
// The life of a workspace; every arrow is a record that was synced before its effect:
//
//	          Acquire            Ready              Remove
//	(nothing) ───────► creating ───────► ready ──────────────► removing ──► (nothing)
//	    ▲                 │ │ ▲                                   │ Acquire: to the trash, then made anew
//	    └──── Discard ────┘ └─┘ Acquire after a crash: made anew  └──► creating
//
// # Decisions
//
// A directory that no record names is taken over as an existing workspace (Created false, after_create
// not run). Ours are never without a record, so it is another implementation's or the operator's work.
//
// A key that already looks hashed (it ends in "-" and 16 hex digits) gets a suffix of its own. Without that
// an issue could be named so that it shares the directory of another whose identifier needed the suffix.
//
// A holder is listed in Previous until a later holder calls Ready. A worker that dies between taking the
// workspace and reaping what its predecessor left therefore hides nothing from its successor.
//
// Nothing is deleted in place. It is renamed into the trash first, so that the path is free at once and a
// file that can't be deleted costs a report, not the workspace. Deletion opens every directory relative to
// its parent and follows no link.
package workspace
