// Package git reads the repositories of workspaces, and guards the workflow's hooks from what agents leave in them.
//
// What a repository says is not trusted, because the agent can write there. Writable names directories outside of the
// workspace only where the repository there points back or the operator has opened them. Fingerprint, Inspect, Diff and
// Unsaved run git with a git directory of symphony's own, because a repository's configuration can name programs to run
// (filters, fsmonitor, transports). Guard undoes or reports what could run a program in a hook.
package git
