package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// A hook may print what only the login profile exports: that is kept out of its log, and out of what its failure is
// recorded with, whatever else the profile does.
func TestHookPrintsSecretOfProfile(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		unknown bool // nobody can find out
	}{
		"plain":                        {"export OF_PROFILE_TOKEN=value-of-the-profile\n", false},
		"something is left behind":     {"export OF_PROFILE_TOKEN=value-of-the-profile; sleep 300 >/dev/null 2>&1 &\nexport OF_PROFILE_TOKEN=value-of-the-profile\n", false},
		"several lines":                {"export OF_PROFILE_TOKEN='value-of-the-profile\nwhich-is-long-enough'\n", false},
		"more than fits into the pipe": {"export OF_PROFILE_TOKEN=value-of-the-profile A=$(head -c 100000 /dev/zero | tr '\\0' x)\n", false},
		"env can't be found":           {"env() { echo not that one; }; PATH=/nowhere; export OF_PROFILE_TOKEN=value-of-the-profile\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "say hm")
			must(t, os.WriteFile(filepath.Join(filepath.Dir(r.root), "home", ".profile"), []byte(c.profile), 0o600))
			r.Config.Hooks.BeforeRun = "echo begun; (echo open >&4) 2>/dev/null\necho it has $OF_PROFILE_TOKEN >&2; exit 3"
			run := r.ends(reconcile.Failed, "hook_failed")
			text := read(t, filepath.Join(r.Dir, hooksFile))
			if got := strings.Contains(text+run.ErrorText+r.log.String(), "value-of-the-profile"); got != c.unknown {
				t.Errorf("the secret stands there: %v\n%s\n%s", got, text, run.ErrorText)
			}
			said := lines(text)
			if !c.unknown && !slices.ContainsFunc(said, func(l string) bool { return strings.HasPrefix(l, "it has "+agent.Redacted) }) {
				t.Errorf("the hook said %q", said)
			}
			if slices.Contains(said, "open") || !slices.Contains(said, "begun") {
				t.Errorf("the pipe is open in the script, or it was not run: %q", said)
			}
		})
	}
}
