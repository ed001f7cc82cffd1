package test

import (
	"os/exec" //nolint:depguard // only tests start it
	"strings"
	"testing"
)

// Run runs a command and returns what it printed, without the white space around it. If the command fails, it ends the test.
func Run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
