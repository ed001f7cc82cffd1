//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// The remote of a team is served by git daemon, by a real ssh server or by a real Gitea. Each connection
// comes through the cable of its machine, and then through [remote.answer], which lets some of them fail.
const (
	overGit   = "git"
	overSSH   = "ssh"
	overGitea = "gitea"
)

// sshd is the ssh server of this machine.
const sshd = "/usr/sbin/sshd"

// hasSSHD reports whether an ssh server can be started. One of root needs a folder of its own.
func hasSSHD() bool {
	_, missing := exec.LookPath(sshd)
	_, err := os.Stat("/run/sshd")
	return missing == nil && (err == nil || os.Geteuid() != 0)
}

// choose chooses what the flags leave open.
func (s *teamScene) choose() {
	random := s.random("variant")
	ways := []string{overGit}
	if hasSSHD() {
		ways = append(ways, overSSH)
	}
	s.way = ways[random.IntN(len(ways))]
	if *remoteWay != "" {
		s.way = *remoteWay
	}
	s.onBranch = random.IntN(2) == 0
	if *claimsIn != "" {
		s.onBranch = *claimsIn == "branch"
	}
}

// prepareRemote makes the remote and what logs its changes.
func (s *teamScene) prepareRemote() {
	s.remote = newRemote(s.random("remote"))
	switch s.way {
	case overSSH:
		s.prepareSSH()
	case overGitea:
		s.prepareGitea()
	}
	s.addOtherClaims()
	hooks := map[string]string{
		"reference-transaction": fmt.Sprintf(teamLog, s.log(), filepath.Join(s.remote.dir, "prepared"), s.stormFile()),
		teamPreReceive(s.way):   fmt.Sprintf(teamRefusals, s.stormFile(), s.refusalFile()),
	}
	for name, text := range hooks {
		stage.Must(os.WriteFile(filepath.Join(s.remote.git, "hooks", name), []byte(text), 0o700))
	}
}

// teamPreReceive is the name of the hook before a push. Gitea has one of its own, which calls others.
func teamPreReceive(way string) string {
	if way == overGitea {
		return "pre-receive.d/storm"
	}
	return "pre-receive"
}

// prepareSSH makes keys, and lets sshd serve the connections.
func (s *teamScene) prepareSSH() {
	dir := filepath.Join(s.remote.dir, "ssh")
	stage.Must(os.Mkdir(dir, 0o700))
	for _, name := range []string{"host", "key"} {
		keygen := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name))
		if text, err := keygen.CombinedOutput(); err != nil {
			stage.Must(fmt.Errorf("ssh-keygen: %w: %s", err, text))
		}
	}
	known := "remote " + string(stage.Get(os.ReadFile(filepath.Join(dir, "host.pub"))))
	stage.Must(os.WriteFile(filepath.Join(dir, "known"), []byte(known), 0o600))
	config := fmt.Sprintf(`HostKey %[1]s/host
AuthorizedKeysFile %[1]s/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PidFile none
SetEnv HOME=%[1]s PATH=%[2]s
`, dir, os.Getenv("PATH"))
	stage.Must(os.WriteFile(filepath.Join(dir, "server"), []byte(config), 0o600))
	s.remote.command = []string{sshd, "-i", "-f", filepath.Join(dir, "server"), "-E", filepath.Join(dir, "log")}
}

// prepareGitea starts a Gitea with a repository, which becomes the remote.
func (s *teamScene) prepareGitea() {
	s.gitea = stage.Get(giteatest.Start())
	s.giteaName = stage.Get(s.gitea.MakeRepository())
	login := url.UserPassword(giteatest.Operator, s.gitea.Token)
	address := stage.Get(url.Parse(s.gitea.URL))
	to := url.URL{Scheme: "http", User: login, Host: address.Host, Path: "/" + s.giteaName + ".git"}
	stage.Get(s.remote.run("push", "-q", to.String(), "main"))
	s.remote.git = s.gitea.Git(s.giteaName)
	s.remote.to = address.Host
}

// connect lets a machine reach the remote by a cable of its own, and returns the address for it.
func (s *teamScene) connect(m *machine) (address string) {
	m.link = newCable(s.remote.server.Addr().String())
	switch s.way {
	case overSSH:
		host, port, err := net.SplitHostPort(m.link.address())
		stage.Must(err)
		config := fmt.Sprintf(`Host remote
  HostName %s
  Port %s
  HostKeyAlias remote
  IdentityFile %[3]s/key
  IdentitiesOnly yes
  UserKnownHostsFile %[3]s/known
  GlobalKnownHostsFile none
`, host, port, filepath.Join(s.remote.dir, "ssh"))
		path := filepath.Join(m.Dir, "ssh")
		stage.Must(os.WriteFile(path, []byte(config), 0o600))
		profile := "export GIT_SSH_COMMAND='ssh -F " + path + "'\n"
		stage.Must(os.WriteFile(filepath.Join(m.Home, ".profile"), []byte(profile), 0o600))
		return "remote:" + s.remote.git
	case overGitea:
		helper := fmt.Sprintf(
			"[credential]\n\thelper = \"!f() { echo username=%s; echo password=%s; }; f\"\n",
			giteatest.Operator, s.gitea.Token,
		)
		stage.Must(os.WriteFile(filepath.Join(m.Home, ".gitconfig"), []byte(helper), 0o600))
		return "http://" + m.link.address() + "/" + s.giteaName + ".git"
	}
	return "git://" + m.link.address() + "/" + remoteName + ".git"
}

// cable is the link of a machine to the remote.
type cable struct {
	to     string
	server net.Listener

	mu    sync.Mutex
	until time.Time // of the cut
	mute  time.Time // until then nothing arrives, and no connection breaks
	open  map[net.Conn]bool
}

func newCable(to string) *cable {
	c := &cable{to: to, open: map[net.Conn]bool{}}
	c.server = stage.Get(net.Listen("tcp", "127.0.0.1:0"))
	go func() {
		for conn, err := c.server.Accept(); err == nil; conn, err = c.server.Accept() {
			go c.carry(conn)
		}
	}()
	return c
}

func (c *cable) address() string { return c.server.Addr().String() }

// close closes all connections.
func (c *cable) close() {
	c.cut(time.Hour)
	_ = c.server.Close() // nobody connects any more
}

// cut breaks all connections, and refuses new ones for a time.
func (c *cable) cut(length time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(length)
	if length == 0 {
		c.mute = time.Time{}
		return
	}
	for conn := range c.open {
		_ = conn.Close() // the other side may have
	}
}

// hang lets nothing arrive for a time, on old and on new connections.
func (c *cable) hang(length time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = time.Now().Add(length)
}

// isMute reports whether nothing arrives now.
func (c *cable) isMute() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.mute)
}

// add notes a connection; false if the cable is cut.
func (c *cable) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = true
	return !time.Now().Before(c.until)
}

func (c *cable) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// carry copies a connection in both directions.
func (c *cable) carry(near net.Conn) {
	defer near.Close()
	defer c.remove(near)
	if !c.add(near) {
		return
	}
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		c.copy(far, near)
		_ = far.(*net.TCPConn).CloseWrite()
	}()
	c.copy(near, far)
}

// copy copies until either side ends, and waits while the cable is mute.
func (c *cable) copy(to io.Writer, from io.Reader) {
	part := make([]byte, 32<<10)
	for {
		n, err := from.Read(part)
		for c.isMute() {
			time.Sleep(50 * time.Millisecond)
		}
		if _, writeErr := to.Write(part[:n]); errors.Join(err, writeErr) != nil {
			return
		}
	}
}

// cutter cuts the link of a machine to the remote now and then, or lets it hang, also for longer than a
// term.
func (s *teamScene) cutter(ctx context.Context, m *machine) {
	random := s.random("link of " + m.name)
	for pause(ctx, time.Duration(4+random.IntN(30))*time.Second) {
		length := time.Duration(500+random.IntN(8000)) * time.Millisecond
		if random.IntN(3) == 0 {
			length = s.term() + s.term()/3
		}
		s.count(&s.cuts)
		if random.IntN(2) == 0 {
			m.link.hang(length)
		} else {
			m.link.cut(length)
		}
	}
}
