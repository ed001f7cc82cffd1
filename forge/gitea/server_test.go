package gitea

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// binaryVar names the program of a real Gitea, which .ci/run builds. The file
// options/locale/locale_en-US.json of its module is beside it.
const binaryVar = "SYMPHONY_TEST_GITEA"

// server is a real Gitea, which all tests of this package share: each has a repository.
type server struct {
	url   string // without a slash at the end
	admin string // a token with all scopes
	token string // of the operator
	next  func() int
}

var started struct {
	sync.Once
	server *server
	stop   func()
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if started.stop != nil {
		started.stop()
	}
	os.Exit(code)
}

// theServer starts Gitea once. It skips the test if there is no program.
func theServer(t *testing.T) *server {
	t.Helper()
	program := os.Getenv(binaryVar)
	if program == "" {
		t.Skip(binaryVar + " does not name the program of a Gitea")
	}
	started.Do(func() { started.server, started.stop, started.err = start(program) })
	test.OK(t, started.err)
	return started.server
}

// settings are those of the configuration file.
const settings = `
RUN_USER = %[1]s
RUN_MODE = prod
WORK_PATH = %[2]s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[3]d
ROOT_URL = http://127.0.0.1:%[3]d/
STATIC_ROOT_PATH = %[4]s
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = %[2]s/gitea.db
[security]
INSTALL_LOCK = true
PASSWORD_HASH_ALGO = pbkdf2_v1
[service]
DISABLE_REGISTRATION = true
[repository]
ROOT = %[2]s/repos
DEFAULT_BRANCH = main
[actions]
ENABLED = true
[cron]
ENABLED = false
[cron.update_checker]
ENABLED = false
[log]
LEVEL = Warn
MODE = console
`

// start starts Gitea and makes its administrator.
func start(program string) (*server, func(), error) {
	dir, err := os.MkdirTemp("", "gitea")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, remove, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	me, err := user.Current()
	if err != nil {
		return nil, remove, err
	}
	ini := filepath.Join(dir, "app.ini")
	text := fmt.Sprintf(settings, me.Username, dir, port, filepath.Dir(program))
	if err := os.WriteFile(ini, []byte(text), 0o600); err != nil {
		return nil, remove, err
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GITEA_WORK_DIR=" + dir}
	run := exec.Command(program, "web", "-c", ini)
	run.Env = env
	said := &bytes.Buffer{}
	run.Stdout = said
	run.Stderr = said
	if err := run.Start(); err != nil {
		return nil, remove, err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	stop := func() {
		_ = run.Process.Signal(syscall.SIGTERM)
		<-ended
		remove()
	}
	s := &server{url: fmt.Sprintf("http://127.0.0.1:%d", port), next: counter()}
	for began := time.Now(); !s.isHealthy(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			stop()
			return nil, nil, fmt.Errorf("gitea does not answer: %s", said)
		}
	}
	create := exec.Command(
		program, "-c", ini, "admin", "user", "create", "--admin",
		"--username", "boss", "--password", password, "--email", "boss@example.com",
		"--must-change-password=false",
	)
	create.Env = env
	if out, err := create.CombinedOutput(); err != nil {
		return nil, stop, fmt.Errorf("make the administrator: %w: %s", err, out)
	}
	s.admin, err = s.makeToken("boss", "all")
	if err != nil {
		return nil, stop, err
	}
	return s, stop, s.makeAccounts()
}

func counter() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}

func (s *server) isHealthy() bool {
	resp, err := http.Get(s.url + "/api/healthz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

const password = "passw0rd-x1"

// makeToken returns a new token of an account.
func (s *server) makeToken(account string, scopes ...string) (string, error) {
	var made struct {
		Token string `json:"sha1"`
	}
	body := map[string]any{"name": fmt.Sprint("t", s.next()), "scopes": scopes}
	err := s.request(http.MethodPost, "/users/"+account+"/tokens", body, &made, func(r *http.Request) {
		r.SetBasicAuth(account, password)
	})
	return made.Token, err
}

// request sends a request and decodes the answer into to, which may be nil.
func (s *server) request(method, path string, body, to any, login func(*http.Request)) error {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequest(method, s.url+"/api/v1"+path, sent)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	login(r)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	if to == nil || len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, to)
}

// as returns a function that sends requests in the name of an account.
func (s *server) as(t testing.TB, account string) func(method, path string, body, to any) {
	return func(method, path string, body, to any) {
		t.Helper()
		test.OK(t, s.request(method, path, body, to, s.sudo(account)))
	}
}

// sudo returns a login in the name of an account.
func (s *server) sudo(account string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "token "+s.admin)
		r.Header.Set("Sudo", account)
	}
}

// The accounts: the owner of all repositories; symphony's own, which may write, like kim; and
// robin, who may read.
const (
	owner    = "team"
	operator = "operator"
	writer   = "kim"
	reader   = "robin"
)

// makeAccounts makes the accounts, and the token of the operator.
func (s *server) makeAccounts() error {
	for _, name := range []string{owner, operator, writer, reader} {
		err := s.request(http.MethodPost, "/admin/users", map[string]any{
			"username":             name,
			"email":                name + "@example.com",
			"password":             password,
			"must_change_password": false,
		}, nil, s.sudo("boss"))
		if err != nil {
			return err
		}
	}
	var err error
	s.token, err = s.makeToken(operator, "write:repository", "write:issue", "read:user")
	return err
}

// place is a repository with a clone.
type place struct {
	*server
	t          *testing.T
	clone      string // a directory
	repository string // team/NAME
}

// newPlace makes a repository whose branch main has a commit.
func newPlace(t *testing.T) *place {
	t.Helper()
	s := theServer(t)
	name := fmt.Sprint("repo", s.next())
	p := &place{server: s, t: t, clone: t.TempDir(), repository: owner + "/" + name}
	as := p.as(t, owner)
	as(http.MethodPost, "/user/repos", map[string]any{"name": name, "default_branch": "main"}, nil)
	for _, account := range []string{operator, writer} {
		path := "/repos/" + p.repository + "/collaborators/" + account
		as(http.MethodPut, path, map[string]any{"permission": "write"}, nil)
	}
	remote := strings.Replace(s.url, "://", "://"+operator+":"+s.token+"@", 1) + "/" + p.repository + ".git"
	p.git("init", "-q", "-b", "main")
	p.git("remote", "add", "origin", remote)
	p.commit("main")
	// Until then the repository has no pull requests, and is answered with 404.
	isEmpty := true
	for began := time.Now(); isEmpty && time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		var repository struct {
			Empty bool `json:"empty"`
		}
		as(http.MethodGet, "/repos/"+p.repository, nil, &repository)
		isEmpty = repository.Empty
	}
	return p
}

// commit adds a commit to a branch and pushes it. A new branch begins at main. Gitea merges no
// pull request later that changes no file.
func (p *place) commit(branch string) string {
	p.t.Helper()
	p.git("checkout", "-q", "-B", "here", p.start(branch))
	name := rand.Text()
	test.OK(p.t, os.WriteFile(filepath.Join(p.clone, name), nil, 0o600))
	p.git("add", name)
	p.git("commit", "-q", "-m", "more")
	p.git("push", "-q", "origin", "HEAD:refs/heads/"+branch)
	p.git("update-ref", "refs/pushed/"+branch, "HEAD")
	return p.git("rev-parse", "HEAD")
}

// start returns the commit on which the next commit of a branch is made.
func (p *place) start(branch string) string {
	for _, ref := range []string{"refs/pushed/" + branch, "refs/pushed/main"} {
		cmd := exec.CommandContext(p.t.Context(), "git", "-C", p.clone, "rev-parse", "-q", "--verify", ref)
		if cmd.Run() == nil {
			return ref
		}
	}
	return p.git("commit-tree", "-m", "empty", p.git("mktree"))
}

func (p *place) git(args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "git", args...)
	cmd.Dir = p.clone
	cmd.Env = append(
		os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org",
	)
	return strings.TrimSpace(test.Run(p.t, cmd))
}
