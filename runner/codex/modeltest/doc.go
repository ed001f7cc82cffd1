// Package modeltest is the model for tests with the real codex: a Responses
// API on the loopback interface that does what a script in the prompt says. The
// scripts are those of package codextest, so that one prompt drives either; the
// attempt and the section are chosen the same way, except that turns without
// continuation guidance are counted over the whole thread.
//
// The server keeps no state between requests: how far a script has come is the
// number of tool outputs after the last prompt. Each sh, background, patch,
// tool and ask-… is a call that ends one response; say, think, stream, sleep
// and tokens happen within one.
//
//	sh, background   exec_command, or the tool for commands that an older codex offers
//	ask-command      such a call that asks to leave the sandbox
//	ask-permissions  request_permissions
//	ask-user         request_user_input
//	patch            apply_patch, or a command that does it
//	tool             a function call of that name; NAMESPACE.NAME for those that codex offers in namespaces
//	fail             INFO is an HTTP status, usage_limit_reached (429 with headers), cut (the connection, in
//	                 mid-stream), or the code of a response.failed. usage_limit_reached=30s ends in 30 s, not in an hour;
//	                 500/2 and the like: only the first two requests, then the script goes on
//	crash            fail cut
//	long             a message of so many bytes, in one line of codex's
//	hang             no answer at all; silent: headers, then nothing
//	steal-turn       create_goal, so that codex goes on by itself
//
// Any other directive is answered with HTTP 400 that names it.
package modeltest
