package proc

import (
	"regexp"
	"slices"
	"strings"
)

// Scrub returns env ("NAME=value" entries) without the variables of a run (design 7), which no other run may see, and
// without those named in drop. ThreadMark is one of them: a worker that inherited it would count as a process of that
// thread's run.
func Scrub(env []string, drop ...string) []string {
	drop = append([]string{RunMark, ThreadMark, "SYMPHONY_ATTEMPT", "SYMPHONY_WORKSPACE", "SYMPHONY_OUTCOME"}, drop...)
	kept := append([]string{}, env...) // never nil: for os/exec a nil environment is its own
	return slices.DeleteFunc(kept, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "SYMPHONY_ISSUE_") || slices.Contains(drop, name)
	})
}

// ShellUnset changes command so that a login shell that runs it (bash -lc, sh -lc) first unsets vars, which its profile may
// have set again. Lines keep their numbers. If a variable cannot be unset (the profile made it read-only), the shell exits with
// 78. Names that are no shell identifiers are skipped: no profile can set them.
func ShellUnset(vars []string, command string) string {
	names := slices.DeleteFunc(slices.Clone(vars), func(v string) bool { return !isIdentifier(v) })
	if len(names) == 0 {
		return command
	}
	return "unset -v " + strings.Join(names, " ") + " || exit 78; " + command
}

// ShellIn changes command so that a login shell runs it in dir, whatever directory the profile chose and whatever it made
// of cd. If the shell cannot go there it exits with 78.
func ShellIn(dir, command string) string {
	return "command cd -- " + ShellWord(dir) + " || exit 78; " + command
}

// ShellWord quotes a text for a shell.
func ShellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var isIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString
