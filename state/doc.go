// Package state keeps symphony's claims, runs and totals in a SQLite database. It also
// contains the lock that serialises passes.
//
// The WHERE clause of each statement enforces who may write what: a statement whose row
// changed in the meantime writes nothing and returns reconcile.ErrConflict.
//
//	claims                      Store (a pass, under the lock)     WHERE version = ?
//	runs: phase, counters       Journal (the run's worker)         WHERE outcome IS NULL, once it took the run
//	runs: stop_reason           Store                              WHERE outcome IS NULL
//	runs: outcome               Journal; or Store, while the pass  once: WHERE outcome IS NULL (AND phase = ? for a pass)
//	                            holds the run's alive file
//	runs: settled               Store, with claim and totals       once: WHERE settled = 0 AND outcome IS NOT NULL
//	commands                    Operator inserts, Store deletes together with the change of the claim
//	requests                    Journal inserts and resolves, Operator decides
//	attentions                  inserted with the event that they report; taken and closed by Attentions
//	calls                       Clients inserts and cancels, Journal carries out; or Clients, once the run is settled
//	calls with the verb tell    Operator inserts, Journal of a later or the present run marks
//	threads                     Journal, while the run is without an outcome
//	passes, skips, meta         Store
//	releases                    Store, with the change of the claim or block; never deleted
//	model_totals                Journal, with its thread; never deleted
//
// The shared state of all projects of an account is stored in separate files beside their
// databases (see Account), so that no project waits for another project's database.
//
// # Decisions
//
// Each process opens a single connection. Its synchronous level is FULL; a heartbeat lowers it
// to NORMAL for its own transaction. A power failure may then lose the last heartbeats, but
// never an earlier write while keeping a later one: SQLite reads the WAL up to its first gap.
//
// Every write transaction begins IMMEDIATE and waits for its turn: a transaction that reads
// first and then finds another writer would fail at once, whatever the timeout. Read
// transactions begin DEFERRED and wait for no writer.
//
// A pass that holds the lock creates a new database under a temporary name and renames it when
// it is complete. No other process ever creates a database.
package state
