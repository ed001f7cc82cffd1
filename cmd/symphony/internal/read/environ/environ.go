// Package environ provides an operation with everything that it gets from the process and the
// operator: variables, directories, and the clock. The terminal is not part of it.
package environ

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

// Env is the environment of an operation. Tests make their own.
type Env struct {
	// Environ are the operator's own variables. Caller are the variables of the program that
	// started this process, such as systemd's NOTIFY_SOCKET: nothing that an operation starts
	// gets them. See [Split].
	Environ, Caller []string

	Dir  string // the working directory
	Home string
	// AccountHome is the account's home directory in the password database, which cron sets;
	// empty if it is unknown.
	AccountHome string

	// Signals ends with a signal that ends the command; nil in tests.
	Signals context.Context //nolint:containedctx // there is one for the whole process

	Now func() time.Time
	// SinceBoot replaces proc.SinceBoot in tests; nil otherwise.
	SinceBoot func() time.Duration
	// Warnings receives the warnings that are not part of a result; nil drops them.
	Warnings func(text string)
}

// Context is for what is read before an operation has a context: it ends with a signal, too.
func (e *Env) Context() context.Context {
	if e.Signals == nil {
		return context.Background()
	}
	return e.Signals
}

// Getenv returns the value of a variable, empty if it is not set.
func (e *Env) Getenv(name string) string {
	v, _ := e.Lookup(name)
	return v
}

// Lookup finds a variable. If Environ contains it several times, the last value counts, as in
// a shell.
func (e *Env) Lookup(name string) (string, bool) {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.Environ[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// Absolute resolves a path that the operator gave against the working directory. The shell leaves
// the ~ of --state-dir=~/state as it is.
func (e *Env) Absolute(path string) string {
	if below, isLeft := strings.CutPrefix(path, "~/"); isLeft && e.Home != "" {
		return filepath.Join(e.Home, below)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(e.Dir, path)
}

// Silent returns an environment that drops warnings, for operations whose results are values.
func (e *Env) Silent() *Env {
	own := *e
	own.Warnings = nil
	return &own
}

// Warn reports a warning to the operator.
func (e *Env) Warn(text string) {
	if e.Warnings != nil {
		e.Warnings(text)
	}
}
