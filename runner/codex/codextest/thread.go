package codextest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// thread is the state of a thread, in memory and in the home.
type thread struct {
	ID             string            `json:"id"`
	Created        int64             `json:"created"`
	Cwd            string            `json:"cwd"`
	ApprovalPolicy json.RawMessage   `json:"approvalPolicy"`
	Sandbox        string            `json:"sandbox"`
	Prompt         string            `json:"prompt"`  // the first one
	Script         string            `json:"script"`  // the last prompt that had one
	Attempt        int               `json:"attempt"` // of the last prompt that named one
	Turns          int               `json:"turns"`   // in all processes
	Total          tokens            `json:"total"`
	Tools          []json.RawMessage `json:"tools"`
	History        []exchange        `json:"history"`

	env  environment
	here int // turns in this process
	turn *turn
	lock *os.File
}

type exchange struct {
	Prompt string `json:"prompt"`
	Answer string `json:"answer"`
	Status string `json:"status"`
}

// tokens of a thread, summed over its turns.
type tokens struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
}

// threadParams are what thread/start and thread/resume take.
type threadParams struct {
	ThreadID       string            `json:"threadId"`
	Cwd            string            `json:"cwd"`
	ApprovalPolicy json.RawMessage   `json:"approvalPolicy"`
	Sandbox        *string           `json:"sandbox"`
	Config         map[string]any    `json:"config"`
	DynamicTools   []json.RawMessage `json:"dynamicTools"`
}

// check returns codex's error message for parameters that it refuses, "" for valid ones.
func (p *threadParams) check() string {
	if refusal := checkApproval(p.ApprovalPolicy); refusal != "" || p.Sandbox == nil {
		return refusal
	}
	known := []string{"read-only", "workspace-write", "danger-full-access"}
	if !slices.Contains(known, *p.Sandbox) {
		return unknownVariant(*p.Sandbox, known...)
	}
	return ""
}

func checkApproval(policy json.RawMessage) string {
	known := []string{"untrusted", "on-request", "granular", "never"}
	if len(policy) == 0 || policy[0] != '"' {
		return "" // left out, or an object
	}
	var word string
	if err := json.Unmarshal(policy, &word); err != nil {
		return "Invalid request: " + err.Error()
	}
	if !slices.Contains(known, word) {
		return unknownVariant(word, known...)
	}
	return ""
}

func unknownVariant(word string, known ...string) string {
	return fmt.Sprintf("Invalid request: unknown variant `%s`, expected one of `%s`", word, strings.Join(known, "`, `"))
}

// apply replaces the settings that a request names.
func (t *thread) apply(p *threadParams) {
	if p.Cwd != "" {
		t.Cwd = p.Cwd
	}
	if len(p.ApprovalPolicy) > 0 {
		t.ApprovalPolicy = p.ApprovalPolicy
	}
	if p.Sandbox != nil {
		t.Sandbox = *p.Sandbox
	}
	if p.Config != nil {
		t.env = environmentOf(p.Config)
	}
}

func (s *server) startThread(m *message) {
	var p threadParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.refuse(m.ID, invalidRequest, "Invalid request: "+err.Error())
		return
	}
	if refusal := p.check(); refusal != "" {
		s.refuse(m.ID, invalidRequest, refusal)
		return
	}
	if text := s.o.Faults.ThreadError; text != "" {
		s.refuse(m.ID, internalError, text)
		return
	}
	t := &thread{ID: newID(), Created: time.Now().Unix(), ApprovalPolicy: json.RawMessage(`"on-request"`), Tools: p.DynamicTools}
	t.apply(&p)
	s.mu.Lock()
	s.threads[t.ID] = t
	client := s.client
	s.mu.Unlock()
	s.result(m.ID, t.opened(client, s.o.Home, false))
	s.notify("thread/started", object{"thread": t.shape(client, s.o.Home)})
}

func (s *server) resumeThread(m *message) {
	var p threadParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.refuse(m.ID, invalidRequest, "Invalid request: "+err.Error())
		return
	}
	if refusal := p.check(); refusal != "" {
		s.refuse(m.ID, invalidRequest, refusal)
		return
	}
	if text := s.o.Faults.ThreadError; text != "" {
		s.refuse(m.ID, internalError, text)
		return
	}
	t, err := s.load(p.ThreadID)
	if err != nil {
		s.refuse(m.ID, invalidRequest, err.Error())
		return
	}
	t.apply(&p)
	s.mu.Lock()
	s.threads[t.ID] = t
	client := s.client
	s.mu.Unlock()
	s.result(m.ID, t.opened(client, s.o.Home, true))
}

// load reads a stored thread and takes its lock.
func (s *server) load(id string) (*thread, error) {
	none := fmt.Errorf("no rollout found for thread id %s", id)
	if s.o.Home == "" || id == "" || strings.ContainsAny(id, `/\`) {
		return nil, none
	}
	t := &thread{ID: id}
	text, err := os.ReadFile(t.file(s.o.Home))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("rollout of thread %s: %w", id, err)
	}
	return t, t.acquire(s.o.Home)
}

func (t *thread) file(home string) string {
	return filepath.Join(home, "threads", t.ID+".json")
}

// acquire takes the lock that makes this process the thread's only writer. The kernel releases it when the process ends.
func (t *thread) acquire(home string) error {
	if home == "" || t.lock != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(home, "threads"), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(t.file(home)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close() // nothing was written
		return fmt.Errorf("thread %s already has an active writer", t.ID)
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("lock thread %s: %w", t.ID, err)
	}
	t.lock = f
	return nil
}

func (t *thread) unlock() {
	if t.lock != nil {
		_ = t.lock.Close() // closing releases the lock even with an error
		t.lock = nil
	}
}

// save stores the thread. As with codex, a thread is not stored before its first turn.
func (s *server) save(t *thread) error {
	if s.o.Home == "" {
		return nil
	}
	if err := t.acquire(s.o.Home); err != nil {
		return err
	}
	s.mu.Lock()
	text, err := json.MarshalIndent(t, "", "  ")
	s.mu.Unlock()
	if err != nil {
		return err
	}
	temp := t.file(s.o.Home) + ".new"
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, t.file(s.o.Home))
}

// environment is what a thread's config sets for the environment of its commands.
type environment struct {
	set map[string]string // shell_environment_policy.set
	// excluding removes variables whose names look like secrets, before set is applied.
	excluding bool
	// noLogin runs commands without a login shell.
	noLogin bool
}

// environmentOf reads a config, in which shell_environment_policy is nested or has dotted keys.
func environmentOf(config map[string]any) environment {
	const key = "shell_environment_policy"
	e := environment{set: map[string]string{}}
	take := func(set any) {
		m, _ := set.(map[string]any)
		for k, v := range m {
			if text, ok := v.(string); ok {
				e.set[k] = text
			}
		}
	}
	ignored := config[key+".ignore_default_excludes"]
	if policy, ok := config[key].(map[string]any); ok {
		take(policy["set"])
		if ignored == nil {
			ignored = policy["ignore_default_excludes"]
		}
	}
	take(config[key+".set"])
	for k, v := range config {
		if name, ok := strings.CutPrefix(k, key+".set."); ok {
			take(map[string]any{name: v})
		}
	}
	e.excluding = ignored == false // codex does not exclude by default
	e.noLogin = config["allow_login_shell"] == false
	return e
}

// of returns the environment of commands, given that of the server.
func (e environment) of(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, set := e.set[name]
		return set || e.excluding && looksSecret(name)
	})
	for name, value := range e.set {
		env = append(env, name+"="+value)
	}
	return env
}

func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	return strings.Contains(name, "KEY") || strings.Contains(name, "SECRET") || strings.Contains(name, "TOKEN")
}

func (e environment) shellFlag() string {
	if e.noLogin {
		return "-c"
	}
	return "-lc"
}
