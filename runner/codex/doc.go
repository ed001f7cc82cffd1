// Package codex is the client of one `codex app-server`: JSON messages, one a line, over two pipes (specification 10). It
// implements agent.Session, and it is the only package that knows codex's methods. It starts no process.
//
//	stdout ─► reader ─┬─► session, thread, turn    state
//	                  ├─► event queue ─► OnEvent
//	                  └─► write queue ─► stdin
//
// A conn is the connection: it reads, writes, matches answers to requests and delivers events. A Session is the
// conversation and its thread, a turn one prompt and all that follows until turn/completed. Both sides send requests, and
// both number theirs from a start of their own.
//
// # Decisions
//
// The reader judges each line before it reads the next. The answer to turn/start sets the turn's id in the reader, so that
// a turn/completed in the same read belongs to that turn. The reader never waits for stdin: answers are queued, so that a
// full pipe in one direction can't stop the other.
//
// A turn ends with its own turn/completed only. Other threads on the stream are sub-agents: their items, tokens and
// requests count, their ends do not. Goals, by which codex starts turns itself, are off in each thread's configuration.
//
// After a clock ran out or ctx ended, RunTurn returns at once and leaves the turn to the caller, which usually ends the
// process. Clocks are monotonic: neither a stepped clock nor a suspend counts against the agent. While a person is asked,
// they stand still, and they begin anew afterwards.
//
// Commands and patches are approved for the session, since the policy would say yes again; permissions for the turn,
// exactly as asked, so that nothing outlives the work it was asked for. A question that no person is asked fails the turn:
// it is answered with nothing first, because codex would wait for ever. A form of an MCP server is declined instead, and the
// turn goes on. Whether a tool of an MCP server may run comes as a form without fields, marked by codex_approval_kind; it is
// an approval.
//
// Every command that codex asks about counts as one outside the sandbox: an accept of an escalation runs there, and the
// request does not tell for certain whether it is one. A patch stays inside only under the policy untrusted, without a
// reason, with every path below the turn's directory and none that the sandbox protects there.
package codex
