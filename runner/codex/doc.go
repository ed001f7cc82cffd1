// Package codex is the client of one `codex app-server`: line-delimited JSON
// messages over two pipes (specification 10, design section 9). It starts no
// process and knows nothing of issues; whoever owns the process gives a
// Transport and takes events, tokens and the end of each turn.
//
//	Initialize ─► StartThread | ResumeThread ─► RunTurn … RunTurn ─► Close
//
// # Words
//
// A session is one conversation with one process. A thread is codex's stored
// conversation and may outlive the process; a turn is one prompt and all that
// follows until turn/completed; an item is a piece of a turn (a message, a
// command, a patch). Requests go both ways, and both sides number theirs.
// Progress is what moves the stall clock.
//
// # Who runs where
//
//	stdout ─► read (reader) ─┬─► notice, serve, answered   state, under mu
//	                         ├─► events queue ─► deliver ─► OnEvent
//	                         └─► writer queue ─► run ─────► stdin
//	RunTurn: waits on the turn's channels, ctx and the clocks (watch)
//	CallTool, interrupts of turns nobody asked for: a goroutine each
//
// The reader never waits for the agent: answers are queued, so that a full pipe
// in one direction can't stop the other. It waits for OnEvent only when a
// thousand events are queued. It ends at the end of stdout, and with it the
// rest: Done.
//
// # Decisions
//
// State is judged in the order of the stream. The answer to turn/start sets the
// turn's id in the reader, before the next line is looked at, so that a
// turn/completed in the same read belongs to it. Answers and ends that come
// before they can belong to anything are kept (64) and judged when their
// request is made.
//
// turn/start has the fixed id 3, so a request that was given up stays
// registered: its late answer can't pass for that of the next turn.
//
// A turn ends with its turn/completed only: same thread, same turn. Other
// threads on the stream are sub-agents; their items, tokens and requests count,
// their ends do not. A turn on our thread that we did not start is interrupted
// (codex's goals go on by themselves), and turn/start waits until it is over:
// sent during a turn, turn/start would steer that one instead of starting
// another. Where the two cross, it is sent again, up to three times.
//
// After a clock ran out or ctx ended RunTurn returns at once and leaves the turn
// to the caller, who mostly ends the process: Interrupt still finds it. Clocks
// are monotonic, so that neither a stepped clock nor a suspend is held against
// the agent.
//
// A stall keeps its code whatever led to it; Cause and Info tell the class of
// the last retry notice, so that a stall without a network can be told from
// one of the model's.
//
// Approvals are granted for the session where codex offers that (commands,
// patches), since the policy would say yes again. Permissions are granted for
// the turn, exactly as asked: the next turn asks again and gets them again, and
// nothing outlives the work it was asked for. Denied, a command is declined and
// the turn goes on; failing, it is cancelled, which ends the turn. MCP servers'
// forms are declined in any case, they want a person's words. A question fails
// the turn; it is answered with nothing first, because codex would wait for
// ever, and the turn is interrupted then.
//
// Messages of other versions are read where 10.2 to 10.5 name them: turn/failed
// and turn/cancelled, turn/completed without parameters, token totals in
// wrappers with snake case. Nothing of another version is ever sent.
//
// A blocked write can't be called back in Go; it is reported after ReadTimeout
// and ends the session, and Close unblocks it.
package codex
