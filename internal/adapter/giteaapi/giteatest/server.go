// Package giteatest starts a real Gitea for tests, and arranges repositories and issues there.
package giteatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// binaryVar names the program of a real Gitea, which .ci/run builds. The file
// options/locale/locale_en-US.json of its module is beside it.
const binaryVar = "SYMPHONY_TEST_GITEA"

// Server is a real Gitea, which all tests of a package share: each has a repository.
type Server struct {
	URL   string // without a slash at the end
	Token string // of Operator
	admin string // a token with all scopes
	dir   string
	// one is held during a request to the API, because SQLite refuses some that come together.
	one  sync.Mutex
	made atomic.Int64 // names that were made
}

var started struct {
	sync.Once
	server *Server
	stop   func()
	err    error
}

var errNone = errors.New(binaryVar + " does not name the program of a Gitea")

// Needs skips a test on a machine without the program.
func Needs(t testing.TB) {
	t.Helper()
	if !Exists() {
		t.Skip(errNone)
	}
}

// Exists reports whether the machine has the program.
func Exists() bool { return os.Getenv(binaryVar) != "" }

// Start starts Gitea once for all tests of a package, whose TestMain calls Stop.
func Start() (*Server, error) {
	program := os.Getenv(binaryVar)
	if program == "" {
		return nil, errNone
	}
	started.Do(func() { started.server, started.stop, started.err = start(program) })
	return started.server, started.err
}

// Stop ends the Gitea that Start has started.
func Stop() {
	if started.stop != nil {
		started.stop()
	}
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
SQLITE_JOURNAL_MODE = WAL
[indexer]
ISSUE_INDEXER_TYPE = db
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

// start starts Gitea and makes the accounts.
func start(program string) (s *Server, stop func(), err error) {
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
	stop = func() {
		_ = run.Process.Signal(syscall.SIGTERM)
		<-ended
		remove()
	}
	s = &Server{URL: fmt.Sprintf("http://127.0.0.1:%d", port), dir: dir}
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
	s.admin, err = s.MakeToken("boss", "all")
	if err != nil {
		return nil, stop, err
	}
	return s, stop, s.makeAccounts()
}

// Next returns a number that it has not returned before.
func (s *Server) Next() int64 { return s.made.Add(1) }

func (s *Server) isHealthy() bool {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL+"/api/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

const password = "passw0rd-x1"

// MakeToken returns a new token of an account.
func (s *Server) MakeToken(account string, scopes ...string) (string, error) {
	var made struct {
		Token string `json:"sha1"`
	}
	body := map[string]any{"name": fmt.Sprint("t", s.Next()), "scopes": scopes}
	err := s.request(http.MethodPost, "/users/"+account+"/tokens", body, &made, func(r *http.Request) {
		r.SetBasicAuth(account, password)
	})
	return made.Token, err
}

// As sends a request to the API in the name of an account, and decodes the answer into to, which
// may be nil.
func (s *Server) As(account, method, path string, body, to any) error {
	return s.request(method, path, body, to, func(r *http.Request) {
		r.Header.Set("Authorization", "token "+s.admin)
		r.Header.Set("Sudo", account)
	})
}

func (s *Server) request(method, path string, body, to any, login func(*http.Request)) error {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, s.URL+"/api/v1"+path, sent)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	login(r)
	s.one.Lock()
	defer s.one.Unlock()
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

// The accounts: the owner of all repositories; symphony's own, which may write, like kim; and
// robin, who may read.
const (
	Owner    = "team"
	Operator = "operator"
	Writer   = "kim"
	Reader   = "robin"
)

// makeAccounts makes the accounts, and the token of the operator.
func (s *Server) makeAccounts() error {
	for _, name := range []string{Owner, Operator, Writer, Reader} {
		err := s.As("boss", http.MethodPost, "/admin/users", map[string]any{
			"username":             name,
			"email":                name + "@example.com",
			"password":             password,
			"must_change_password": false,
		}, nil)
		if err != nil {
			return err
		}
	}
	var err error
	s.Token, err = s.MakeToken(Operator, "write:repository", "write:issue", "read:user")
	return err
}

// Git is the folder of a repository, as git sees it.
func (s *Server) Git(repository string) string {
	return filepath.Join(s.dir, "repos", strings.ToLower(repository)+".git")
}

// MakeRepository makes an empty repository, and returns its name: team/NAME.
func (s *Server) MakeRepository() (string, error) {
	name := fmt.Sprint("repo", s.Next())
	body := map[string]any{"name": name, "default_branch": "main"}
	if err := s.As(Owner, http.MethodPost, "/user/repos", body, nil); err != nil {
		return "", err
	}
	repository := Owner + "/" + name
	for _, account := range []string{Operator, Writer} {
		path := "/repos/" + repository + "/collaborators/" + account
		err := s.As(Owner, http.MethodPut, path, map[string]any{"permission": "write"}, nil)
		if err != nil {
			return "", err
		}
	}
	return repository, nil
}
