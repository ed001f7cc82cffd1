// Package sandbox confines an agent, and all that it starts, to the files and the network that
// a run may use.
//
// Bubblewrap makes the namespaces and the mounts that [Box.Arguments] names. The first process
// inside is symphony itself ([Init]): it adds what bubblewrap can't do, and starts the agent.
// A network of its own has no way out but a proxy of the run, to which Init forwards.
//
// To start an agent: [Listen], and serve a proxy there; find [Box.Bubblewrap]; start it with
// the arguments of [Prepare] and the variables of [Box.Environ]; send signals to the process
// that [ReadStatus] reports. Check does all of this with the program true.
package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
)

// Network is the network of a sandbox.
type Network int

const (
	// OwnNetwork has a loopback of its own and no other device. Init listens there at
	// [ProxyAddress] if the box has a socket.
	OwnNetwork Network = iota
	// HostNetwork is this machine's, with its ports and abstract sockets.
	HostNetwork
)

// ProxyAddress is where programs in the sandbox reach the proxy of the run.
const ProxyAddress = "127.0.0.1:3128"

// Places inside the sandbox that are somewhere else outside.
const (
	// ProgramInside is Box.Program, and ToolsInside is Box.Tools.
	ProgramInside = "/run/symphony"
	ToolsInside   = "/run/tools"
	socketInside  = "/run/proxy.sock"
)

// InitCommand is the command of symphony that runs [Init].
const InitCommand = "sandbox-init"

// Box describes a sandbox. Its paths are absolute. All but Temp, Socket, Tools and
// Program have the same path inside, because agents find their sessions by the working
// directory.
type Box struct {
	Workspace string   // the agent may write it
	Home      string   // the agent's home in this project, which it may write
	Temp      string   // it is /tmp inside; if the box shows more below /tmp, that is in memory
	Cache     string   // for the caches of builds in this workspace; empty for none
	Writable  []string // more directories that it may write, such as those of the workflow
	Readable  []string // directories of programs and of the workflow, such as /home/me/go/bin
	// Agents are directories below which agents of any run may write, such as the root of all
	// workspaces. Nothing that the box shows may be there, except Workspace, Home, Temp, Cache
	// and Shared.
	Agents []string
	// Shared are directories of symphony below Agents or Private that only symphony writes and
	// that the agent may read, such as the mirror from which its clone borrows objects.
	Shared []string
	// Private are directories that no agent may read, such as symphony's state. They and Agents
	// are empty inside, also if a directory above them is shown.
	Private []string

	// Secret are files and directories, such as the home of the account, that are empty inside
	// also if they are below /usr or /opt. Readable may show directories in them.
	Secret []string

	Dir     string // where Command starts; Workspace if empty
	Network Network
	Socket  string // where the proxy of the run listens; empty if nothing leaves the sandbox
	Tools   string // a directory in which the server of symphony's tools listens; empty for none
	Program string // the program of symphony
	// StatusFD is the descriptor on which bubblewrap reports, see [ReadStatus]; 0 for none.
	StatusFD int
	// Terminal: at a terminal.
	Terminal bool
	// Processes is how many processes and threads Init lets be there at once; 0 for no limit. The
	// kernel does not count those of root. A limit of memory is only possible for all processes
	// together, in a scope around bubblewrap: for a single one it would keep the race detectors of
	// Go and C from starting, which reserve terabytes.
	Processes int
	Command   []string
}

// Layout is what a box shows of this machine besides its own directories.
type Layout struct {
	Links []Link   // such as /bin, which leads to usr/bin
	Shown []string // directories: /usr, /opt, and /bin where it is one
	// Settings are what programs look for in /etc and is for everyone.
	Settings []string
	Real     []Link   // where paths of Box.Readable lead, if links are among their directories
	Empty    []string // those of Box.Agents and Box.Private that exist
	Secret   []Hidden // those of Box.Secret that exist
	// Resolver is the file in /run to which /etc/resolv.conf leads, such as systemd-resolved's;
	// empty if it leads elsewhere.
	Resolver string
}

// Link is a symbolic link, or a path that leads through one.
type Link struct{ Path, To string }

// Hidden is a file or directory that is empty in a sandbox.
type Hidden struct {
	Path string
	Dir  bool
}

// system are the directories that are the machine's own inside, or are made anew.
var system = []string{"/bin", "/dev", "/etc", "/lib", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var"}

// Arguments returns the command line of bubblewrap, without its name.
func (b Box) Arguments(l Layout) ([]string, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	args := b.namespaces()
	for _, dir := range l.Shown {
		args = append(args, "--ro-bind", dir, dir)
	}
	for _, link := range l.Links {
		args = append(args, "--symlink", link.To, link.Path)
	}
	for _, path := range l.Settings {
		args = append(args, "--ro-bind-try", path, path)
	}
	secret := l.secretsIn(l.Shown)
	args = append(args, masks(secret)...)
	args = append(
		args,
		"--proc", "/proc",
		// Bubblewrap protects /proc/sys only where the directory itself is writable. root
		// could write kernel.core_pattern, which the kernel runs outside.
		"--ro-bind", "/proc/sys", "/proc/sys",
		"--ro-bind-try", "/proc/mtrr", "/proc/mtrr",
		"--ro-bind-try", "/proc/pressure", "/proc/pressure",
		"--dev", "/dev",
		"--tmpfs", "/run",
		"--dir", "/var",
		"--symlink", "../run", "/var/run",
		"--tmpfs", "/var/tmp",
	)
	// Bubblewrap makes the places of other directories below /tmp, and follows links there. An
	// agent may have left some in Temp: from a link to /oldroot it would get the whole machine.
	if b.showsInTemp(l) {
		args = append(args, "--tmpfs", "/tmp")
	} else {
		args = append(args, "--bind", b.Temp, "/tmp")
	}
	if b.Network == HostNetwork && l.Resolver != "" {
		args = append(args, "--ro-bind", l.Resolver, l.Resolver)
	}
	args = append(args, b.readable(l)...)
	more := l.secretsIn(b.readableDirs(l))
	args = append(args, masks(more)...)
	secret = append(secret, more...)
	empty := b.empty(l)
	for _, dir := range empty {
		args = append(args, "--tmpfs", dir)
	}
	for _, dir := range b.Shared {
		args = append(args, "--ro-bind", dir, dir)
	}
	for _, dir := range b.writable() {
		if dir != b.Temp {
			args = append(args, "--bind", dir, dir)
		}
	}
	if b.Socket != "" {
		args = append(args, "--ro-bind", b.Socket, socketInside)
	}
	if b.Tools != "" {
		args = append(args, "--ro-bind", b.Tools, ToolsInside)
	}
	args = append(args, "--ro-bind", b.Program, ProgramInside)
	dir := b.Dir
	if dir == "" {
		dir = b.Workspace
	}
	// What is written elsewhere would be lost with the sandbox: it is refused.
	for _, hidden := range secret {
		if hidden.Dir {
			empty = append(empty, hidden.Path)
		}
	}
	for _, dir := range append(empty, "/") {
		args = append(args, "--remount-ro", dir)
	}
	args = append(args, "--chdir", dir, "--")
	return append(args, b.start()...), nil
}

// secretsIn returns what is secret in directories.
func (l Layout) secretsIn(dirs []string) []Hidden {
	return text.Filter(l.Secret, func(secret Hidden) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return paths.Inside(dir, secret.Path) })
	})
}

// masks returns the arguments that hide secrets.
func masks(secrets []Hidden) (args []string) {
	for _, secret := range secrets {
		if secret.Dir {
			args = append(args, "--tmpfs", secret.Path)
		} else {
			args = append(args, "--ro-bind", "/dev/null", secret.Path)
		}
	}
	return args
}

// showsInTemp reports whether the box shows a directory below /tmp, such as a workspace in
// /tmp/symphony_workspaces-1000.
func (b Box) showsInTemp(l Layout) bool {
	shown := slices.Concat(b.Readable, b.Shared, l.Empty, []string{b.Workspace, b.Home, b.Cache}, b.Writable)
	for _, link := range l.Real {
		shown = append(shown, link.To)
	}
	return slices.ContainsFunc(shown, func(path string) bool { return paths.Inside("/tmp", path) })
}

// namespaces returns the arguments about everything but files. The host name stays that of the
// machine: /etc/hosts knows no other, and programs look their own name up.
func (b Box) namespaces() []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try",
		"--disable-userns", "--cap-drop", "ALL",
		"--die-with-parent", "--as-pid-1",
	}
	if !b.Terminal { // Init refuses what types into a terminal
		args = append(args, "--new-session")
	}
	if b.Network == OwnNetwork {
		args = append(args, "--unshare-net")
	}
	if b.StatusFD != 0 {
		args = append(args, "--json-status-fd", strconv.Itoa(b.StatusFD))
	}
	return args
}

// readable returns the arguments about the directories that the agent may only read. A path
// that leads through a link is also there under the name that it leads to, because programs
// find their files by it.
func (b Box) readable(l Layout) []string {
	var args []string
	for _, dir := range slices.Compact(slices.Sorted(slices.Values(b.Readable))) {
		source := dir
		at := slices.IndexFunc(l.Real, func(link Link) bool { return link.Path == dir })
		if at >= 0 {
			source = l.Real[at].To
			args = append(args, "--ro-bind", source, source)
		}
		args = append(args, "--ro-bind", source, dir)
	}
	return args
}

// readableDirs returns the directories that the agent may only read, also under the names to which
// they lead.
func (b Box) readableDirs(l Layout) []string {
	dirs := slices.Clone(b.Readable)
	for _, link := range l.Real {
		dirs = append(dirs, link.To)
	}
	return dirs
}

// empty returns the directories of agents and of symphony that would be shown with one above.
func (b Box) empty(l Layout) []string {
	shown := append(b.readableDirs(l), l.Shown...)
	var empty []string
	for _, dir := range slices.Compact(slices.Sorted(slices.Values(l.Empty))) {
		if slices.ContainsFunc(shown, func(above string) bool { return paths.Inside(above, dir) }) {
			empty = append(empty, dir)
		}
	}
	return empty
}

// writable returns the directories that the agent may write, outer ones first.
func (b Box) writable() []string {
	dirs := append([]string{b.Workspace, b.Home, b.Temp}, b.Writable...)
	if b.Cache != "" {
		dirs = append(dirs, b.Cache)
	}
	return slices.Compact(slices.Sorted(slices.Values(dirs)))
}

// shown returns what the agent may only read.
func (b Box) shown() []string {
	shown := append(slices.Clone(b.Readable), b.Program)
	if b.Socket != "" {
		shown = append(shown, b.Socket)
	}
	if b.Tools != "" {
		shown = append(shown, b.Tools)
	}
	return shown
}

// start returns the command line of the first process inside.
func (b Box) start() []string {
	args := []string{ProgramInside, InitCommand}
	if b.Socket != "" && b.Network == OwnNetwork {
		args = append(args, "--proxy", socketInside)
	}
	if b.Processes > 0 {
		args = append(args, "--processes", strconv.Itoa(b.Processes))
	}
	if b.Terminal {
		args = append(args, "--terminal")
	}
	for _, dir := range b.own() {
		args = append(args, "--own", dir)
	}
	args = append(args, "--")
	return append(args, b.Command...)
}

// own returns the directories that no other run can write. /tmp is one, unless there is one below
// it that others can write: Init can't tell them apart.
func (b Box) own() []string {
	own := []string{b.Workspace}
	if b.Cache != "" {
		own = append(own, b.Cache)
	}
	common := append([]string{b.Home}, b.Writable...)
	if !slices.ContainsFunc(common, func(dir string) bool { return paths.Inside("/tmp", dir) }) {
		own = append(own, "/tmp")
	}
	return own
}

// check refuses a box that would show, or let an agent replace, more than it names.
func (b Box) check() error {
	if len(b.Command) == 0 {
		return fmt.Errorf("the sandbox has no command")
	}
	shown := b.shown()
	for _, path := range slices.Concat(b.writable(), shown, b.Shared, b.Agents, b.Private) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
			return fmt.Errorf("the sandbox can't show %q: it is not an absolute path", path)
		}
		if path == "/" {
			return fmt.Errorf("the sandbox can't show /")
		}
	}
	for _, dir := range b.writable() {
		for _, own := range system {
			if paths.Inside(dir, own) {
				return fmt.Errorf("an agent can't write %s: it contains %s", dir, own)
			}
		}
	}
	for _, outer := range b.writable() {
		for _, path := range slices.Concat(b.writable(), shown, b.Shared) {
			if path != outer && paths.Inside(outer, path) {
				return inWritable(path, outer)
			}
		}
	}
	for _, outer := range b.Agents {
		for _, path := range slices.Concat(b.Writable, shown) {
			if paths.Inside(outer, path) {
				return inWritable(path, outer)
			}
		}
	}
	return nil
}

// inWritable is the error of a path that an agent could have replaced by a link to a secret:
// bubblewrap follows links, and would show the secret.
func inWritable(path, dir string) error {
	return fmt.Errorf("the sandbox can't show %s: it is in %s, where an agent writes", path, dir)
}
