package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bubblewrap is the name of the program that makes sandboxes.
const bubblewrap = "bwrap"

// Refusal is the error of a machine on which no sandbox can be made.
type Refusal struct {
	Said string // by bubblewrap
	Cure string // what the operator can do
}

// Error implements error.
func (r *Refusal) Error() string { return r.Said }

// Check runs true in a box, and fails with a *Refusal if bubblewrap can't make it. Box.Command
// and Box.StatusFD are not used. environ is the environment of a run, by whose PATH bubblewrap
// is found.
func Check(ctx context.Context, b Box, environ []string) error {
	program, err := b.Bubblewrap(environ)
	if err != nil {
		return err
	}
	b.Command = []string{"true"}
	b.StatusFD = 3
	args, err := Prepare(b)
	if err != nil {
		return err
	}
	report, written, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("check the sandbox: %w", err)
	}
	defer report.Close()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = b.Environ(environ)
	cmd.Dir = "/"
	cmd.Stdout = &said
	cmd.Stderr = &said
	cmd.ExtraFiles = []*os.File{written}
	err = cmd.Start()
	written.Close()
	if err != nil {
		return fmt.Errorf("check the sandbox: %w", err)
	}
	status, reportErr := ReadStatus(report, nil)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("check the sandbox: %w", context.Cause(ctx))
	}
	if err == nil {
		return reportErr
	}
	text := strings.TrimSpace(said.String())
	if text == "" {
		text = err.Error()
	}
	if status.Exited {
		return fmt.Errorf("%s does not end well in the sandbox: %s", b.Command[0], text)
	}
	return &Refusal{Said: text, Cure: Cure(text)}
}

// Bubblewrap returns the path of bubblewrap by the PATH of an environment. It fails with a
// *Refusal if there is none, and refuses a program that an agent may have written.
func (b Box) Bubblewrap(environ []string) (string, error) {
	program := ""
	for _, entry := range environ {
		list, isPath := strings.CutPrefix(entry, "PATH=")
		if isPath {
			program = lookIn(list, bubblewrap)
		}
	}
	if program == "" {
		return "", &Refusal{Said: "there is no program " + bubblewrap + " in the PATH", Cure: installCure}
	}
	agents, err := b.agentPlaces()
	if err != nil {
		return "", err
	}
	return program, refuseLink(program, agents)
}

// lookIn returns the first program of a name in a list of directories, empty if there is none.
func lookIn(list, name string) string {
	for _, dir := range filepath.SplitList(list) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return path
		}
	}
	return ""
}

// switches are the settings of the kernel that decide whether an ordinary account may make a
// sandbox; empty where the kernel lacks the setting.
type switches struct {
	unprivileged string // kernel.unprivileged_userns_clone, of Debian's kernels
	most         string // user.max_user_namespaces
	appArmor     string // kernel.apparmor_restrict_unprivileged_userns, of Ubuntu's
}

func readSwitches() switches {
	read := func(path string) string {
		value, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(value))
	}
	return switches{
		unprivileged: read("/proc/sys/kernel/unprivileged_userns_clone"),
		most:         read("/proc/sys/user/max_user_namespaces"),
		appArmor:     read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
	}
}

// Cures.
const (
	installCure = "install bubblewrap 0.8 or newer: apt-get install bubblewrap, dnf install bubblewrap or " +
		"pacman -S bubblewrap"
	newerCure        = "install bubblewrap 0.8 or newer: this one is older"
	unprivilegedCure = "sysctl kernel.unprivileged_userns_clone=1 as root, and in /etc/sysctl.d"
	mostCure         = "sysctl user.max_user_namespaces=10000 as root, and in /etc/sysctl.d"
	appArmorCure     = `let AppArmor allow namespaces to bwrap: ` +
		`printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\n  userns,\n}\n' ` +
		`| sudo tee /etc/apparmor.d/bwrap && sudo systemctl reload apparmor`
	containerCure = "in a container allow namespaces: docker run --security-opt seccomp=unconfined " +
		"--security-opt systempaths=unconfined, podman run --security-opt unmask=ALL"
	landlockCure = "start Linux 5.19 or newer with landlock in the kernel's parameter lsm="
	otherCure    = "mend what bwrap says"
)

// Cure returns what an operator of this machine can do about a failure of bubblewrap, which
// wrote said to its stderr.
func Cure(said string) string { return cureOf(said, readSwitches()) }

// cureOf returns what an operator can do about a failure of bubblewrap.
func cureOf(said string, s switches) string {
	says := func(part string) bool { return strings.Contains(said, part) }
	if says("Unknown option") {
		return newerCure
	}
	if says(noLandlock) {
		return landlockCure
	}
	aboutNamespaces := says("namespace") || says("uid map") || says("loopback")
	switch {
	case aboutNamespaces && s.unprivileged == "0":
		return unprivilegedCure
	case aboutNamespaces && s.most == "0" || says("max_user_namespaces"):
		return mostCure
	case aboutNamespaces && s.appArmor == "1":
		return appArmorCure
	case aboutNamespaces || says("mount proc"):
		return containerCure
	}
	return otherCure
}
