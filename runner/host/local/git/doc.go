// Package git reads the repositories of workspaces, and guards the workflow's hooks from files
// and settings that agents leave in them.
//
// The content of a repository is not trusted, because the agent can write there. Writable
// returns directories outside the workspace only if the repository there points back or the
// operator opened them. Fingerprint, Inspect, Diff and Unsaved run git with a temporary git
// directory, because a repository's configuration can name programs to run (filters,
// fsmonitor, transports). Guard undoes or reports everything that could run a program in a
// hook.
package git
