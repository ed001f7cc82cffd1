// Package codextest is a small app-server that does what a script in the
// prompt says, in the wire shapes of codex 0.169. Tests drive sessions and
// workers with it, and the demo command serves it as its agent: nothing in it
// needs a model, a network or a sandbox.
//
// # Scripts
//
// A script stands in the prompt, between a line "```agent" and a line "```":
//
//	```agent
//	think the first attempt fails
//	sh make
//	attempt 1+:
//	sh git commit -qam fixed
//	turn 2:
//	say nothing is left
//	```
//
// One directive per line; blank lines and lines that begin with # are skipped.
// A header, "attempt N:", "turn N:" or "attempt N turn M:", each number
// perhaps with a + for "or more", begins a section. A turn does the first
// section whose header takes its attempt and its number; where none does, the
// lines before any header. Attempts count from 0 and are read from a line
// "Attempt: N" of the prompt; turns count from 1 within a process, and are read
// from continuation guidance ("continuation turn #2 of 3") where there is some.
// A prompt without a script does that of the last prompt of its thread that
// had one, also after a resume; a thread without any just says "done". A script
// that can't be read fails the turn with a message that names the line.
//
// What an agent does:
//
//	sh COMMAND            run it by bash -lc in the cwd; its item has output and exit code
//	background COMMAND    start it and leave it running; its item never ends
//	say TEXT              an agent message, word by word
//	think TEXT            a reasoning item
//	patch FILE TEXT       write TEXT to FILE; a fileChange item
//	tool NAME JSON        call a dynamic tool of the client's, wait for the answer
//	tokens IN OUT         report a model call of that size (without any: 1000 50 per turn)
//	ratelimits JSON       account/rateLimits/updated with that object
//	sleep DURATION        silence
//	stream N INTERVAL     N deltas of a message, an interval apart
//	subagent TEXT         another thread has a turn and says TEXT
//	subagent-ask COMMAND  another thread has a turn and asks approval of a command
//
// What it asks (the answers are obeyed as codex obeys them):
//
//	ask-command COMMAND   approval of a command, which runs if granted
//	ask-file FILE         approval of a file change
//	ask-permissions       more permissions
//	ask-user QUESTION     a question to a person
//	ask-form MESSAGE      an MCP server's form: region (eu or us), sure and n, the last two optional
//	request METHOD JSON   any request of the server's; threadId and turnId are added
//	unknown-request       one that no client knows
//
// How it goes wrong:
//
//	fail INFO MESSAGE     the turn fails; INFO is codexErrorInfo, a word or KEY=STATUS
//	cancel                the turn ends as interrupted
//	crash                 exit 1 at once; commands in the background stay
//	hang                  silence until interrupted
//	silent                the same; a model (package modeltest) hangs before, or is silent after, its headers
//	deaf                  from now on EOF and termination are ignored; commands started later inherit that
//	garbage TEXT          a line that is no message
//	long BYTES            an item whose line is that long
//	notify METHOD JSON    any notification
//	retry-notices N D     N notices "Reconnecting…", a duration apart; 0: for ever
//	steal-turn            after this turn codex starts another by itself
//	early-response        turn/start is answered after the turn's first notifications
//	late-response         turn/start is answered after the turn's end
//
// # Decisions
//
// The server asks what ask-… says whatever the approval policy is: codex asks
// nothing under "never", but then there would be nothing to test. Everything
// else that a client can see follows the recordings; the tests compare the
// members of every message with them.
//
// Commands run in sessions of their own (setsid), as codex's do, so that a test
// of clean-up has something to find: only a graceful exit kills them.
package codextest
