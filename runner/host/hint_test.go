package host_test

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// git has asked for a password where nobody answers.
func TestHintWithoutPassword(t *testing.T) {
	hint := host.GitHint("fatal: could not read Password for 'https://git.example.com': terminal prompts disabled")
	test.Contains(t, "the hint", hint, "credential.helper store", "gh auth setup-git")
}

// A remote on this machine may belong to another account.
func TestHintNotStored(t *testing.T) {
	hint := host.GitHint(" ! [remote rejected] symphony/ABC-1 -> symphony/ABC-1 (unpacker error)")
	test.Contains(t, "the hint", hint, "whether this account may write there")
}
