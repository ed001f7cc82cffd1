package proc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// runVariables are the variables of one run (design 7), which no other run may see, and codex's mark of a thread:
// a worker that inherited it would count as a process of the run that the thread belongs to.
var runVariables = [...]string{RunMark, ThreadMark, "SYMPHONY_ATTEMPT", "SYMPHONY_WORKSPACE", "SYMPHONY_OUTCOME"}

// issuePrefix begins the variables that describe the issue of a run.
const issuePrefix = "SYMPHONY_ISSUE_"

// Scrub returns env ("NAME=value" entries) without the variables of a run and without those named in drop.
func Scrub(env []string, drop ...string) []string {
	kept := make([]string, 0, len(env))
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, issuePrefix) || slices.Contains(runVariables[:], name) || slices.Contains(drop, name) {
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

// ShellUnset returns command so that a login shell running it (bash -lc, sh -lc) first unsets vars, which the
// profile may have set again. The command itself is not touched, and no second shell reads it: functions of the
// profile stay known, and the lines keep their numbers. Where a variable can't be unset (the profile made it
// read-only) the shell ends with 78 instead of running the command with a secret in its environment.
//
// Names that are no shell identifiers are left out: no profile can set them.
func ShellUnset(vars []string, command string) string {
	names := slices.DeleteFunc(slices.Clone(vars), func(v string) bool { return !isIdentifier(v) })
	if len(names) == 0 {
		return command
	}
	return "unset -v " + strings.Join(names, " ") + " || exit 78; " + command
}

// ShellReport returns command so that a login shell running it first makes the file at path where the profile has
// set one of vars: who starts the shell without them learns so that other login shells have them. Where the file
// can't be made the shell ends with 78.
func ShellReport(vars []string, path, command string) string {
	var b strings.Builder
	for _, v := range vars {
		if isIdentifier(v) {
			fmt.Fprintf(&b, `[ -z "${%s+x}" ] || : >| %s || exit 78; `, v, ShellWord(path))
		}
	}
	return b.String() + command
}

// ShellIn returns command so that a login shell runs it in dir, wherever the profile went, and whatever it made
// of cd. Where it can't go there the shell ends with 78.
func ShellIn(dir, command string) string {
	return "command cd -- " + ShellWord(dir) + " || exit 78; " + command
}

// ShellWord quotes a text for a shell.
func ShellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func isIdentifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// Environ is the environment ("NAME=value" entries) that a process was started with; empty where the system does not
// show it. os.ErrProcessDone where there is no such process any more.
func Environ(p reconcile.Process) ([]string, error) {
	raw, err := environ(p.PID)
	if err != nil {
		return nil, fmt.Errorf("environment of process %d: %w", p.PID, err)
	}
	// Not before: it was this process's if the process is the same still.
	if err := isProcess(p.PID, p.Start); err != nil {
		return nil, err
	}
	var env []string
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		}
	}
	return env, nil
}
