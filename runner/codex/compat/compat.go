// Package compat finds out whether the installed codex understands what symphony says to it. codex prints the JSON
// schema of its protocol; what we send and need (codex.Spoken) is held to it, so that a codex that has moved on is
// told from one that fails, by the name of the field, before a run is spent on it.
//
// The question costs a start of codex, so its answer is kept with the marks of the programs that it was got from
// (Report.Current).
package compat

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/codex"
)

// CodeNotFound: the shell that codex.command is for can't be started.
const CodeNotFound codex.Code = "codex_not_found"

// DefaultTimeout bounds a check as a whole.
const DefaultTimeout = 10 * time.Second

// Options say whom to ask.
type Options struct {
	// Command is codex.command; it is run by bash -lc, as a worker runs it.
	Command string
	// Home is codex's home, "" where the environment says it.
	Home string
	// Env is the environment, Secrets the variables that the login shell unsets again.
	Env     []string
	Secrets []string
	// Dir is a folder of the check's own. It is emptied before, and gone afterwards; its parent must exist.
	Dir string
	// Timeout bounds the check; DefaultTimeout where it is not set.
	Timeout time.Duration
}

// Report is what a check found. It can be kept as JSON.
type Report struct {
	// Command and Home are those that were asked.
	Command string `json:"command"`
	Home    string `json:"home,omitempty"`
	// Version is codex's own, "" where the program does not say.
	Version string `json:"version,omitempty"`
	// Binary is the program that Command starts, with symlinks resolved; "" where that is not known.
	Binary string `json:"binary,omitempty"`
	// Programs are all that Command names.
	Programs []Program `json:"programs,omitempty"`
	// Unchecked says why there is no schema to judge by; "" where there is one.
	Unchecked string `json:"unchecked,omitempty"`
	// Late: it is Unchecked only because there was no answer in time.
	Late bool `json:"late,omitempty"`
	// Absent: the shell found no such program. Nothing is known, and nothing worth keeping.
	Absent bool `json:"-"`
	// Missing is what codex lacks of what we need, each as in "does not know turn/start.sandboxPolicy".
	Missing []string `json:"missing,omitempty"`
	// Warnings say what will not work although runs will.
	Warnings []string `json:"warnings,omitempty"`
	// Allowed are the values of the keys that are passed through to codex.
	Allowed Allowed `json:"allowed"`
}

// Name is how messages call this codex.
func (r Report) Name() string {
	if r.Version == "" {
		return "this codex"
	}
	return "codex " + r.Version
}

// Err is a *codex.Error of code codex_incompatible where something is missing, else nil.
func (r Report) Err() error {
	if len(r.Missing) == 0 {
		return nil
	}
	return &codex.Error{Code: codex.CodeIncompatible, Message: r.Name() + " " + strings.Join(r.Missing, "; ")}
}

// Warning is Unchecked and Warnings as lines for people.
func (r Report) Warning() []string {
	var lines []string
	if r.Unchecked != "" {
		lines = append(lines, fmt.Sprintf("codex.command: %s; whether this version of symphony fits it is not known, and runs are started all the same", r.Unchecked))
	}
	for _, w := range r.Warnings {
		lines = append(lines, r.Name()+" "+w)
	}
	return lines
}

// Check asks the codex that o.Command starts for its schema and judges it. What codex does not say is no error but
// Report.Unchecked; errors are those of this machine.
func Check(ctx context.Context, o Options) (r Report, err error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("no answer within %v", o.Timeout))
	defer cancel()
	r = Report{Command: o.Command, Home: o.Home}
	place, err := makePlace(ctx, o.Dir)
	if err != nil {
		return r, err
	}
	defer func() {
		if removeErr := place.remove(); err == nil {
			err = removeErr
		}
	}()
	if err := r.identify(ctx, place, o); err != nil {
		return r, err
	}
	said, err := place.print(ctx, o)
	if err != nil {
		return r, err
	}
	printed, err := readPrinted(place.printed())
	switch {
	case err != nil && said.notFound && !local(o.Command):
		r.Absent = true
		return r, nil
	case err != nil:
		if err := place.room(); err != nil {
			return r, err
		}
		r.Unchecked, r.Late = "it printed no schema of its messages: "+said.because(err), said.late
		return r, nil
	}
	r.judge(printed)
	return r, nil
}
