package text

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// What a login shell does with a command, whatever its profile has done before.
func TestCommandsInLoginShells(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "-it's $HOME")
	test.OK(t, os.Mkdir(dir, 0o700))
	secret := "KEY=secret; export KEY TOKEN=secret2 OTHER=fine\nhello() { echo \"hello $1\"; }\n"
	elsewhere := "cd() { command cd /; }; CDPATH=/; cd /usr\n"
	for _, c := range []struct {
		what, profile, command string
		want, err              string
	}{
		{"the profile is read", secret, "echo $KEY", "secret\n", ""},
		{
			"secrets are unset", secret,
			ShellUnset([]string{
				"KEY",
				"TOKEN",
				"NOT_SET",
			}, "printenv KEY TOKEN OTHER; hello \"a  'b'\" # done\ncat <<E && hello $OTHER\nx\nE"),
			"fine\nhello a  'b'\nx\nhello fine\n", "",
		},
		{"the status is the command's", secret, ShellUnset([]string{"KEY"}, "exit 5"), "", "exit status 5"},
		{
			"a secret that cannot be unset",
			"KEY=secret; readonly KEY\n",
			ShellUnset([]string{"KEY"}, "printenv"),
			"",
			"exit status",
		},
		{"the directory", elsewhere, ShellIn(dir, "pwd"), dir + "\n", ""},
		{"no such directory", elsewhere, ShellIn("/nowhere", "pwd"), "", "exit status 78"},
	} {
		for _, shell := range []string{"bash", "sh"} {
			home := t.TempDir()
			test.OK(t, os.WriteFile(filepath.Join(home, ".profile"), []byte(c.profile), 0o600))
			cmd := exec.Command(shell, "-lc", c.command)
			cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
			out, err := cmd.Output()
			if string(out) != c.want || (err == nil) != (c.err == "") ||
				err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: %s: %q, %v", c.what, shell, out, err)
			}
		}
	}
}
