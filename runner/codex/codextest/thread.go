package codextest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/symphony-cron/symphony/internal/text"
)

// thread is the state of a thread, in memory and in the home.
type thread struct {
	Prompt  string     `json:"prompt"` // the first prompt
	ID      string     `json:"id"`
	Created int64      `json:"created"`
	Cwd     string     `json:"cwd"`
	Total   tokens     `json:"total"` // of all turns
	History []exchange `json:"history"`

	config threadConfig
	here   int // turns in this process
	turn   *turn
	lock   *os.File
}

type exchange struct {
	Prompt string `json:"prompt"`
	Answer string `json:"answer"`
	Status string `json:"status"`
}

type tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// threadConfig is the part of codex's configuration that the server supports: the environment
// of commands and their shell.
type threadConfig struct {
	Environment struct {
		Set map[string]string `json:"set"`
		// codex does not exclude by default
		IgnoreExcludes *bool `json:"ignore_default_excludes"`
	} `json:"shell_environment_policy"`
	LoginShell *bool `json:"allow_login_shell"`
}

// environ returns the environment of commands, given the environment of the server.
func (c *threadConfig) environ(env []string) []string {
	policy := c.Environment
	looksSecret := regexp.MustCompile("(?i)KEY|SECRET|TOKEN")
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return looksSecret.MatchString(name) && policy.IgnoreExcludes != nil && !*policy.IgnoreExcludes
	})
	for name, value := range policy.Set {
		env = append(env, name+"="+value) // the last entry of a name counts
	}
	return env
}

func (c *threadConfig) shellFlag() string {
	if c.LoginShell != nil && !*c.LoginShell {
		return "-c"
	}
	return "-lc"
}

func (s *server) startThread(p *params) reply {
	t := &thread{ID: uuid.NewString(), Created: time.Now().Unix()}
	r := s.open(t, "thread/start", p)
	r.after = func() { s.notify("thread/started", object{"thread": s.threadShape(t)}) }
	return r
}

func (s *server) resumeThread(p *params) reply {
	t := &thread{ID: p.ThreadID}
	text, err := os.ReadFile(s.file(t))
	if errors.Is(err, fs.ErrNotExist) || s.home == "" {
		return reply{err: "no rollout found for thread id " + p.ThreadID}
	}
	if err != nil {
		return reply{err: fmt.Sprintf("rollout of thread %s: %v", p.ThreadID, err)}
	}
	if err := json.Unmarshal(text, t); err != nil {
		return reply{err: fmt.Sprintf("rollout of thread %s: %v", p.ThreadID, err)}
	}
	if err := s.acquire(t); err != nil {
		return reply{err: err.Error()}
	}
	return s.open(t, "thread/resume", p)
}

// open answers thread/start or thread/resume.
func (s *server) open(t *thread, method string, p *params) reply {
	s.mu.Lock()
	s.threads[t.ID] = t
	t.apply(p)
	s.mu.Unlock()
	return reply{result: shape(method, object{"thread": s.threadShape(t), "cwd": t.Cwd})}
}

// apply replaces the settings that a request contains.
func (t *thread) apply(p *params) {
	if p.Cwd != "" {
		t.Cwd = p.Cwd
	}
	if p.Config != nil {
		t.config = *p.Config
	}
}

func (s *server) threadShape(t *thread) object {
	return shape("thread", object{
		"id":         t.ID,
		"sessionId":  t.ID,
		"cwd":        t.Cwd,
		"createdAt":  t.Created,
		"cliVersion": Version,
	})
}

func (s *server) file(t *thread) string {
	return filepath.Join(s.home, "threads", filepath.Base(t.ID)+".json")
}

// acquire takes the lock that makes this process the thread's only writer until it ends.
func (s *server) acquire(t *thread) error {
	if s.home == "" || t.lock != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.file(t)), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.file(t)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return fmt.Errorf("thread %s already has an active writer", t.ID)
	}
	t.lock = f
	return nil
}

// save stores the thread. As with codex, a thread is stored from its first turn on. Threads of
// sub-agents have no history and are not stored.
func (s *server) save(t *thread) {
	if s.home == "" || len(t.History) == 0 {
		return
	}
	if err := s.store(t); err != nil {
		s.log("codex_core::rollout: " + err.Error())
	}
}

// store replaces the file of a thread.
func (s *server) store(t *thread) error {
	if err := s.acquire(t); err != nil {
		return err
	}
	s.mu.Lock()
	text, err := json.MarshalIndent(t, "", "  ")
	s.mu.Unlock()
	if err != nil {
		return err
	}
	temp := s.file(t) + ".new"
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, s.file(t))
}

//go:embed shapes.json
var shapesJSON []byte

// shapes are codex's objects with constant values for their members.
var shapes = sync.OnceValue(func() (all map[string]json.RawMessage) {
	if err := json.Unmarshal(shapesJSON, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
})

// shape returns an object as codex sends it, with some members replaced.
func shape(name string, members object) object {
	out := object{}
	if err := json.Unmarshal(shapes()[name], &out); err != nil {
		panic(err) // as above
	}
	maps.Copy(out, members)
	return out
}

// newItem returns an item of a type.
func newItem(kind string, members object) object {
	item := shape(kind, members)
	item["type"] = kind
	return item
}

func commandItem(line, cwd string) object {
	return newItem("commandExecution", object{
		"command":        "/bin/bash -lc " + text.ShellWord(line),
		"cwd":            cwd,
		"commandActions": []object{{"type": "unknown", "command": line}},
	})
}

func fileItem(path, text string) object {
	return newItem("fileChange", object{"changes": []object{{
		"path": path,
		"kind": object{"type": "add"},
		"diff": text + "\n",
	}}})
}

// usageShape returns token counts with plausible shares of cached and reasoning tokens.
func usageShape(u tokens) object {
	return object{
		"totalTokens":           u.Input + u.Output,
		"inputTokens":           u.Input,
		"cachedInputTokens":     u.Input / 4,
		"cacheWriteInputTokens": 0,
		"outputTokens":          u.Output,
		"reasoningOutputTokens": u.Output / 5,
	}
}

func now() int64 { return time.Now().UnixMilli() }
