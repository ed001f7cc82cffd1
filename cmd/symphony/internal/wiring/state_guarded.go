package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/tracker/file"
)

// Guarded is a file or directory that the next pass of a project reads as configuration, runs,
// or trusts, such as ~/.gitconfig. It need not exist. Agents in directories of the operator, as
// symphony mcp starts them, must not change it or replace it.
type Guarded struct {
	paths.Place
	// Writable: agents of issues write it, as agent.writable_roots says.
	Writable bool
	// Project: it is the directory of a WORKFLOW.md. An agent of an issue may have a writable
	// directory in it.
	Project bool
	// Workflow: it is a WORKFLOW.md, whose passes may run files in any directory.
	Workflow bool
}

// OperatorFiles returns the guarded files of all projects of the account, whichever directories
// for state and settings (XDG_STATE_HOME, XDG_CONFIG_HOME) the caller and a schedule have:
//   - the state directories;
//   - the workflows, and the files that the values of their keys name;
//   - the environment files;
//   - the settings that git obeys in local repositories and for the account;
//   - the account's own settings of shells and ssh.
//
// What these programs and scripts run in turn can't be known. So while passes run for the
// account, an agent gets a worktree, or a person names its directory.
//
// If a workflow can't be read, its whole directory is guarded. A state that can't be read is an
// error.
func OperatorFiles(ctx context.Context, w *environ.Env) ([]Guarded, error) {
	g := guard{ctx: ctx, seen: map[string]bool{}}
	for _, own := range worlds(w) {
		g.env = own
		g.addAccount()
		projects, err := AllProjects(own)
		if err != nil {
			return nil, err
		}
		for _, p := range projects {
			err := g.addProject(p.StateDir)
			if err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(g.list, func(a, b Guarded) int { return strings.Compare(a.Path, b.Path) })
	return g.list, errors.Join(g.failed, ctx.Err())
}

// OwnPlaces are the directories of symphony and of agents that belong to the account, in which
// and around which no agent beside the projects works. Some need not exist.
func OwnPlaces(w *environ.Env) ([]paths.Place, error) {
	g := guard{seen: map[string]bool{}}
	for _, own := range worlds(w) {
		p := NewProject(own, filepath.Join(AgentsDir(own), "WORKFLOW.md"), AgentsDir(own))
		account := OpenAccount(p, "")
		g.add(StateHome(own), filepath.Dir(p.EnvPath()), account.Home, account.AgentHome())
	}
	return text.Map(g.list, func(one Guarded) paths.Place { return one.Place }), g.failed
}

// ObeyedPlaces are the directories of PATH, from which programs are started, and the
// directories to which hidden links in the home directory and links in ~/.config lead, such as
// ~/.vim to ~/dotfiles/vim: programs obey the files there. No agent beside the projects may
// write them. Some need not exist.
func ObeyedPlaces(w *environ.Env) ([]paths.Place, error) {
	g := guard{seen: map[string]bool{}}
	g.add(filepath.SplitList(w.Getenv("PATH"))...)
	for _, own := range worlds(w) {
		g.add(linksIn(own.Home, ".")...)
		g.add(linksIn(filepath.Join(own.Home, ".config"), "")...)
	}
	home, err := paths.Find(w.Home)
	if err != nil {
		return nil, fmt.Errorf("find the home directory: %w", err)
	}
	list := text.Map(g.list, func(one Guarded) paths.Place { return one.Place })
	// such as ~/.root, which is /
	leadsAround := func(place paths.Place) bool { return home.Inside(place) }
	return slices.DeleteFunc(list, leadsAround), g.failed
}

// linksIn returns the symlinks in a directory whose names begin with a prefix. The directory
// need not exist.
func linksIn(dir, prefix string) (links []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type() == os.ModeSymlink && strings.HasPrefix(e.Name(), prefix) {
			links = append(links, filepath.Join(dir, e.Name()))
		}
	}
	return links
}

// worlds are the environments in which passes of the account may run: the caller's; the same
// without its own directories for state and settings; and cron's, with the home directory of
// the password database.
func worlds(w *environ.Env) []*environ.Env {
	list := []*environ.Env{w}
	for _, home := range slices.Compact([]string{w.Home, w.AccountHome}) {
		if home == "" {
			continue
		}
		own := *w
		own.Home = home
		own.Environ = host.Scrub(
			w.Environ,
			"XDG_STATE_HOME",
			"XDG_CONFIG_HOME",
			"XDG_CACHE_HOME",
			"SYMPHONY_STATE_DIR",
		)
		if home != w.Home {
			own.Environ = host.Scrub(own.Environ, DefaultAgent().HomeVar, "GH_CONFIG_DIR")
			own.Environ = append(own.Environ, "HOME="+home)
		}
		list = append(list, &own)
	}
	return list
}

// guard collects the guarded files, one environment after the other.
type guard struct {
	ctx    context.Context
	env    *environ.Env
	list   []Guarded
	seen   map[string]bool // paths that were added
	failed error
}

// add adds files and directories that no agent may write.
func (g *guard) add(names ...string) {
	for _, name := range names {
		g.addOne(name, Guarded{})
	}
}

// addOne adds a file or directory. The other fields of as are taken over. A relative path is
// ignored.
func (g *guard) addOne(name string, as Guarded) {
	key := fmt.Sprint(as.Writable, as.Project, as.Workflow, " ", name)
	if g.seen[key] || !filepath.IsAbs(name) {
		return
	}
	g.seen[key] = true
	place, err := paths.Find(name)
	if errors.Is(err, paths.ErrProc) {
		return // such as /dev/stdin: no file that an agent could write
	}
	if err != nil {
		why := fmt.Errorf("find out whether an agent could change %s: %w", name, err)
		g.failed = errors.Join(g.failed, why)
		return
	}
	as.Place = place
	g.list = append(g.list, as)
}

// addWorkflow adds a WORKFLOW.md by the path under which passes know it, with its directory and
// the directories of the links to it. The home directory, what is around it, and a directory that
// all accounts write, such as /tmp, are no directories of a project.
func (g *guard) addWorkflow(path string) {
	g.addOne(path, Guarded{Workflow: true})
	place, err := paths.Find(path)
	if err != nil || !Exists(path) {
		return
	}
	files := []string{place.Path}
	for _, link := range place.Links {
		files = append(files, link.Path)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		info, err := os.Stat(dir)
		if err == nil && info.Mode()&os.ModeSticky == 0 && !paths.Inside(dir, g.env.Home) {
			g.addOne(dir, Guarded{Project: true})
		}
	}
}

// accountFiles are the files in a home directory that a run obeys before or beside
// WORKFLOW.md: it starts a login shell, git and ssh.
var accountFiles = strings.Fields(
	`.profile .bash_profile .bash_login .bash_logout .bashrc .zshenv .zprofile .zshrc .zlogin
	.gitconfig .config/git .git-credentials .netrc .ssh .config/gh .config/systemd .config/environment.d
	Library/LaunchAgents`,
)

// addAccount adds the paths that belong to no single project.
func (g *guard) addAccount() {
	p := NewProject(g.env, filepath.Join(StateHome(g.env), "WORKFLOW.md"), StateHome(g.env))
	config := filepath.Dir(p.EnvPath())
	g.add(config)
	entries, _ := os.ReadDir(config) // it need not exist
	for _, e := range entries {
		g.add(filepath.Join(config, e.Name())) // which may be a link
	}
	for _, name := range accountFiles {
		path := filepath.Join(g.env.Home, name)
		if _, err := os.Lstat(path); err == nil {
			g.add(path)
		}
	}
	g.addGit(p, "")
	g.addVariables(p)
}

// pathVars are variables with a path that bash, git or ssh runs or obeys.
var pathVars = strings.Fields(
	`BASH_ENV ENV GIT_ASKPASS GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_SSH GIT_TEMPLATE_DIR SSH_ASKPASS`,
)

// addVariables adds the paths that variables of the caller and of the environment files name.
// They need not exist yet: an agent could create them.
func (g *guard) addVariables(p *Project) {
	for _, name := range pathVars {
		value, _ := p.Lookup(name)
		g.add(inHome(p.Env.Home, os.Expand(value, p.variable)))
	}
}

// addGit adds the files that git obeys with an address.
func (g *guard) addGit(p *Project, address string) {
	q := host.ObeyedRequest{Address: address, Env: p.Environ(), Home: p.Env.Home}
	obeyed, err := ThisMachine().ObeyedByGit(g.ctx, q)
	if err != nil {
		g.failed = errors.Join(g.failed, fmt.Errorf("find out what git obeys: %w", err))
		return
	}
	g.add(obeyed...)
}

// addProject adds a project by its state directory.
func (g *guard) addProject(stateDir string) error {
	g.add(stateDir)
	stored, err := storedFiles(g.ctx, stateDir)
	if err != nil {
		const unknown = "%s: could not find out which files of its project an agent could change: %v"
		return reconcile.NewError(
			"state_unusable",
			fmt.Sprintf(unknown, stateDir, err),
			"symphony doctor --state-dir "+text.ShellQuote(stateDir)+" shows what is wrong",
		)
	}
	g.add(stored.roots...)
	if stored.workflow == "" {
		return nil
	}
	p := NewProject(g.env, stored.workflow, stateDir)
	g.addWorkflow(p.Path)
	if stored.link != "" {
		g.addWorkflow(stored.link)
	}
	g.add(p.EnvPath(), p.SharedEnvPath(), p.certificatesPath())
	g.addVariables(p)
	// Passes obey the last valid workflow until the present workflow is valid.
	cfg := p.parseStored(stored.lastGood)
	if cfg != nil {
		g.addConfig(p, cfg)
	}
	cfg, err = p.ConfigWithoutKey()
	if err != nil {
		if Exists(p.Path) {
			g.add(filepath.Dir(p.Path))
		}
		return nil
	}
	g.addConfig(p, cfg)
	return nil
}

// parseStored parses the text of a workflow that a pass stored; nil if there is none, or if
// this program can't parse it.
func (p *Project) parseStored(stored string) *workflow.Config {
	if stored == "" {
		return nil
	}
	src, err := workflow.NewSource(p.Path, p.Path, []byte(stored))
	if err != nil {
		return nil
	}
	cfg, err := p.parseWithoutKey(src)
	if err != nil {
		return nil
	}
	return cfg
}

// addConfig adds the paths that the values of a workflow name.
func (g *guard) addConfig(p *Project, cfg *workflow.Config) {
	for _, named := range cfg.Named() {
		g.add(p.namedFiles(named)...)
		switch named.Names {
		case workflow.NamesRepository:
			for _, address := range named.Values {
				g.addGit(p, address)
			}
		case workflow.NamesWritable:
			for _, name := range named.Values {
				g.addOne(name, Guarded{Writable: true})
			}
		default:
		}
	}
	if cfg.Tracker.Folder != "" {
		g.add(file.Beside(cfg.Tracker.Folder)...)
	}
}

// namedFiles returns the paths that the value of a key names, of what a pass or a run reads or
// runs. They need not exist.
func (p *Project) namedFiles(named workflow.Named) (list []string) {
	dir := filepath.Dir(p.Path)
	home := p.Env.Home
	switch named.Names {
	case workflow.NamesPaths:
		return named.Values
	case workflow.NamesHome:
		return text.Map(named.Values, func(path string) string { return inHome(home, path) })
	case workflow.NamesScript:
		return p.filesIn("", named.Values...)
	case workflow.NamesHomeScript:
		return p.filesIn(home, named.Values...)
	case workflow.NamesProgram:
		if len(named.Values) > 0 && strings.Contains(named.Values[0], "/") {
			list = append(list, absoluteIn(dir, named.Values[0])) // it may not be built yet
		}
		return append(list, p.filesIn(dir, named.Values...)...)
	default:
		return nil
	}
}

// stored is the record of a project's files in its database.
type stored struct {
	roots    []string // the workspace roots used by the project
	workflow string   // the path of its workflow
	link     string   // by which the last pass reached it; empty for none
	lastGood string   // the text of the last valid workflow
}

// storedFiles reads the record of a project. Without a database it is empty.
func storedFiles(ctx context.Context, stateDir string) (s stored, err error) {
	db, err := state.OpenReadOnly(ctx, stateDir)
	if errors.Is(err, state.ErrNoState) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer db.Close()
	s.roots, err = RootsOf(ctx, db)
	if err != nil {
		return s, err
	}
	s.workflow, _, err = db.Meta(ctx, OwnerKey)
	if err != nil {
		return s, fmt.Errorf("read the path of the workflow: %w", err)
	}
	s.link, _, err = db.Meta(ctx, linkKey)
	if err != nil {
		return s, fmt.Errorf("read the link to the workflow: %w", err)
	}
	s.lastGood, _, err = db.Meta(ctx, LastGoodKey)
	if err != nil {
		return s, fmt.Errorf("read the last valid workflow: %w", err)
	}
	return s, nil
}

// filesIn returns the existing files that shell scripts of a project name by an absolute path,
// a path below the home directory, a variable of the environment, or, unless dir is empty, a
// path from dir, where they run. It reads words: a value in --config=FILE is a word. That is a
// help, and no limit: a shell can name a file in other ways.
func (p *Project) filesIn(dir string, scripts ...string) (list []string) {
	split := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`=:;|&(){}<>,!", r) }
	var words []string
	for _, script := range scripts {
		words = append(words, script) // a program in a list may have a blank in its name
		words = append(words, strings.FieldsFunc(script, split)...)
		words = append(words, strings.FieldsFunc(os.Expand(script, p.variable), split)...)
	}
	for _, word := range words {
		path := inHome(p.Env.Home, word)
		if !filepath.IsAbs(path) {
			if dir == "" {
				continue
			}
			path = filepath.Join(dir, path)
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() {
			list = append(list, path)
		}
	}
	return list
}

// variable returns the value of a variable in the scripts of a project.
func (p *Project) variable(name string) string {
	if name == "HOME" {
		return p.Env.Home
	}
	value, _ := p.Lookup(name)
	return value
}

// inHome replaces ~/ at the beginning of a path.
func inHome(home, path string) string {
	rest, found := strings.CutPrefix(path, "~/")
	if found {
		return filepath.Join(home, rest)
	}
	return path
}

// WritableRoots returns the directories of agent.writable_roots without links. It refuses a
// directory in which agents could change guarded files, also if the sandbox policy
// names it, and a directory that is reached by a link of the account: an agent of an MCP host
// may have put the link there, to lead the agents of issues elsewhere. Directories on other
// machines are returned as they are.
func WritableRoots(ctx context.Context, p *Project, cfg *workflow.Config) ([]string, error) {
	isWritable := func(named workflow.Named) bool { return named.Names == workflow.NamesWritable }
	writable := text.Filter(cfg.Named(), isWritable)
	if len(writable) == 0 {
		return nil, nil
	}
	files, err := writableRules(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	var real []string
	for _, named := range writable {
		for _, written := range named.Values {
			dir, err := writableDir(p, cfg, named.Key, written, files)
			if err != nil {
				return nil, err
			}
			if named.Key == "agent.writable_roots" {
				real = append(real, dir)
			}
		}
	}
	return real, nil
}

// writableDir returns a writable directory without links, or as it is written if agents work on
// other machines.
func writableDir(
	p *Project,
	cfg *workflow.Config,
	key, written string,
	files []Guarded,
) (string, error) {
	dir, err := writableFits(keyAt(p, cfg, key), written, files)
	if err != nil {
		return "", err
	}
	if len(cfg.Policy.Hosts) > 0 {
		return written, nil
	}
	return dir.Path, ownLink(keyAt(p, cfg, key), written, dir)
}

// writableRules returns the paths that no writable directory of a project may contain, or be
// in: the guarded files of all projects and of this project, and the directories of symphony
// and the agent.
func writableRules(ctx context.Context, p *Project, cfg *workflow.Config) ([]Guarded, error) {
	files, err := OperatorFiles(ctx, p.Env)
	if err != nil {
		return nil, err
	}
	ours, err := OwnPlaces(p.Env)
	if err != nil {
		return nil, err
	}
	for _, place := range ours {
		files = append(files, Guarded{Place: place})
	}
	g := guard{ctx: ctx, env: p.Env, seen: map[string]bool{}}
	g.add(p.Path, p.StateDir)
	for _, a := range Accounts(p, PassPolicy(p, cfg)) {
		g.add(a.Account.Home)
	}
	g.addConfig(p, cfg) // before the first pass no state names the workflow
	return append(g.list, files...), g.failed
}

// writableFits returns the place of a writable directory, unless it is, contains or is in any
// of files. at is where the workflow names it.
func writableFits(at, written string, files []Guarded) (paths.Place, error) {
	dir, err := paths.Find(written)
	if errors.Is(err, paths.ErrProc) {
		return dir, reconcile.NewError(
			workflow.CodeInvalid,
			fmt.Sprintf(
				"%s: %s leads into /proc, and from there perhaps elsewhere",
				at,
				written,
			),
			"name the directory itself",
		)
	}
	if err != nil {
		return dir, reconcile.NewError(
			workflow.CodeInvalid,
			fmt.Sprintf("%s: %v", at, err),
			"name an existing directory",
		)
	}
	for _, one := range files {
		if one.Project || one.Writable && dir.Same(one.Place) || !paths.Meet(dir, one.Place) {
			continue
		}
		return dir, reconcile.NewError(
			workflow.CodeInvalid,
			fmt.Sprintf(
				"%s: %s would let an agent change %s, which a pass or the agents obey",
				at,
				dir.Path,
				one.Path,
			),
			"use a directory apart from workspaces, states, issues and homes of agents",
		)
	}
	return dir, nil
}

// ownLink refuses a directory that is reached by a link which a process of this account made.
func ownLink(at, written string, dir paths.Place) error {
	for _, link := range dir.Links {
		if link.Ours() {
			return reconcile.NewError(
				workflow.CodeInvalid,
				fmt.Sprintf(
					"%s: %s leads to %s by the symlink %s, which an agent may have made",
					at,
					written,
					dir.Path,
					link.Path,
				),
				"name "+dir.Path+" itself, if that is the one",
			)
		}
	}
	return nil
}

func absoluteIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
