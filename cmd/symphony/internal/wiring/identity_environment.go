package wiring

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
)

// ReadEnvFiles reads the environment files, which must belong to uid. The project's own file
// takes precedence.
func (p *Project) ReadEnvFiles(uid int) {
	var sharedErr, ownErr error
	p.SharedEnv, sharedErr = workflow.ReadEnvFile(p.SharedEnvPath(), uid)
	p.OwnEnv, ownErr = workflow.ReadEnvFile(p.EnvPath(), uid)
	p.EnvErr = nameLease(sharedErr, p.SharedEnvPath())
	if p.EnvErr == nil {
		p.EnvErr = nameLease(ownErr, p.EnvPath())
	}
	p.EnvFile = map[string]string{}
	maps.Copy(p.EnvFile, p.SharedEnv)
	maps.Copy(p.EnvFile, p.OwnEnv)
}

// SharedEnvPath is the path of the environment file for all projects.
func (p *Project) SharedEnvPath() string {
	return workflow.EnvFilePath(p.Env.Getenv("XDG_CONFIG_HOME"), p.Env.Home, "symphony")
}

// EnvPath is the path of the project's environment file. Every pass reads it, so that cron,
// systemd and an operator have the same variables.
func (p *Project) EnvPath() string {
	return workflow.EnvFilePath(p.Env.Getenv("XDG_CONFIG_HOME"), p.Env.Home, filepath.Base(p.StateDir))
}

// TokenDir is the directory for the token of a server. Every pass of the account hides it from
// agents, whichever variables it runs with (see worlds). It hides the directory of the
// caller's XDG_CONFIG_HOME only if it runs with the same variable.
func TokenDir(w *environ.Env) string {
	return filepath.Dir(workflow.EnvFilePath("", cmp.Or(w.AccountHome, w.Home), "symphony"))
}

// Lookup finds a variable in the environment, otherwise in the environment file.
func (p *Project) Lookup(name string) (string, bool) {
	if v, ok := p.Env.Lookup(name); ok {
		return v, true
	}
	v, ok := p.EnvFile[name]
	return v, ok
}

// placeOf returns the environment file from which a variable comes; empty if the process has it, or
// if it is not set.
func (p *Project) placeOf(name string) string {
	_, isSet := p.Env.Lookup(name)
	fromFile := slices.Contains(strings.Split(p.Env.Getenv(environ.FromFileVar), ","), name)
	_, isOwn := p.OwnEnv[name]
	_, isShared := p.SharedEnv[name]
	switch {
	case isSet && !fromFile:
		return ""
	case isOwn:
		return p.EnvPath()
	case isShared:
		return p.SharedEnvPath()
	}
	return ""
}

// Environ is the environment of hooks and agents: the variables of the process and of the
// environment files, each name once, and those that name the file of WriteCertificates.
func (p *Project) Environ() []string {
	vars := map[string]string{}
	certificates := p.certificatesPath()
	if Exists(certificates) {
		for _, name := range host.CertificateVars {
			vars[name] = certificates
		}
	}
	maps.Copy(vars, p.EnvFile)
	for _, entry := range p.Env.Environ {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	delete(vars, environ.FromFileVar)
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env
}

// WorkerEnviron is the environment of workers.
func (p *Project) WorkerEnviron() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(p.EnvFile)), func(name string) bool {
		_, set := p.Env.Lookup(name)
		return set
	})
	if len(names) == 0 {
		return p.Environ()
	}
	return append(p.Environ(), environ.FromFileVar+"="+strings.Join(names, ","))
}

// OwnPassEnviron is the environment of the pass that a worker starts. The pass that started the
// worker had the same.
func OwnPassEnviron(w *environ.Env) []string {
	return host.Scrub(
		w.Environ,
		append(strings.Split(w.Getenv(environ.FromFileVar), ","), environ.FromFileVar)...)
}
