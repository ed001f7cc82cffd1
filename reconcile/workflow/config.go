package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Config is the typed configuration of one workflow (specification 5.3 and 6.4); keys.go says what the values mean. All paths
// are absolute and clean; symlinks in them are not resolved.
type Config struct {
	// Policy is the part that decisions depend on, without what depends on the machine: WorkspaceRoot and StopGrace.
	Policy    reconcile.Policy
	Tracker   Tracker
	Polling   Polling
	Workspace Workspace
	Hooks     Hooks
	Agent     Agent
	Codex     Codex

	Prompt *Prompt
	// Warnings are in the order of the file's lines. They do not hold what Prompt.Check finds.
	Warnings     []Warning
	KeyIsLiteral bool // the file holds the tracker's key itself
	// Redacted is the file with $SYMPHONY_LITERAL_API_KEY in the place of a literal tracker.api_key, and otherwise byte for
	// byte what was read. Parse reads it back where the environment has that variable.
	Redacted []byte
	// SecretVars names the environment variables that hold the tracker's key, sorted: the one that the file names,
	// LINEAR_API_KEY, and the placeholder's. Neither agents nor hooks may get them.
	SecretVars []string
}

// Tracker is where the work comes from (specification 5.3.1).
type Tracker struct {
	Kind        string // "linear"
	Endpoint    string
	APIKey      Secret   // empty only where Environment.KeyOptional allowed it
	ProjectSlug string   // what the file says; of a project's URL the slug in it
	NamedStates []string // the states that the file itself names, without defaults
	CAFile      string
	ToolScope   string
}

// Polling is how often --loop runs a pass (specification 5.3.2).
type Polling struct{ Interval time.Duration }

// Workspace is where issues are worked on (specification 5.3.3, design 7).
type Workspace struct {
	Root        string
	KeepRemoved time.Duration
}

// Hooks are shell scripts around a workspace's life, empty where there is none (specification 5.3.4).
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string
	OnAttention                                    string // belongs to no workspace
	Timeout                                        time.Duration
}

// Agent is how long an agent works, and what it may do (specification 5.3.5, design 5 and 9).
type Agent struct {
	MaxTurns               int
	OnApproval, OnQuestion Answer
	AnswerTimeout          time.Duration
	Network                bool
	WritableRoots          []string
	PassEnv                []string
	TrustRepository        bool
	KeepGitConfig          bool
	ResumeThread           bool
	Prices                 Prices
}

// Answer is the reaction to a request of an agent.
type Answer = string

// The answers that exist.
const (
	Approve = "approve"
	Deny    = "deny"
	Fail    = "fail"
	Ask     = "ask" // an operator decides
)

// Codex is how the agent is started and watched (specification 5.3.6).
type Codex struct {
	Command           string          // as written
	Home              string          // empty leaves the environment's
	ApprovalPolicy    json.RawMessage // a string or an object in JSON, never nil
	ThreadSandbox     string          // empty where thread/start says nothing about it
	TurnSandboxPolicy json.RawMessage // an object in JSON as written, nil where symphony makes its own

	TurnTimeout, ReadTimeout time.Duration
	ReadTimeoutSet           bool          // by the file
	StallTimeout             time.Duration // 0 where stall detection is off
}

// Secret is a string that does not print: not by fmt, log/slog or encoding/json.
type Secret string

const hidden = "[redacted]"

// Reveal gives the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter without the secret.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements encoding.TextMarshaler, which encoding/json and log/slog use, without the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// scrub removes the secret from a text.
func (s Secret) scrub(text string) string {
	// A shorter text is no key, and replacing it would damage other words.
	if len(s) < shortestKey {
		return text
	}
	return strings.ReplaceAll(text, string(s), hidden)
}

const shortestKey = 8

// Prices are the costs of tokens that the workflow gives.
type Prices struct {
	Currency string           // printed as it is; "USD" where the file has none
	Models   map[string]Price // by model; anyModel stands for all others; empty without agent.prices
}

// Price is the cost of a million tokens of each kind.
type Price struct{ Input, Cached, Output float64 }

// Of is the price of a model; false where it is not known.
func (p Prices) Of(model string) (Price, bool) {
	if price, known := p.Models[model]; known {
		return price, true
	}
	price, known := p.Models[anyModel]
	return price, known
}

// Cost is the cost of a count of tokens. Cached tokens are part of the input, and reasoning is part of the output.
func (p Price) Cost(t reconcile.Tokens) float64 {
	cached := min(t.Cached, t.Input)
	return (float64(t.Input-cached)*p.Input + float64(cached)*p.Cached + float64(t.Output)*p.Output) / 1e6
}

// The environment variables with a meaning of their own.
const (
	APIKeyVar     = "LINEAR_API_KEY"           // the canonical variable of Linear's key (specification 5.3.1)
	AssigneeVar   = "LINEAR_ASSIGNEE"          // used where tracker.assignee is absent, or names a variable that is not set
	LiteralKeyVar = "SYMPHONY_LITERAL_API_KEY" // stands for a literal api_key in a redacted workflow
)

// Environment is everything that the meaning of a workflow depends on besides its text (specification 6.1).
type Environment struct {
	Lookup      func(name string) (string, bool) // os.LookupEnv; nil: there are no variables
	Home        string                           // the account's home directory
	Temp        string                           // the system's directory for temporary files
	KeyOptional bool                             // a missing tracker key is no error, for commands that use no tracker
	EnvFile     string                           // the path of the environment file, for hints; it is not read here
}

func (e Environment) lookup(name string) (value string, set bool) {
	if e.Lookup != nil {
		value, set = e.Lookup(name)
	}
	return value, set
}

// reference is the name in a text that consists of $NAME or ${NAME} alone.
func reference(text string) (name string, ok bool) {
	m := referencePattern.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	return m[1] + m[2], true
}

const nameSyntax = `[A-Za-z_][A-Za-z0-9_]*`

var (
	namePattern      = regexp.MustCompile("^" + nameSyntax + "$")
	referencePattern = regexp.MustCompile(`^\$(?:(` + nameSyntax + `)|\{(` + nameSyntax + `)\})$`)
	variablePattern  = regexp.MustCompile(`\$\{[^}]*\}?|\$` + nameSyntax)
)

// variableName reports whether name is one that a shell could export.
func variableName(name string) bool { return namePattern.MatchString(name) }

// expandPath turns a path of the file into an absolute one: $NAME and ${NAME}, then a leading ~, then dir where
// it is relative (specification 5.3.3 and 6.1). Only paths are expanded, never commands or URLs.
func (e Environment) expandPath(text, dir string) (string, error) {
	path, err := e.expandVars(text)
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("control characters in a path")
	}
	switch rest, tilde := strings.CutPrefix(path, "~"); {
	case strings.TrimSpace(path) == "":
		return "", errors.New("the path is empty")
	case !tilde:
	case rest != "" && rest[0] != '/':
		return "", errors.New("only ~ and ~/ are expanded, not ~user")
	case e.Home == "":
		return "", errors.New("there is no home directory to put for ~")
	default:
		path = e.Home + rest
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path), nil
}

func (e Environment) expandVars(text string) (string, error) {
	var err error
	expanded := variablePattern.ReplaceAllStringFunc(text, func(written string) string {
		name, ok := reference(written)
		value, _ := e.lookup(name)
		switch {
		case !ok:
			err = errors.New("${ is not followed by a variable's name and }")
		case value == "":
			err = fmt.Errorf("the environment variable %s is not set", name)
		}
		return value
	})
	return expanded, err
}

const (
	anyModel   = "default"
	pricesHint = "write for instance {gpt-5.5: {input: 1.25, cached: 0.125, output: 10}}, in the currency of a million tokens"
)
