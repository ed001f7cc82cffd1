package host_test

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// A login with gh is of use only on GitHub.
func TestHintWithoutPassword(t *testing.T) {
	for _, address := range []string{"https://github.com", "https://me@github.com", "https://shop.ghe.com"} {
		hint := host.GitHint("fatal: could not read Username for '" + address + "': terminal prompts disabled")
		test.Contains(t, "the hint for "+address, hint, "gh auth setup-git")
	}
	for _, address := range []string{"https://codeberg.org", "http://127.0.0.1:3000", "https://kim@git.example.com"} {
		hint := host.GitHint("fatal: could not read Password for '" + address + "': terminal prompts disabled")
		test.Contains(t, "the hint for "+address, hint, "credential.helper store")
		test.Lacks(t, "the hint for "+address, hint, "gh auth")
	}
}

// A remote on this machine may belong to another account.
func TestHintNotStored(t *testing.T) {
	hint := host.GitHint(" ! [remote rejected] symphony/ABC-1 -> symphony/ABC-1 (unpacker error)")
	test.Contains(t, "the hint", hint, "whether the account that symphony runs as may write there")
}
