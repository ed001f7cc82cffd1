package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"

	"gopkg.in/yaml.v3"
)

func (r trackerReader) endpoint(f field) {
	if f.node == nil {
		r.cfg.Tracker.Endpoint = r.tracker.endpoint
	}
	if variable := r.tracker.endpointVar; variable != "" {
		written := r.cfg.Tracker.Endpoint
		if f.node == nil {
			written = "$" + variable
		}
		r.cfg.Tracker.Endpoint = r.value(f, written, variable)
	}
	if f.node == nil && r.cfg.Tracker.Endpoint == r.tracker.endpoint || r.cfg.Tracker.Endpoint == "" {
		return
	}
	hint := "leave it out for " + r.tracker.title + "'s own"
	if r.tracker.endpoint == "" { // each server has its own
		hint = "write it as https://HOST"
	}
	r.api(
		f,
		r.cfg.Tracker.Endpoint,
		hint,
		"tracker.api_key",
		"the tracker's key",
	)
}

// api checks the address of an API, to which secret is sent, if any. key is where the file may
// contain it.
func (r *values) api(f field, address, hint, key, secret string) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		r.invalid(f, "must be an http or https URL", hint)
	case u.User != nil:
		r.invalid(f, "must not contain a user or password", "write the key in "+key)
	case secret != "" && u.Scheme == "http" && !isLoopback(u):
		r.warn(f, secret+" is sent unencrypted over http")
	}
}

// apiAddress checks that an address is not that of the pages of a forge, or of another API.
func (r *values) apiAddress(f field, address string, kind ForgeKind) {
	instead := kind.apiInstead(address)
	if instead != "" {
		r.invalid(f, "not the address of an API of "+kind.Title, "write "+instead)
	}
}

// trackerKey is the key to the tracker, as the file or the environment contains it.
type trackerKey struct {
	written  string // in the file, or else a reference to the usual variable
	variable string // that is written, such as LINEAR_API_KEY; empty for none
	value    string // empty if there is none
	fromGh   bool   // gh gave the value
}

// apiKey resolves the key (specification 5.3.1).
func (r trackerReader) apiKey(f field) {
	written := r.cfg.Tracker.APIKey.Reveal()
	if f.node == nil {
		f.key = "tracker.api_key"
		written = r.keyVariable()
	}
	key := r.findKey(written)
	r.cfg.Tracker.APIKey = Secret(key.value)
	r.cfg.KeyName = f.key
	r.cfg.KeyFromGh = key.fromGh
	r.cfg.KeyIsLiteral = key.variable == "" && key.value != ""
	r.cfg.NeedsKey = r.tracker.needsKey
	r.cfg.KeyVar = r.usualKeyVar()
	r.cfg.withhold(APIKeyVar, LiteralKeyVar, OTLPHeadersVar)
	r.cfg.withhold(r.tracker.keyVars...)
	if key.variable != "" && key.variable != LiteralKeyVar {
		r.cfg.KeyVar = key.variable
		r.cfg.withhold(key.variable)
	}
	if r.tracker.name == fileTracker.name {
		r.warnKey(f.key, "no effect with kind: "+fileTracker.name+": remove the line")
		return
	}
	r.checkKey(f, key)
}

// usualKeyVar is the variable that usually contains the key, empty if the tracker needs no key.
func (r trackerReader) usualKeyVar() string {
	if len(r.tracker.keyVars) == 0 {
		return ""
	}
	return r.tracker.keyVars[0]
}

// findKey returns the key as it is written, or the value of the variable that is written. If a
// variable of a forge is not set, gh may know the key.
func (r trackerReader) findKey(written string) trackerKey {
	key := trackerKey{written: written}
	name, isVar := reference(written)
	if !isVar {
		if !strings.HasPrefix(written, "$") {
			key.value = written
		}
		return key
	}
	key.variable = name
	key.value = r.variable(name, r.usualKeyVar())
	asksGh := r.tracker.gh() && slices.Contains(r.tracker.keyVars, name) && r.env.GhToken != nil
	if key.value == "" && asksGh {
		key.value = r.env.GhToken(r.cfg.Tracker.Endpoint)
		key.fromGh = key.value != ""
	}
	return key
}

// checkKey reports a key that is missing, or that can't be a key.
func (r trackerReader) checkKey(f field, key trackerKey) {
	usual := r.usualKeyVar()
	missing := func(what, hint string) {
		if r.tracker.needsKey && !r.env.KeyOptional {
			r.fail(CodeMissingAPIKey, f, what, hint)
		}
	}
	from := "the key"
	if key.variable != "" && key.variable != LiteralKeyVar {
		from = "the variable " + key.variable
	}
	isNoKey := func(c rune) bool { return blank(c) || strings.ContainsRune("\"'<>{}", c) }
	switch {
	case slices.Contains(r.tracker.keyVars, key.written):
		r.invalid(f, "is the name of a variable, not a key", "write $"+key.written)
	case key.variable == "" && strings.HasPrefix(key.written, "$"):
		r.invalid(
			f,
			"$ is not followed by the name of a variable",
			"write $"+cmp.Or(usual, "NAME")+", or the key itself",
		)
	case strings.ContainsFunc(key.value, isNoKey):
		r.invalid(f, from+" contains a blank, a quote or a bracket", "copy the key again, and nothing but the key")
	case key.value != "":
	case key.variable == LiteralKeyVar:
		missing("the key was in WORKFLOW.md itself and is not stored", "write api_key: $"+usual+" and set that variable")
	case f.node == nil && r.tracker.gh():
		missing("missing", r.setHint(usual)+", or run gh auth login")
	case key.variable != "" && f.node != nil:
		missing("the environment variable "+key.variable+" is not set, or empty", r.setHint(key.variable))
	default:
		missing("missing", r.setHint(usual))
	}
}

// keyVariable returns a reference to the variable that contains the key if the file names
// none, preferably to a variable that is set; "" if the tracker needs no key.
func (r trackerReader) keyVariable() string {
	for _, name := range r.tracker.keyVars {
		if v, _ := r.env.lookup(name); strings.TrimSpace(v) != "" {
			return "$" + name
		}
	}
	usual := r.usualKeyVar()
	if usual == "" {
		return ""
	}
	return "$" + usual
}

// withhold adds variables that neither hooks nor agents may get.
func (c *Config) withhold(names ...string) {
	all := append(c.SecretVars, names...)
	slices.Sort(all)
	c.SecretVars = slices.Compact(all)
}

func blank(c rune) bool { return c <= ' ' || c == 0x7f }

// setHint says where to set a variable.
func (r *values) setHint(name string) string {
	return "put " + name + "=… into " + cmp.Or(r.env.EnvFile, "the environment file") + " (mode 0600)"
}

// pingURL resolves the URL of the check. A variable that is not set is no error here, because
// monitoring must not stop the work: passes warn about it.
func (r *reader) pingURL(f field) {
	m := &r.cfg.Monitor
	name, isVar := reference(m.PingURL.Reveal())
	if isVar {
		r.cfg.withhold(name)
		value, _ := r.env.lookup(name)
		m.PingURL = Secret(strings.TrimSpace(value))
		m.PingVar = name
	}
	if name == literalPingVar { // in a copy of the file
		m.PingVar = ""
	}
	u, err := url.Parse(m.PingURL.Reveal())
	if m.PingURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		r.invalid(
			f,
			"must be an http or https URL, or $NAME, a variable that contains one",
			"copy it from the page of the check",
		)
	}
}

func (r trackerReader) activeStates(f field) {
	p := &r.cfg.Policy
	if f.node == nil {
		p.ActiveStates = slices.Clone(r.tracker.active)
	}
	p.WaitingStates = []string{"todo"} // specification 8.2
	if r.tracker.orders && len(p.ActiveStates) > 0 {
		p.WaitingStates = append(p.WaitingStates, reconcile.NormalizeState(p.ActiveStates[0]))
	}
	if f.node == nil {
		return
	}
	r.cfg.Tracker.NamedStates = append(r.cfg.Tracker.NamedStates, r.cfg.Policy.ActiveStates...)
	if len(r.cfg.Policy.ActiveStates) == 0 {
		r.warn(f, "no state is active, so that nothing starts")
	}
}

func (r trackerReader) terminalStates(f field) {
	if f.node == nil {
		r.cfg.Policy.TerminalStates = slices.Clone(r.tracker.terminal)
	} else {
		r.cfg.Tracker.NamedStates = append(r.cfg.Tracker.NamedStates, r.cfg.Policy.TerminalStates...)
	}
	p := &r.cfg.Policy
	always := r.tracker.always
	if always != "" && !p.Active(always) && !p.Terminal(always) {
		p.TerminalStates = append(p.TerminalStates, always)
	}
	f.line = max(f.line, r.lines["tracker.active_states"], r.lines[f.key])
	for _, state := range r.cfg.Policy.ActiveStates {
		if r.cfg.Policy.Terminal(state) {
			r.warn(f, strconv.Quote(state)+" is also an active state; it counts as terminal")
		}
	}
}

func (r trackerReader) requiredLabels(f field) {
	r.cfg.Policy.RequiredLabels = text.Map(r.cfg.Policy.RequiredLabels, strings.ToLower)
}

func (r trackerReader) assignee(f field) {
	if f.node == nil && r.tracker.assigneeVar == "" {
		r.cfg.Policy.Assignee = ""
	}
	if name, isVar := reference(r.cfg.Policy.Assignee); isVar {
		r.cfg.Policy.Assignee = r.variable(name, r.tracker.assigneeVar)
		if r.cfg.Policy.Assignee == "" && f.node != nil {
			r.warn(
				f,
				"the environment variable "+name+" is not set, or empty: issues of any assignee are taken",
			)
		}
	}
	if r.tracker.name != fileTracker.name { // @kim and @me, as gh writes them
		r.cfg.Policy.Assignee = strings.TrimPrefix(r.cfg.Policy.Assignee, "@")
	}
}

// root reads the workspace root. If it names a variable that is not set, the default is used
// (specification 5.3.3). The default contains the number of the account, because all accounts
// of a machine share its temporary directory.
func (r *reader) root(f field) {
	root := &r.cfg.Workspace.Root
	*root = filepath.Join(r.env.Temp, fmt.Sprintf("symphony_workspaces-%d", r.env.UID))
	switch {
	case f.node == nil:
		r.warnKey("workspace.root", "empty: "+*root+" is used, which a restart may clear; write a directory")
		return
	case f.node.Kind != yaml.ScalarNode:
		r.wrong(Key{Type: typePath}, f, "")
		return
	case r.refuseMark(f):
		return
	}
	if name, isVar := reference(strings.TrimSpace(f.node.Value)); isVar && r.variable(name, "") == "" {
		r.warn(f, "the environment variable "+name+" is not set, or empty: "+*root+" is used")
		return
	}
	*root = r.path(f, f.node.Value)
	_, err := paths.Find(*root)
	if errors.Is(err, paths.ErrProc) {
		r.invalid(f, *root+" is in /proc, where nothing can be stored", "name a directory on a disk, such as ~/symphony")
		*root = ""
		return
	}
	if *root == filepath.Dir(r.src.Path) {
		r.invalid(
			f,
			*root+" is the project's own folder: an issue may have the name of a folder there",
			"name a directory of its own, such as ~/symphony",
		)
	}
	if *root != "" && r.env.Home != "" && paths.Inside(*root, r.env.Home) {
		r.invalid(
			f,
			*root+" is your home directory, or around it: an issue may have the name of a folder there",
			"name a directory of its own",
		)
	}
}

// hookTimeout replaces a number that is not positive with the default (specification 5.3.4).
func (r *reader) hookTimeout(f field) {
	if timeout := &r.cfg.Hooks.Timeout; *timeout <= 0 {
		r.warn(f, fmt.Sprintf("%d is not positive: 60000 ms are used", timeout.Milliseconds()))
		*timeout = time.Minute
	}
}

// writableRoots refuses directories that would give an agent access to more: directories that
// overlap the workspaces of other issues, that contain WORKFLOW.md, or that are inside another
// root, where an agent could replace them with a link.
func (r *reader) writableRoots(f field) {
	roots := []string{}
	for i, written := range r.cfg.Agent.WritableRoots {
		f := r.item(f, i)
		path := ""
		if written != "" {
			path = r.path(f, written)
		}
		overlap := func(other string) bool {
			return other != "" && paths.Overlap(other, path)
		}
		outer := slices.IndexFunc(roots, overlap)
		root := r.cfg.Workspace.Root
		switch {
		case path == "":
		case overlap(root):
			r.invalid(f, path+" overlaps workspace.root "+root+", and thereby the workspaces of other issues",
				"name a directory outside the workspaces")
		case paths.Inside(path, r.src.Path):
			r.invalid(f, path+" contains "+r.src.Path+", whose hooks run outside the sandbox",
				"name another directory")
		case outer >= 0:
			r.invalid(
				f,
				path+" and "+roots[outer]+": one contains the other, and an agent could replace the "+
					"inner one with a link",
				"name only the outer one",
			)
		default:
			roots = append(roots, path)
		}
	}
	r.cfg.Agent.WritableRoots = roots
}

// passEnv reads the names of the variables that the agent's commands get. The tracker's key
// and symphony's own variables are refused: no agent needs them, and often more people may
// edit a workflow than may see the key. It does not check that the variables are set, because
// the schedule's environment differs from the environment of the command that checks the file.
func (r *reader) passEnv(f field) {
	names := []string{}
	for i, name := range r.cfg.Agent.PassEnv {
		f := r.item(f, i)
		value, _ := r.env.lookup(name)
		key := r.cfg.Tracker.APIKey.Reveal()
		switch {
		case name == "":
		case !variableName(name):
			r.invalid(f, strconv.Quote(name)+" is not the name of a variable", "write the name alone, without $ and =")
		case slices.Contains(r.cfg.SecretVars, name), len(key) >= shortestKey && strings.Contains(value, key):
			r.invalid(f, name+" contains a secret of symphony, which no agent gets", "remove it")
		case strings.HasPrefix(name, "SYMPHONY_"):
			r.invalid(f, name+" is one of symphony's own variables, which are not passed on", "remove it")
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	r.cfg.Agent.PassEnv = names
}

// word refuses a text that can't be a name of a model or an effort.
func (r *values) word(f field) {
	if f.node != nil && !IsWord(f.node.Value) {
		r.invalid(
			f,
			strconv.Quote(f.node.Value)+" is not a name",
			"write the name itself, without blanks and variables",
		)
	}
}

// IsWord reports whether a text can be the name of a model or an effort.
func IsWord(s string) bool { return s != "" && !strings.ContainsAny(s, " \t\n$") }

func (r *reader) serverPort(f field) {
	port := &r.cfg.Server.Port
	switch {
	case f.node == nil:
		*port = -1
	case *port > 65535:
		r.invalid(f, "a port is at most 65535", "choose a port from 1024 to 65535, or 0 for any free one")
	}
}

// serverHost refuses a URL, and an address with a port, which has a key of its own.
func (r *reader) serverHost(f field) {
	if f.node == nil {
		return
	}
	_, _, err := net.SplitHostPort(r.cfg.Server.Host)
	if err == nil || strings.Contains(r.cfg.Server.Host, "/") {
		r.invalid(f, "must be the name or the address of a host alone", "write its port as server.port")
	}
}

// checkHandoff checks the states to which symphony moves issues.
func (r *reader) checkHandoff() {
	c := r.cfg
	// A section without keys has a warning of its own.
	isBelow := func(key string) bool { return strings.HasPrefix(key, "verify.") }
	if c.Verify.Command == "" && slices.ContainsFunc(slices.Collect(maps.Keys(r.lines)), isBelow) {
		r.warnKey("verify", "no effect without verify.command")
	}
	if !c.Feedback.On() && !r.refused("feedback.state") {
		for _, name := range []string{"checks", "reviews", "conflicts", "rounds", "reviewers", "merged_state"} {
			r.warnKey("feedback."+name, "no effect without feedback.state")
		}
	}
	r.checkMerge()
	if c.Handoff.State == "" {
		if !r.refused("handoff.state") {
			r.checkNoHandoff()
		}
		return
	}
	r.checkFeedback()
	c.Handoff.mergedState = c.Feedback.MergedState
	c.Tracker.NamedStates = append(c.Tracker.NamedStates, c.Handoff.States()...)
	r.eachHandoffState(func(f field, state string) {
		if c.Policy.Active(state) {
			r.invalid(
				f,
				strconv.Quote(state)+" is one of tracker.active_states: the issue would be worked on again",
				"write another state, or remove it from tracker.active_states",
			)
		}
	})
	r.checkNotTerminal("handoff.state", c.Handoff.State)
	r.checkNotTerminal("handoff.blocked_state", c.Handoff.BlockedState)
	f := r.field("handoff.state")
	lacks := func(verb string) bool { return !slices.Contains(c.Tracker.Verbs, verb) }
	switch {
	case c.Tracker.Kind == "command" && (lacks("move") || lacks("comment")):
		r.invalid(f, "the tracker's program can't move issues and comment on them",
			"add move and comment to tracker.provider.verbs, once the program has them")
	case c.Hooks.AfterRun != "" && !c.Repository.Delivers():
		r.invalid(
			f,
			"hooks.after_run could push the work only after the handover",
			"set repository.url, so that symphony pushes the work",
		)
	}
}

// checkNotTerminal warns about a state of handovers that ends the work on an issue.
func (r *reader) checkNotTerminal(key, state string) {
	if state != "" && r.cfg.Policy.Terminal(state) {
		r.warn(r.field(key), strconv.Quote(state)+
			" is one of tracker.terminal_states, so that no one reviews the work: name another state")
	}
}

// checkNoHandoff checks the keys that need handoff.state, which the file lacks.
func (r *reader) checkNoHandoff() {
	r.warnKey("handoff.blocked_state", "no effect without handoff.state")
	if r.cfg.Feedback.On() {
		r.invalid(
			r.field("feedback.state"),
			"agents hand nothing over that could come back",
			"set handoff.state",
		)
	}
	if r.cfg.Verify.Command != "" {
		r.invalid(
			r.field("verify.command"),
			"verifies what agents hand over, and they hand nothing over",
			"set handoff.state",
		)
	}
}

// eachHandoffState calls do for each state to which symphony moves issues, with the key that
// names it.
func (r *reader) eachHandoffState(do func(f field, state string)) {
	h := r.cfg.Handoff
	for _, named := range [][2]string{
		{"handoff.state", h.State},
		{"handoff.blocked_state", h.BlockedState},
		{"feedback.merged_state", h.mergedState},
	} {
		if named[1] != "" {
			do(r.field(named[0]), named[1])
		}
	}
}

// checkMerge checks what merges need.
func (r *reader) checkMerge() {
	c := r.cfg
	merge := c.Feedback.Merge
	switch {
	case r.refused("merge.when"):
	case !merge.On():
		r.warnKey("merge.method", "no effect without merge.when")
	case !c.Feedback.On() && !r.refused("feedback.state"):
		name := c.Repository.ForgeKind().Words.Name
		r.invalid(r.field("merge.when"), "only "+name+"s that symphony watches are merged", "set feedback.state")
	}
}

// checkFeedback checks the state in which issues come back after the handover.
func (r *reader) checkFeedback() {
	c := r.cfg
	f := r.field("feedback.state")
	switch {
	case !c.Feedback.On():
	case !c.Repository.OpensPullRequests() && !r.refused("repository.deliver"):
		name := c.Repository.ForgeKind().Words.Name
		r.invalid(f, "needs "+name+"s that symphony opens", "set repository.deliver: pull-request")
	case !c.Policy.Active(c.Feedback.State):
		r.invalid(
			f,
			strconv.Quote(c.Feedback.State)+" is none of tracker.active_states: no agent would work on the issue",
			"write "+strings.Join(c.Policy.ActiveStates, " or "),
		)
	}
	if c.Feedback.On() && !c.Feedback.Reviews && !c.Feedback.Merge.On() {
		r.warnKey("feedback.reviewers", "no effect with feedback.reviews: false")
	}
}
