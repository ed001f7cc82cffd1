package text

import (
	"slices"
	"strings"
)

// ShellUnset returns command with a prefix that makes a login shell (bash -lc, sh -lc) unset vars first, because its profile may
// have set them. It adds no line, so line numbers in errors stay right. If a variable cannot be unset (the profile made it
// read-only), the shell exits with 78. Names that are not shell identifiers are skipped: no profile can set them.
func ShellUnset(vars []string, command string) string {
	names := slices.DeleteFunc(slices.Clone(vars), func(v string) bool { return !identifier().MatchString(v) })
	if len(names) == 0 {
		return command
	}
	return "unset -v " + strings.Join(names, " ") + " || exit 78; " + command
}

// ShellIn returns command with a prefix that makes a login shell run it in dir, even if the profile changes the directory or
// redefines cd. If the shell cannot change to dir, it exits with 78.
func ShellIn(dir, command string) string {
	return "command cd -- " + ShellWord(dir) + " || exit 78; " + command
}

// ShellWord quotes s as one word for a shell.
func ShellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var identifier = Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
