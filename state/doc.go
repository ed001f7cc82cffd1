// Package state keeps symphony's claims, runs and totals in a SQLite database, and the lock that serialises passes.
//
// The WHERE clause of each statement decides who may write what: a statement that finds its row changed writes nothing and
// returns reconcile.ErrConflict.
//
//	claims                      Store (a pass, under the lock)     WHERE version = ?
//	runs: phase, counters       Journal (the run's worker)         WHERE outcome IS NULL, once it has taken the run
//	runs: stop_reason           Store                              WHERE outcome IS NULL
//	runs: outcome               Journal; or Store, while the pass  once: WHERE outcome IS NULL (AND phase = ? for a pass)
//	                            holds the run's alive file
//	runs: settled               Store, with claim and totals       once: WHERE settled = 0 AND outcome IS NOT NULL
//	commands                    Operator inserts, Store consumes with the change of the claim
//	requests                    Journal inserts and resolves, Operator decides
//	attentions                  added with the event that they report; taken and closed by Attentions
//	threads                     Journal, while the run has no outcome
//	passes, skips, meta         Store
//	releases, outages           Store, with the change of the claim or block; never deleted
//	model_totals                Journal, with its thread; never deleted
//
// What the projects of one codex home share lies beside their databases, in files of its own (Account): no project waits
// for another project's database.
//
// # Decisions
//
// There is one connection per process. Its synchronous level is FULL; a heartbeat lowers it to NORMAL for its own
// transaction. A power failure may lose the last heartbeats, but never an earlier write while a later one stays: the WAL is
// read up to its first gap.
//
// Every write transaction begins IMMEDIATE and waits for its turn: a transaction that reads first and then finds another
// writer would fail at once, whatever the timeout. Reading transactions begin DEFERRED and wait for no writer.
//
// A new database is made under a temporary name, by a pass that holds the lock, and renamed when it is complete. No other
// process ever creates one.
package state
