package text

import (
	"regexp"
	"slices"
	"strings"
)

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
