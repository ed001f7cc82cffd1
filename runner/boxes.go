package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/allowlist"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/sandbox"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/proxy"
)

// Sandbox describes the sandbox in which symphony itself confines agents.
type Sandbox struct {
	Home        string   // of these agents in the project
	AccountHome string   // of the account, which stays hidden
	LoginHome   string   // from which they get the login of the operator; empty for none
	Open        bool     // they have the network of this machine
	Allow       []string // what agent.network allows, such as github.com and npm
	Key         string   // of the model, which no agent sees; empty if the agent has its own login
	Limits      proc.Limits
}

// boxes makes the sandboxes of a run: of its agents, and of verify. All have the same way to
// the network, a proxy in this process.
type boxes struct {
	dir    string // for the sockets, below the directory of the run
	events *eventLog
	log    *slog.Logger

	mu      sync.Mutex
	end     func() // ends the proxy; nil before it serves
	refused []proxy.Refusal
	allow   []string // what the workflow allows
}

const (
	proxySocket = "proxy.sock"
	toolsFolder = "tools"
)

// toolsDir is where the server of symphony's tools listens, and inside is where an agent finds
// that directory. dir is the directory of the run.
func toolsDir(c Config, dir string) (outside, inside string) {
	if c.Sandbox == nil {
		return dir, ""
	}
	return filepath.Join(dir, "sandbox", toolsFolder), sandbox.ToolsInside
}

// programInside is the path of symphony as agents see it.
func (c Config) programInside() string {
	if c.Sandbox == nil {
		return c.Program
	}
	return sandbox.ProgramInside
}

// enclose returns the request to start a command in a sandbox. command is the agent's own, or
// that of verify; env the environment that it would have outside, with the variables of the
// login profile.
func (b *boxes) enclose(s *site, argv, env []string, command string) (host.StartRequest, error) {
	c := s.Config
	own := c.Sandbox
	if err := os.MkdirAll(filepath.Join(b.dir, toolsFolder), 0o700); err != nil {
		return host.StartRequest{}, fmt.Errorf("the sandbox of the agent: %w", err)
	}
	way, err := own.way(c, env)
	if err != nil {
		return host.StartRequest{}, err
	}
	box := sandbox.Box{
		Workspace: s.space.Path,
		Home:      own.Home,
		Temp:      s.space.TmpDir,
		Cache:     s.space.CacheDir,
		Writable:  c.WritableRoots,
		Secret:    c.Unreadable,
		Tools:     filepath.Join(b.dir, toolsFolder),
		Program:   c.Program,
	}
	if own.Open {
		box.Network = sandbox.HostNetwork
	} else {
		box.Socket = filepath.Join(b.dir, proxySocket)
		if err := b.serve(own, way, box.Socket); err != nil {
			return host.StartRequest{}, err
		}
	}
	return host.StartRequest{
		Argv: argv,
		Dir:  "/",
		Env:  confine.WithVariables(env, way.variables),
		Box: &host.Box{
			Box:         box,
			Programs:    programsOf(command),
			AccountHome: own.AccountHome,
			Limits:      own.Limits,
		},
	}, nil
}

// newHome makes an empty home for verify. Agents write in their own: a line there, such as
// npm's script-shell=/bin/true, would make every test pass.
func (b *boxes) newHome() (string, error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return "", fmt.Errorf("the home of verify: %w", err)
	}
	home, err := os.MkdirTemp(b.dir, "verify-home-")
	if err != nil {
		return "", fmt.Errorf("the home of verify: %w", err)
	}
	return home, nil
}

// confinesItself reports whether the agent itself makes the sandbox of its commands. It does not
// if symphony confines it.
func (c Config) confinesItself() bool { return c.Agent.Sandboxes && c.Sandbox == nil }

// in returns the sandbox with another home, without a login.
func (o *Sandbox) in(home string) *Sandbox {
	other := *o
	other.Home = home
	other.LoginHome = ""
	return &other
}

// way is the way of a sandbox to its network.
type way struct {
	rules     []allowlist.Rule // hosts that the kind and the environment of the agent name
	models    []proxy.Model
	variables []string // that lead the agent to the models
}

// baseURL ends the names of variables with the address of a model.
const baseURL = "_BASE_URL"

// way returns the way to the model of an agent with an environment.
func (o *Sandbox) way(c Config, env []string) (way, error) {
	var w way
	service := c.service()
	if o.Open {
		return w, nil
	}
	if o.Key == "" { // with a key the agent reaches the model by the worker alone
		for _, name := range service.Hosts {
			w.rules = append(w.rules, allowlist.Rule{Host: name})
		}
	}
	keyed := ""
	if fault := KeyFault(service, c.Model); o.Key != "" && fault != nil {
		return w, fault
	}
	if o.Key != "" {
		keyed = service.BaseVar
		model, err := o.keyedModel(c.Agent.Name, service, env)
		if err != nil {
			return w, err
		}
		w.models = append(w.models, model)
		w.variables = service.Through(sandbox.ModelURL(model.Kind))
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasSuffix(name, baseURL) || name == keyed {
			continue
		}
		at, err := url.Parse(value)
		if err != nil || at.Hostname() == "" {
			continue // the agent will say so
		}
		if isLoopback(at.Hostname()) {
			kind := strings.ToLower(strings.TrimSuffix(name, baseURL)) + "-here"
			w.models = append(w.models, proxy.Model{Kind: kind, URL: at, Anywhere: true})
			w.variables = append(w.variables, name+"="+sandbox.ModelURL(kind))
			continue
		}
		w.rules = append(w.rules, ruleOf(at)...)
	}
	return w, nil
}

// KeyFault is the error of agent.key with a model whose provider gets its key in a way that
// symphony does not know; nil if it knows it.
func KeyFault(service agent.Service, model string) *reconcile.Error {
	if service.Through != nil {
		return nil
	}
	return reconcile.NewError(
		"invalid_config",
		"agent.key: the provider of agent.model "+model+" is unknown",
		"put the key into agent.env",
	)
}

// service returns where the model of the agents is, as far as that is known.
func (c Config) service() agent.Service {
	if c.Agent.Service == nil {
		return agent.Service{}
	}
	return c.Agent.Service(c.Model)
}

// keyedModel returns the model to which the proxy adds the key.
func (o *Sandbox) keyedModel(kind string, service agent.Service, env []string) (proxy.Model, error) {
	address := service.URL
	named := host.Variable(env, service.BaseVar)
	if service.BaseVar != "" && named != "" {
		address = named
	}
	at, err := url.Parse(address)
	if err != nil || at.Hostname() == "" {
		return proxy.Model{}, reconcile.NewError(
			"invalid_config",
			fmt.Sprintf("agent.key: %q is no address of a model", address),
			"correct "+service.BaseVar,
		)
	}
	return proxy.Model{
		Kind:     kind,
		URL:      at,
		Header:   service.Header,
		Value:    service.Prefix + o.Key,
		Anywhere: named != "",
	}, nil
}

// ruleOf returns the rule for the host of a model that the operator names. It may be on a
// private network.
func ruleOf(at *url.URL) []allowlist.Rule {
	name, err := allowlist.Name(at.Hostname())
	if err != nil {
		return nil
	}
	rule := allowlist.Rule{Host: name, Anywhere: true}
	if at.Port() == "" {
		return []allowlist.Rule{rule}
	}
	rule.Port, err = allowlist.Port(at.Port())
	if err != nil {
		return nil
	}
	return []allowlist.Rule{rule}
}

// isLoopback reports whether a host is this machine, which is another one in a sandbox.
func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

// serve serves the proxy of the run, once, until close.
func (b *boxes) serve(own *Sandbox, w way, socket string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		return nil
	}
	list, err := allowlist.Parse(own.Allow)
	if err != nil {
		return fmt.Errorf("agent.network: %w", err)
	}
	err = os.Remove(socket) // of a worker that died
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the proxy of the sandbox: %w", err)
	}
	listener, err := sandbox.Listen(socket)
	if err != nil {
		return fmt.Errorf("the proxy of the sandbox: %w", err)
	}
	upstream, direct := proxyOfCompany()
	server := proxy.New(proxy.Config{
		List:     list.With(w.rules...),
		Models:   w.models,
		Upstream: upstream,
		Direct:   direct,
		Refused:  b.refuse,
	})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	b.allow = own.Allow
	b.end = func() {
		cancel()
		warn(b.log, "proxy of the sandbox", <-served)
	}
	return nil
}

// proxyOfCompany returns the proxy by which this machine reaches the internet, and which hosts
// it reaches without; nil if there is none.
func proxyOfCompany() (upstream *url.URL, direct func(string) bool) {
	ask := func(host string) *url.URL {
		request := &http.Request{URL: &url.URL{Scheme: "https", Host: host}}
		found, err := http.ProxyFromEnvironment(request)
		if err != nil || found == nil || found.Scheme != "http" {
			return nil
		}
		return found
	}
	// no list of exceptions names a domain that can't exist
	upstream = ask("symphony.invalid")
	return upstream, func(host string) bool { return ask(host) == nil }
}

// close ends the proxy.
func (b *boxes) close() {
	b.mu.Lock()
	end := b.end
	b.mu.Unlock()
	if end != nil {
		end()
	}
}

// refuse records a host that an agent did not reach.
func (b *boxes) refuse(r proxy.Refusal) {
	b.mu.Lock()
	b.refused = append(b.refused, r)
	allow := slices.Clone(b.allow)
	b.mu.Unlock()
	e := agent.RefusedHost{
		Host:   r.Host,
		Port:   int(r.Port),
		Reason: string(r.Reason),
		Detail: r.Detail,
		Add:    lineFor(allow, []proxy.Refusal{r}),
	}
	if b.events.file != nil { // doctor keeps no log
		b.events.note(agent.EventHostRefused, e.String(), e)
	}
}

// lineFor returns the line of the workflow with which the hosts of refusals are allowed; empty
// if no line helps.
func lineFor(allow []string, refused []proxy.Refusal) string {
	for _, r := range refused {
		entry := r.Entry()
		if entry != "" && !slices.Contains(allow, entry) {
			allow = append(allow, entry)
		}
	}
	if !slices.ContainsFunc(refused, func(r proxy.Refusal) bool { return r.Entry() != "" }) {
		return ""
	}
	written := text.Map(allow, func(entry string) string {
		if strings.ContainsAny(entry, `*:[]`) {
			return string(text.JSON(entry))
		}
		return entry
	})
	return "agent.network: {allow: [" + strings.Join(written, ", ") + "]}"
}

// namedRefusals is how many hosts an error names.
const namedRefusals = 3

// explain adds to the reason of a failure the hosts that agents of this run did not reach, from
// a number of refusals on.
func (b *boxes) explain(message string, from int) string {
	b.mu.Lock()
	refused := slices.Clone(b.refused[from:])
	allow := slices.Clone(b.allow)
	b.mu.Unlock()
	if len(refused) == 0 {
		return message
	}
	shown := refused[:min(len(refused), namedRefusals)]
	message += "; the sandbox refused " + listed(text.Map(refused, proxy.Refusal.String), namedRefusals)
	line := lineFor(allow, shown)
	if line != "" {
		message += " (to allow it: " + line + ")"
	}
	return message
}

// count is the number of refusals so far.
func (b *boxes) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.refused)
}

// programsOf returns the program that a shell command starts, as far as that can be read off.
func programsOf(command string) []string {
	program := ProgramWord(command)
	if program == "" {
		return nil
	}
	return []string{program}
}

var programWord = text.Pattern(`^\s*(?:(?:exec|env|\w+=[\w./~@:,-]*)\s+)*([\w./~@+-]+)(?:\s|$)`)

// ProgramWord returns the word of a shell command that names the program, "" if only a shell
// can find it.
func ProgramWord(command string) string {
	found := programWord().FindStringSubmatch(command)
	if found == nil {
		return ""
	}
	return found[1]
}
