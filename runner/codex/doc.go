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
//	CallTool, Ask, interrupts of turns nobody asked for: a goroutine each
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
// the turn goes on; failing, it is cancelled, which ends the turn. A question
// fails the turn; it is answered with nothing first, because codex would wait
// for ever, and the turn is interrupted then. MCP servers' forms want a person's
// words: where none is asked they are declined, and the turn goes on. codex's own
// question whether a tool of an MCP server may run comes as a form without
// fields, told by its _meta (codex_approval_kind); it is an approval and answered
// as one.
//
// Where a person is asked, both clocks stand still: nobody but the person is
// late. A request that is declined or expires is declined to codex and the turn
// goes on, a question's too, which is answered with nothing. What is decided
// after the request's end is not sent, there is nothing left that it would
// answer; only a sub-agent's request that our turn leaves behind is declined then.
//
// Every command that codex asks about is said to run outside the sandbox. An
// accept of an escalation does so, and nothing in the request tells one for
// certain. Tried with 0.169: under untrusted each command is asked about, without
// a reason, and stays inside; so does a dangerous one (rm -rf) under on-request.
// But an escalation whose model gave no justification has no reason either,
// and the same members throughout. A request for additional permissions (with
// codex's feature exec_permission_approvals) stays inside at first; it names them,
// and so does the summary, before the command. A patch stays inside only under untrusted, without a reason, with
// every path below the turn's cwd and none in what the sandbox protects there
// (approved, one through a link that led out failed); under the other policies it
// is asked about because the sandbox would refuse it, or has done so. An MCP
// server's tool runs where the server does, outside; under never codex refuses
// one that needs approval by itself.
//
// Messages of other versions are read where 10.2 to 10.5 name them: turn/failed
// and turn/cancelled, turn/completed without parameters, token totals in
// wrappers, members in snake case, codex/event/*. Those events came alone
// once and later beside today's notifications; task_complete and turn_aborted
// therefore end a turn only when no turn/completed has come within a second.
// Nothing of another version is ever sent.
//
// A blocked write can't be called back in Go; it is reported after ReadTimeout
// and ends the session, and Close unblocks it.
package codex
