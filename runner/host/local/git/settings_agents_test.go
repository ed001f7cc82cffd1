package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestSettingsOfAgents: agents get the author and Git LFS of the operator, and no program of the
// operator's configuration.
func TestSettingsOfAgents(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	test.Equal(t, "without settings", SettingsOfAgents(t.Context(), env), "")
	config := "[user]\n\tname = Ann \\\"A\\\" Lee\n\temail = ann@example.com\n[alias]\n\tx = !touch x\n" +
		"[credential]\n\thelper = store\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n"
	test.OK(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600))
	got := SettingsOfAgents(t.Context(), env)
	test.Lacks(t, "settings", got, "touch x", "helper")
	other := t.TempDir()
	test.OK(t, os.WriteFile(filepath.Join(other, ".gitconfig"), []byte(got), 0o600))
	again := SettingsOfAgents(t.Context(), []string{"HOME=" + other, "PATH=" + os.Getenv("PATH")})
	test.Equal(t, "read by git", again, got)
	test.Contains(t, "settings", strings.ReplaceAll(got, "\t", ""),
		`name = "Ann \"A\" Lee"`, `clean = "git-lfs clean -- %f"`)
}
