package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
)

// This file has all that the workflow says about codex alone: the keys below codex, and
// which keys of agent mean nothing to it.

// DefaultAgent is the kind without agent.kind: the one that the specification describes. Its
// keys are below its own name, the keys of all other kinds below agent.
const DefaultAgent = "codex"

const (
	// defaultCommand is the default of codex.command.
	defaultCommand = "codex app-server"
	// defaultLogin is the file with the login in its home.
	defaultLogin = "auth.json"
	// sandboxOwn is the value of agent.sandbox for codex's own sandbox.
	sandboxOwn = "codex"
	// severalHomes is the step to several accounts.
	severalHomes = "for several accounts of codex write codex.home: [~/.codex, ~/.codex-2]"
)

// Keys below codex that other files refer to.
const (
	keyHome        = "codex.home"
	keyInherit     = "codex.inherit"
	keyTurnPolicy  = "codex.turn_sandbox_policy"
	keyReadTimeout = "codex.read_timeout_ms"
)

// Sentences of other files that name them.
const (
	trustRepositoryText = "let the agent obey what the repository has for it, such as .codex and .claude"
	asksNothingText     = "no effect: with codex.approval_policy never, codex asks for no approval"
	homeOfHosts         = "set CODEX_HOME in the environment of the account on each host"
	ownSandboxOnly      = "codex's sandbox is only for agent.kind: codex"
)

// Session is how codex is started, and how every kind of agent is watched (specification 5.3.6).
type Session struct {
	Command       string   // as written
	Homes         []string // codex.home, in order; none for the home in the environment
	Model, Effort string   // "" for the defaults of the codex home
	Inherit       bool     // agents have that home itself, not only its login
	// start Command even if files that an agent can write decide which program that is
	TrustLauncher     bool
	ApprovalPolicy    json.RawMessage // a JSON string or object, never nil
	ThreadSandbox     string          // empty if it is not passed to thread/start
	TurnSandboxPolicy json.RawMessage // a JSON object; nil for symphony's default

	TurnTimeout, ReadTimeout time.Duration
	ReadTimeoutSet           bool          // the file contains codex.read_timeout_ms
	StallTimeout             time.Duration // 0 if stall detection is off
}

// policyKey is the key that gives rights to the agents of all issues.
const policyKey = "codex.turn_sandbox_policy"

func sessionKeys(c *Config) []Key {
	return []Key{
		key(
			"codex.command",
			"shell command",
			defaultCommand,
			&c.Session.Command,
			"the command that starts codex; bash runs it in the workspace",
		).
			naming(NamesScript).then((*reader).command),
		key(
			"codex.trust_launcher",
			typeBool,
			"false",
			&c.Session.TrustLauncher,
			"start codex.command even if it is a launcher, such as npx, that files of the workspace control",
		),
		key("codex.home", typeHomes, "", &c.Session.Homes,
			"codex homes with login and model, used in turn; default: $CODEX_HOME, else ~/.codex").
			naming(NamesPaths).then((*reader).homes),
		key(
			"codex.model",
			typeString,
			"",
			&c.Session.Model,
			"model of agents; default: as in the codex home",
		).then((*reader).word),
		key(
			"codex.effort",
			typeString,
			"",
			&c.Session.Effort,
			"reasoning effort of agents; default: as in the codex home",
		).then((*reader).word),
		key("codex.inherit", typeBool, "false", &c.Session.Inherit,
			"also give agents all other settings of codex.home"),
		key("codex.approval_policy", typeOfAgent, "never", &c.Session.ApprovalPolicy,
			"when codex asks for approval").then((*reader).approvalPolicy),
		key(
			"codex.thread_sandbox",
			typeOfAgent,
			"",
			&c.Session.ThreadSandbox,
			"sandbox of the thread; by default none is sent",
		).
			then(func(r *reader, f field) {
				r.knownWord(f, c.Session.ThreadSandbox, "read-only", "workspace-write", "danger-full-access")
			}),
		key(
			"codex.turn_sandbox_policy",
			typeOfAgent,
			"workspaceWrite on the workspace and its git directories",
			&c.Session.TurnSandboxPolicy,
			"sandbox of every turn",
		).
			naming(NamesWritable).
			then((*reader).turnSandboxPolicy),
		key("codex.turn_timeout_ms", typeMS, "3600000", &c.Session.TurnTimeout,
			"end a run if nothing at all comes from its agent for this long").atLeast(1),
		key(
			"codex.read_timeout_ms",
			typeMS,
			"5000",
			&c.Session.ReadTimeout,
			"how long to wait for the agent's answer to a request",
		).atLeast(1),
		key("codex.stall_timeout_ms", typeMS, "300000", &c.Session.StallTimeout,
			"end a run without progress for this long, unless a command runs; 0 or less: no limit").atLeast(-maxMS),
	}
}

// ofDefault are the keys that only codex has.
var ofDefault = []string{
	"codex.command", "codex.trust_launcher", "codex.home", "codex.model", "codex.effort", "codex.inherit",
	"codex.approval_policy", "codex.thread_sandbox", "codex.turn_sandbox_policy",
	"agent.on_question",
}

func (r *reader) command(f field) {
	if strings.TrimSpace(r.cfg.Session.Command) == "" {
		r.invalid(f, "empty", "leave it out for `codex app-server`")
	}
}

// homes makes the paths of codex.home absolute.
func (r *reader) homes(f field) {
	homes := []string{}
	for i, written := range r.cfg.Session.Homes {
		at := f
		if f.node.Kind == yaml.SequenceNode {
			at = r.item(f, i)
		}
		if written == "" && f.node.Kind == yaml.SequenceNode {
			continue // it was reported
		}
		path := r.path(at, written)
		if slices.Contains(homes, path) {
			r.invalid(at, path+" is listed twice", "remove one of them")
		}
		if path != "" {
			homes = append(homes, path)
		}
	}
	r.cfg.Session.Homes = homes
}

// approvalPolicy passes codex's value through (specification 5.3.6).
func (r *reader) approvalPolicy(f field) {
	policy := string(r.cfg.Session.ApprovalPolicy)
	switch policy {
	case "":
		r.cfg.Session.ApprovalPolicy = json.RawMessage(`"never"`)
	case `""`:
		r.invalid(f, "empty", "leave it out for never")
	default:
		r.knownWord(f, strings.Trim(policy, `"`), "untrusted", "on-request", "never")
	}
}

// knownWord warns about a word that codex does not know. Another version of it may know the
// word.
func (r *values) knownWord(f field, word string, known ...string) {
	if f.node != nil && f.node.Kind == yaml.ScalarNode && !slices.Contains(known, word) {
		r.warn(f, fmt.Sprintf("codex may refuse %q, %s", word, suggest.Instead(word, known)))
	}
}

// sandboxTypes are the types of codex's sandbox policies.
var sandboxTypes = []string{"workspaceWrite", "readOnly", "dangerFullAccess", "externalSandbox"}

// turnSandboxPolicy drops a policy that is no map, which is reported.
func (r *reader) turnSandboxPolicy(f field) {
	r.checkPolicy(f)
	if f.node != nil && f.node.Kind == yaml.ScalarNode {
		r.cfg.Session.TurnSandboxPolicy = nil
	}
}

// checkPolicy checks a sandbox policy of codex.
func (r *reader) checkPolicy(f field) {
	if f.node != nil && f.node.Kind == yaml.ScalarNode {
		r.invalid(f, "must be a map, is a single value", "write for instance {type: workspaceWrite}")
	}
	var policy struct{ Type yaml.Node }
	if f.node != nil && f.node.Decode(&policy) == nil && policy.Type.Value != "" {
		r.knownWord(field{
			key:  f.key + ".type",
			line: f.line,
			node: &policy.Type,
		}, policy.Type.Value, sandboxTypes...)
	}
}

// choices returns codex with these settings in the place of the usual ones, once for each home.
func (c *Session) choices(set AgentChoice) []AgentChoice {
	set.Command = cmp.Or(set.Command, c.Command)
	set.Model = cmp.Or(set.Model, c.Model)
	set.Effort = cmp.Or(set.Effort, c.Effort)
	homes := c.Homes
	if len(homes) == 0 {
		homes = []string{""} // codex's own default
	}
	return text.Map(homes, func(home string) AgentChoice {
		one := set
		one.Home = home
		return one
	})
}

// chosenDefault returns what codex may do. It and its commands have no use for the key of another
// agent.
func (c *Config) chosenDefault(isBoxed bool) Chosen {
	chosen := Chosen{
		Inherit:           c.Session.Inherit,
		TrustLauncher:     c.Session.TrustLauncher,
		TrustRepository:   c.Agent.TrustRepository,
		ApprovalPolicy:    c.Session.ApprovalPolicy,
		ThreadSandbox:     c.Session.ThreadSandbox,
		TurnSandboxPolicy: c.Session.TurnSandboxPolicy,
		OnApproval:        c.Agent.OnApproval,
		OnQuestion:        c.Agent.OnQuestion,
		Network:           c.Agent.Network,
		Allow:             c.Agent.Allow,
		WritableRoots:     c.Agent.WritableRoots,
		PassEnv:           c.Agent.PassEnv,
	}
	if chosen.OnApproval == "" {
		chosen.OnApproval = Fail
		if c.Session.asksNothing() {
			chosen.OnApproval = Approve
		}
	}
	if isBoxed {
		chosen.TrustRepository = false
		chosen.ThreadSandbox = ""
		chosen.TurnSandboxPolicy = nil
	}
	return chosen
}

// asksNothing reports whether codex asks for no approval.
func (c *Session) asksNothing() bool { return string(c.ApprovalPolicy) == `"never"` }

// checkOnlyDefault checks the keys of other kinds for codex.
func (r *reader) checkOnlyDefault() {
	for _, key := range ofOthers {
		r.warnKey(key, "no effect with agent.kind: codex")
	}
	if r.field("agent.key").node != nil {
		r.fail(
			CodeUnsupportedKey,
			r.field("agent.key"),
			"not built yet with agent.kind: codex",
			"remove the key: log codex in, or set OPENAI_API_KEY",
		)
	}
	switch r.cfg.Agent.Sandbox {
	case "", sandboxOwn, sandboxBwrap:
	default:
		r.invalid(
			r.field("agent.sandbox"),
			"with agent.kind: codex, codex.turn_sandbox_policy says it",
			"remove the key, or write codex.turn_sandbox_policy: {type: dangerFullAccess}",
		)
	}
}

// ofOwnSandbox are the keys of codex's own sandbox.
var ofOwnSandbox = []string{"codex.thread_sandbox", "codex.turn_sandbox_policy", "agent.trust_repository"}

// checkOwnSandbox checks the keys of codex's sandbox, which is its own unless the workflow
// asks for symphony's.
func (r *reader) checkOwnSandbox() {
	own := r.cfg.Agent
	isAlone := len(own.others()) == 0
	if own.Sandbox != sandboxBwrap {
		if own.Allow != nil {
			r.fail(
				CodeUnsupportedKey,
				r.field("agent.network"),
				"codex's own sandbox can't allow single hosts",
				"write agent.sandbox: bwrap; or true or false",
			)
		}
		if isAlone {
			r.warnKey(ofBoxes, "no effect with codex's own sandbox: write agent.sandbox: bwrap")
		}
		return
	}
	if isAlone {
		r.requireLinux(DefaultAgent, "remove agent.sandbox: codex has a sandbox of its own")
	}
	for _, key := range ofOwnSandbox {
		r.warnKey(key, "no effect with agent.sandbox: bwrap")
	}
	refuse := func(f field, without string) {
		if f.node != nil {
			r.fail(CodeUnsupportedKey, f, "not built yet for codex with agent.sandbox: bwrap", without)
		}
	}
	if r.cfg.Session.Inherit {
		refuse(r.field("codex.inherit"), "remove the key: the sandbox shows nothing of codex.home but the login")
	}
	if isAlone { // of other kinds refuseUnbuilt refuses them
		refuse(r.field("worker.ssh_hosts"), "remove agent.sandbox")
		refuse(r.field("worker.engine.kind"), "remove agent.sandbox")
	}
	for i, row := range own.ByLabel {
		if row.Sandbox != nil && (isAlone || row.Kind == DefaultAgent) {
			refuse(r.item(r.field("agent.by_label"), i), "remove its sandbox")
		}
	}
}

// completeSession completes the settings below codex, and warns about keys without an effect.
func (r *reader) completeSession() {
	own := &r.cfg.Session
	own.ReadTimeoutSet = r.field(keyReadTimeout).node != nil
	own.StallTimeout = max(0, own.StallTimeout)
	agent := &r.cfg.Agent
	if !slices.Contains(agent.kinds(), DefaultAgent) || agent.Sandbox == sandboxBwrap {
		return
	}
	if own.ThreadSandbox == "" && len(agent.others()) == 0 {
		r.warnKey("agent.trust_repository", "no effect without codex.thread_sandbox")
	}
	if own.TurnSandboxPolicy != nil {
		r.warnSandboxPolicy()
	}
	r.warnThreadSandbox()
}

// warnThreadSandbox warns about a sandbox of the thread that is not the one of its turns.
func (r *reader) warnThreadSandbox() {
	turns := sandboxTypes[0]
	policy := r.cfg.Session.TurnSandboxPolicy
	if policy != nil {
		var known struct{ Type string }
		if json.Unmarshal(policy, &known) != nil {
			return
		}
		turns = cmp.Or(sandboxType(known.Type), known.Type)
	}
	thread := sandboxType(r.cfg.Session.ThreadSandbox)
	if thread != "" && thread != turns {
		r.warnKey("codex.thread_sandbox", "each turn has codex.turn_sandbox_policy instead, which is "+turns+
			": write codex.turn_sandbox_policy: {type: "+thread+"}")
	}
}

// sandboxType returns the type of a sandbox policy that is written as a word of another place,
// such as workspaceWrite for workspace-write; empty for an unknown word.
func sandboxType(word string) string {
	bare := strings.ReplaceAll(word, "-", "")
	return text.First(sandboxTypes, func(typ string) bool { return strings.EqualFold(typ, bare) })
}

// warnSandboxPolicy warns about a policy without a type, and about keys that the policy
// replaces for all agents.
func (r *reader) warnSandboxPolicy() {
	codex := &r.cfg.Session
	var policy struct {
		Type          string           `json:"type"`
		WritableRoots *json.RawMessage `json:"writableRoots"`
	}
	if err := json.Unmarshal(codex.TurnSandboxPolicy, &policy); err != nil || policy.Type == "" {
		r.warnKey("codex.turn_sandbox_policy", "codex requires a `type` that is a string")
	}
	if len(r.cfg.Agent.others()) > 0 {
		return // to which these keys apply
	}
	const replaced = "no effect: codex.turn_sandbox_policy replaces it"
	r.warnKey("agent.network", replaced)
	// Design 9: the directories are added to a workspaceWrite that names none.
	if policy.Type != "workspaceWrite" || policy.WritableRoots != nil {
		r.warnKey("agent.writable_roots", replaced)
	}
}
