package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Config is the typed configuration of a workflow (specification 5.3 and 6.4); keys.go
// documents the values. All paths are absolute and clean; symlinks in them are not resolved.
type Config struct {
	// Policy is the planner's part. WorkspaceRoot and StopGrace, which depend on the machine,
	// are not set.
	Policy     reconcile.Policy
	Tracker    Tracker
	Polling    Polling
	Monitor    Monitor
	Workspace  Workspace
	Repository Repository
	Handoff    Handoff
	Verify     Verify
	Feedback   reconcile.Feedback
	Hooks      Hooks
	Agent      Agent
	Session    Session
	Worker     Worker
	Server     Server
	// Chosen is the agent that works: the usual one, or that of ForIssue.
	Chosen Chosen

	Prompt *Prompt
	// Warnings are sorted by line. They do not include the warnings of Prompt.Check.
	Warnings     []Warning
	NeedsKey     bool           // the tracker uses a key
	KeyIsLiteral bool           // the file contains the tracker's key itself
	KeyName      string         // the key of the file for it: tracker.api_key, or another name of that
	KeyFromGh    bool           // the key is the token of gh
	Lines        map[string]int // the lines of keys in the file FileName
	FileName     string
	// Redacted is the file, byte for byte, but with $SYMPHONY_LITERAL_API_KEY instead of a
	// literal tracker.api_key, and $SYMPHONY_LITERAL_PING_URL instead of a literal
	// monitor.ping_url. Parse accepts it if the variables of Literals are in the environment.
	Redacted []byte
	// KeyVar is the variable that contains, or would contain, the tracker's key; empty if the
	// tracker needs none.
	KeyVar string
	// SecretVars are the names of the environment variables that neither agents nor hooks may
	// get, sorted: KeyVar, LINEAR_API_KEY, SYMPHONY_LITERAL_API_KEY, OTEL_EXPORTER_OTLP_HEADERS,
	// and the variables of repository.token, monitor.ping_url and agent.key.
	SecretVars []string
}

// Literals returns the secrets that the file itself contains, by the variables that stand for
// them in Redacted.
func (c *Config) Literals() map[string]string {
	secrets := map[string]string{}
	if c.KeyIsLiteral {
		secrets[LiteralKeyVar] = c.Tracker.APIKey.Reveal()
	}
	if c.Monitor.PingURL != "" && c.Monitor.PingVar == "" {
		secrets[literalPingVar] = c.Monitor.PingURL.Reveal()
	}
	return secrets
}

// Polling is the interval of --loop (specification 5.3.2).
type Polling struct{ Interval time.Duration }

// Monitor names the services that notice when passes stop.
type Monitor struct {
	PingURL Secret // of a check in the protocol of healthchecks.io; empty for none
	PingVar string // the variable that contains it; empty if the file contains the URL itself
}

// Secrets returns the texts with which an agent could send pings: the URL, and the parts of it
// that identify the check.
func (m Monitor) Secrets() []string {
	secrets := []string{m.PingURL.Reveal()}
	for part := range strings.SplitSeq(m.PingURL.Reveal(), "/") {
		part, _, _ = strings.Cut(part, "?")
		if len(part) >= tokenLength && !strings.Contains(part, ".") {
			secrets = append(secrets, part)
		}
	}
	return secrets
}

// Workspace is the place where agents work on issues (specification 5.3.3, design 7).
type Workspace struct {
	Root        string
	KeepRemoved time.Duration
}

// Handoff names the states to which symphony moves the issues that agents hand over; empty if
// agents move them.
type Handoff struct {
	State        string
	BlockedState string // for an agent that needs something from a person
	mergedState  string // feedback.merged_state
}

// States returns the states that are set.
func (h Handoff) States() []string {
	return text.Filter(
		text.Unique([]string{h.State, h.BlockedState, h.mergedState}),
		func(state string) bool { return state != "" },
	)
}

// Verify is the shell script that must pass before an issue is handed over; without a command
// there is none.
type Verify struct {
	Command string
	Timeout time.Duration
	Rounds  int
}

// Hooks are shell scripts, empty if there is none (specification 5.3.4).
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string // run in a workspace
	OnAttention                                    string // runs in the home directory
	Timeout                                        time.Duration
}

// Agent limits the time and the rights of an agent (specification 5.3.5, design 5 and 9).
type Agent struct {
	Kind                   string
	Fallback               []AgentChoice     // as written: the usual agents in order
	Command, Model, Effort string            // of a kind besides the default; "" for its default
	Env                    map[string]string // the same
	Sandbox                string            // "" for the default of the kind
	Trust                  bool              // the agent may work without a sandbox
	MaxTurns               int
	OnApproval, OnQuestion string
	AnswerTimeout          time.Duration
	Network                bool
	Allow                  []string // the hosts that agent.network allows
	Key                    Secret   // of the model; "" if the agent has its own login
	MaxMemory              int64    // in bytes, in symphony's own sandbox; 0 for a part of the machine's
	WritableRoots          []string
	PassEnv                []string
	TrustRepository        bool
	ResumeThread           bool
	ByLabel                []LabelRow
	Prices                 reconcile.Prices
	keyVar                 string        // the variable that contains Key; "" without agent.key
	budget                 string        // as written
	agents                 []AgentChoice // that may work on issues, in order
}

// The answers to requests of an agent.
const (
	Approve = "approve"
	Deny    = "deny"
	Fail    = "fail"
	Ask     = "ask" // an operator decides
)

// Server is the address of the HTTP server (specification 13.7).
type Server struct {
	Port int    // -1 if the file names none, 0 for any free port
	Host string // empty for the default
}

// Secret is a string that fmt, log/slog and encoding/json print as [redacted].
type Secret string

const hidden = "[redacted]"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter without the secret.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements encoding.TextMarshaler, which encoding/json and log/slog use, without
// the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// scrub removes the secret from a text.
func (s Secret) scrub(text string) string {
	// A shorter secret is not a real key, and replacing it would damage other words.
	if len(s) < shortestKey {
		return text
	}
	return strings.ReplaceAll(text, string(s), hidden)
}

const shortestKey = 8

// The environment variables with a special meaning.
const (
	// replaces a literal api_key in a redacted workflow
	LiteralKeyVar  = "SYMPHONY_LITERAL_API_KEY"
	OTLPHeadersVar = "OTEL_EXPORTER_OTLP_HEADERS" // may have the token of a collector

	literalPingVar = "SYMPHONY_LITERAL_PING_URL" // the same for monitor.ping_url
)

// Environment is everything besides its text that the meaning of a workflow depends on
// (specification 6.1).
type Environment struct {
	// such as os.LookupEnv; if nil there are no variables
	Lookup func(name string) (string, bool)
	Home   string // the account's home directory
	Temp   string // the system's directory for temporary files
	// the account, which the default of workspace.root names
	UID int
	// the operating system, such as darwin; empty for this one
	System string
	// a missing tracker key is no error: the command does not use the tracker
	KeyOptional bool
	// the path of the environment file, for hints; this package does not read it
	EnvFile string
	// GhToken returns gh's token for an API, empty if there is none. Nil: gh is not
	// asked.
	GhToken func(api string) string
}

func (e Environment) system() string { return cmp.Or(e.System, runtime.GOOS) }

func (e Environment) lookup(name string) (value string, set bool) {
	if e.Lookup != nil {
		value, set = e.Lookup(name)
	}
	return value, set
}

// reference returns the name in a text that consists only of $NAME or ${NAME}.
func reference(text string) (name string, ok bool) {
	m := referencePattern().FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	return m[1] + m[2], true
}

const nameSyntax = `[A-Za-z_][A-Za-z0-9_]*`

var (
	namePattern      = text.Pattern("^" + nameSyntax + "$")
	referencePattern = text.Pattern(`^\$(?:(` + nameSyntax + `)|\{(` + nameSyntax + `)\})$`)
	variablePattern  = text.Pattern(`\$\{[^}]*\}?|\$` + nameSyntax)
)

// variableName reports whether a shell could export a variable with this name.
func variableName(name string) bool { return namePattern().MatchString(name) }

// expandPath makes a path of the file absolute: it expands $NAME and ${NAME}, then a leading
// ~, and joins a relative path to dir (specification 5.3.3 and 6.1). Only paths are expanded,
// never commands or URLs.
func (e Environment) expandPath(text, dir string) (string, error) {
	path, err := e.expandVars(text)
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("the path contains control characters")
	}
	rest, tilde := strings.CutPrefix(path, "~")
	switch {
	case strings.TrimSpace(path) == "":
		return "", errors.New("the path is empty")
	case !tilde:
	case rest != "" && rest[0] != '/':
		return "", errors.New("only ~ and ~/ are expanded, not ~user")
	case e.Home == "":
		return "", errors.New("~ cannot be expanded, because the account has no home directory")
	default:
		path = e.Home + rest
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path), nil
}

// unsetVariable is the error of a text with a variable that is not set.
type unsetVariable string

func (name unsetVariable) Error() string {
	return "the environment variable " + string(name) + " is not set"
}

func (e Environment) expandVars(text string) (string, error) {
	var err error
	expanded := variablePattern().ReplaceAllStringFunc(text, func(written string) string {
		name, ok := reference(written)
		value, _ := e.lookup(name)
		switch {
		case !ok:
			err = errors.New("${ is not followed by a variable's name and }")
		case value == "":
			err = unsetVariable(name)
		}
		return value
	})
	return expanded, err
}
