package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func TestMain(m *testing.M) { proctest.Main(m) }

func init() {
	// login is a worker that has inherited the shared file. It reports the variable that the
	// profile has set.
	proctest.Helpers["login"] = func(args []string) error {
		timeout, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		if err := proctest.SayUp(); err != nil {
			return err
		}
		run := Machine{Logins: os.NewFile(proc.FirstExtra, "logins")}.Run("none")
		answer, err := run.Login(context.Background(), host.LoginRequest{
			Env:     os.Environ(),
			Timeout: timeout,
		})
		for _, entry := range append(answer.Set, "AT=") { // /etc/profile sets others
			if strings.HasPrefix(entry, "AT=") {
				proctest.Say("set", entry, err)
				break
			}
		}
		return nil
	}
}

// siblings are workers that one pass has started.
type siblings struct {
	t      *testing.T
	home   string
	shared *os.File
}

func newSiblings(t *testing.T, profile string) *siblings {
	s := &siblings{t: t, home: t.TempDir(), shared: test.Must(proc.SharedFile())}
	t.Cleanup(func() { s.shared.Close() })
	test.OK(t, os.WriteFile(filepath.Join(s.home, ".profile"), []byte(profile), 0o600))
	return s
}

func (s *siblings) login(timeout time.Duration, env ...string) *proctest.Helper {
	return proctest.StartAs(s.t, append([]string{"HOME=" + s.home}, env...), func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{s.shared}
	}, "login", timeout.String())
}

// Another worker gets the answer of its own shell: what depends on its own directories
// differs, and a worker whose environment differs otherwise does not share.
func TestSharedLogin(t *testing.T) {
	s := newSiblings(t, "echo >> ~/logins; export AT=$TMPDIR/x$WAY\n")
	for _, c := range []struct{ tmp, way, want string }{
		{"/one", "", "/one/x"},
		{"/two", "", "/two/x"},
		{"/three", "new", "/three/xnew"},
		{"/four", "new", "/four/xnew"},
		{"/five", "", "/five/x"},
	} {
		w := s.login(test.Patience(), "TMPDIR="+c.tmp, "WAY="+c.way)
		w.Up()
		test.Equal(t, "what the profile has set, and error", w.Line("set"), "AT="+c.want+" <nil>")
	}
	test.Equal(t, "login shells", test.Read(t, filepath.Join(s.home, "logins")), "\n\n")
}

// A profile that hangs makes the others wait once, and not one after the other: their shells
// run at the same time.
func TestSharedLoginHangs(t *testing.T) {
	for limit := 300 * time.Millisecond; ; limit *= 2 { // a busy machine starts the shell later
		s := newSiblings(t, `mkdir ~/hangs && sleep 1000
			echo >> ~/others; until [ $(wc -l < ~/others) = 2 ]; do sleep 0.02; done; export AT=last`+"\n")
		hangs := func() bool { return test.Exists(t, filepath.Join(s.home, "hangs")) }
		first := s.login(limit)
		process := first.Up()
		test.Until(t, "the first shell to hang", func() bool { return hangs() || !proctest.Living(process) })
		if !hangs() && limit < test.Patience() {
			continue
		}
		second := s.login(test.Patience())
		third := s.login(test.Patience())
		test.Contains(t, "the first answer", first.Line("set"), "login_shell_failed", "it hangs")
		for _, w := range []*proctest.Helper{second, third} {
			w.Up()
			test.Equal(t, "the answer of another", w.Line("set"), "AT=last <nil>")
		}
		return
	}
}
