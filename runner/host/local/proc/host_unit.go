package proc

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// manager is the systemd of the system or of this user.
type manager struct {
	user    bool
	runtime string // XDG_RUNTIME_DIR of the user's
}

func (m manager) flag() string {
	if m.user {
		return "--user"
	}
	return "--system"
}

// host is all that decides who is asked for a scope.
type host struct {
	booted bool // with systemd
	uid    int
	hostUnit
	runtime   string // where the user's manager would be
	reachable bool   // it is
	lingers   bool   // it does not end with the last login
}

// hostUnit is the unit that a process stands in.
type hostUnit struct {
	unit  string // the innermost service or scope, empty if there is none
	owner int    // of the manager that the unit belongs to; -1 is the system's
}

// unitOf reads a cgroup's path. Below a unit there may be cgroups of the unit's own making.
func unitOf(cgroup string) hostUnit {
	st := hostUnit{owner: -1}
	for name := range strings.SplitSeq(cgroup, "/") {
		name = strings.TrimPrefix(name, "_") // systemd's escape for names that the kernel might use
		if uid, ok := strings.CutPrefix(st.unit, "user@"); ok && name != "" {
			if n, err := strconv.Atoi(strings.TrimSuffix(uid, ".service")); err == nil {
				st.owner = n
			}
		}
		if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
			st.unit = name
		}
	}
	return st
}

func (h host) inService() bool { return strings.HasSuffix(h.unit, ".service") }

// managers are those that may give a scope that lasts, the best first.
func (h host) managers() []manager {
	system, user := manager{}, manager{user: true, runtime: h.runtime}
	switch {
	case !h.booted:
		return nil
	case h.owner == h.uid:
		return []manager{user}
	case h.uid == 0, strings.HasPrefix(h.unit, "symphony-") && strings.HasSuffix(h.unit, ".scope"): // a scope that the system's gave us
		return []manager{system}
	}
	var list []manager
	if h.reachable && h.lingers {
		list = append(list, user)
	}
	if h.inService() { // the system may allow it to its account
		list = append(list, system)
	}
	return list
}

// readHost reads what this process stands in.
func readHost(env []string) host {
	h := host{uid: os.Geteuid(), runtime: lookup(env, runtimeVar)}
	if info, err := os.Stat("/run/systemd/system"); err != nil || !info.IsDir() {
		return h
	}
	h.booted = true
	if h.runtime == "" {
		h.runtime = "/run/user/" + strconv.Itoa(h.uid)
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		h.owner = -1 // no cgroups at all: then no unit ends anything
		return h
	}
	h.hostUnit = unitOf(systemdCgroup(b))
	for _, socket := range []string{"systemd/private", "bus"} {
		info, err := os.Stat(filepath.Join(h.runtime, socket))
		h.reachable = h.reachable || err == nil && info.Mode()&os.ModeSocket != 0
	}
	h.lingers = lingers("/", h.uid)
	return h
}

// systemdCgroup is the path that systemd gave to a process: in the unified hierarchy, else in the one that older
// systems have for it.
func systemdCgroup(file []byte) string {
	unified := ""
	for line := range bytes.Lines(file) {
		_, line, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":")
		if p, ok := strings.CutPrefix(line, "name=systemd:"); ok {
			return p
		}
		if p, ok := strings.CutPrefix(line, ":"); ok {
			unified = p
		}
	}
	return unified
}

// lingers reports whether the user's manager stays when nobody is logged in. Where logind does not know the user, or
// there is none, no logout ends it.
func lingers(root string, uid int) bool {
	b, err := os.ReadFile(path.Join(root, "run/systemd/users", strconv.Itoa(uid)))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "NAME="); ok && filepath.IsLocal(name) {
			_, err := os.Stat(path.Join(root, "var/lib/systemd/linger", name))
			return err == nil
		}
	}
	return false
}

// lookup reads a variable of an environment; the last value counts.
func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// HostUnit is what decides whether the workers of a pass that is run from here live on.
type HostUnit struct {
	// Booted: systemd runs this machine.
	Booted bool
	// Unit is the service or scope that this process stands in, empty if there is none.
	Unit string
	// Manager: this user's own systemd can be reached; Lingers: it stays when nobody is logged in.
	Manager, Lingers bool
	// Root needs no manager of its own.
	Root bool
}

// Look reads where this process stands. It asks nobody.
func ReadHostUnit(env []string) HostUnit {
	h := readHost(env)
	return HostUnit{Booted: h.booted, Unit: h.unit, Manager: h.reachable, Lingers: h.lingers, Root: h.uid == 0}
}
