// Package state keeps symphony's claims, runs and totals in a SQLite database, and the lock that makes passes
// follow one another (design 3).
//
// Who may write what, and when, is decided by the WHERE clause of each statement, not by the caller's good
// manners: a statement that finds its row changed writes nothing and gives reconcile.ErrConflict.
//
//	claims                      a pass, under the lock        WHERE version = ?
//	runs: phase, counters       its worker                    WHERE outcome IS NULL, once it has taken the run
//	runs: stop_reason, hb_seen  a pass                        WHERE outcome IS NULL
//	runs: outcome               its worker, or a pass that    once: WHERE outcome IS NULL (AND phase = ? for a pass)
//	                            holds the run's alive file
//	runs: settled               a pass, with claim and totals once: WHERE settled = 0 AND outcome IS NOT NULL
//	commands                    inserted by operators, consumed by a pass with the change of the claim
//	threads                     the worker of a run without outcome
//	passes, skips, meta         a pass
//	releases, outages           a pass, with the change of the claim or block that they tell of; never deleted
//	day_totals, model_totals    the worker, with its thread; never deleted
//
// What the projects of one codex home share lies beside their databases, in files of its own (Account): passes of
// projects that know nothing of each other read it, and none of them waits for another's database.
//
// # Decisions
//
// One connection per process. Its synchronous level is FULL; a heartbeat lowers it to NORMAL for its own
// transaction. The switch costs about 1 µs, where a second handle for heartbeats would cost 0.4 ms at open; a
// heartbeat then takes 55 µs instead of 270 (ext4 on a quiet disk, and 1.5 ms on a busy one). A power failure may
// lose the last heartbeats, never an earlier write while a later one stays: the WAL is read up to its first gap.
//
// Every write transaction begins IMMEDIATE and waits for its turn: a transaction that reads first and then finds
// another writer fails at once, whatever the timeout. SQLite waits five seconds, looking again now and then, and has
// no queue: under load one may be unlucky for longer. While the WAL shows that others write, the wait goes on, for a
// minute at most; where nobody has written in five seconds somebody holds the database, and that is an error.
// (Twenty processes that write without a pause lost one to state_busy now and then. A lock file to queue at would
// cost every heartbeat two system calls, and stop them all where its holder is frozen.) Readings begin DEFERRED and
// wait for nobody.
//
// The switch of a new file to WAL is not covered by the busy timeout. So the database is born under another name,
// by a pass that holds the lock, and is renamed when it is complete; nobody else ever creates one.
//
// Statements are not prepared ahead: opening and reading an empty state takes 0.4 ms beside other processes, 1.4 ms
// alone with the close, and 500 claims 4 ms, nearly all of it JSON. No process runs one statement often enough.
//
// The tokens of a run are kept in step with those of its threads by SaveThread, in one transaction, because codex
// counts a thread's tokens over all of its runs: two records written one after the other would lose or double what
// a crash between them cuts off.
package state
