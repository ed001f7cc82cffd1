package runner

import (
	"os/exec"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestVerifyWords checks that the first line that fails ends a command of several lines, and that
// a pipeline fails with each of its programs.
func TestVerifyWords(t *testing.T) {
	for command, exit := range map[string]int{
		"true\n":                            0,
		"false; true":                       0,
		"(exit 3) | cat":                    3,
		"(exit 3)\necho linted\n":           3,
		"(exit 3) | cat\necho linted":       3,
		"# both\necho one\n\necho two":      0,
		"if false; then\n  exit 5\nfi":      0,
		"false || true\ngrep -q x y || :\n": 0,
		"set +e\nfalse\ntrue":               0,
	} {
		words := Verify{Command: command, Timeout: time.Minute}.words()
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		out, _ := cmd.CombinedOutput() // the exit code says what there is to know
		test.Equal(t, "the exit code of "+command+", which prints "+string(out), cmd.ProcessState.ExitCode(), exit)
	}
}
