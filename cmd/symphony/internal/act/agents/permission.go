package agents

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/state"
)

const (
	// CodeNotPermitted is the error code of a directory in which no agent may work.
	CodeNotPermitted = "not_permitted"

	// CodeNeedsPerson is the error code of a decision that a tool of a host may not make.
	CodeNeedsPerson = "needs_person"

	maxHostName  = 64  // bytes of it in a request
	maxFirstLine = 200 // bytes of the prompt's first line in a request
)

// Permission is the question that a person answers before an agent starts: may it work in a
// directory that the operator did not permit, such as /home/me/other? The worker turns it into
// a request, like the questions of the agent, and starts nothing of the agent before the answer.
type Permission struct {
	// Dir is without symlinks. For a worktree it is the repository that is cloned.
	Dir string `json:"dir"`
	// Passes run for the account, which may run files there.
	Passes bool `json:"passes,omitempty"`
	// Host is how the program that starts the agent calls itself.
	Host string `json:"host,omitempty"`
	// Prompt is the first line of the agent's work, if that is known.
	Prompt string `json:"prompt,omitempty"`
}

// NewPermission returns a permission without its directory, which Spawn sets.
func NewPermission(host, prompt string) *Permission {
	return &Permission{
		Host:   text.Short(text.OneLine(host), maxHostName),
		Prompt: text.Short(text.OneLine(text.FirstLine(prompt)), maxFirstLine),
	}
}

// summary describes the request in a line.
func (p Permission) summary(clone bool) string {
	line := "work in " + text.ShellQuote(p.Dir)
	if clone {
		line = "work in a clone of " + text.ShellQuote(p.Dir)
	}
	if p.Passes {
		line += ", where passes of your projects may run files"
	}
	if p.Host != "" {
		line += fmt.Sprintf(", for the MCP host %q", p.Host)
	}
	if p.Prompt != "" {
		line += fmt.Sprintf(": %q", p.Prompt)
	}
	return line
}

// Ended is the error of a call that starts an agent which ended already. Its code is
// CodeNotPermitted if the agent had no permission for its directory, else CodeEnded.
func Ended(run reconcile.Run) error {
	if run.ErrorCode != CodeNotPermitted {
		return reconcile.NewError(
			CodeEnded,
			"agent "+run.IssueID+" has ended: "+reasonOf(run),
			"choose another id",
		)
	}
	return reconcile.NewError(CodeNotPermitted, "agent "+run.Identifier+" has not started: "+reasonOf(run),
		"ask your user where agents may work")
}

// refused is the error of an agent that nobody permits to work in the directory.
func (p Permission) refused(reason string) error {
	message := "no agent was permitted in " + p.Dir
	if reason != "" {
		message += ": " + reason
	}
	return reconcile.NewError(CodeNotPermitted, message, "ask your user where agents may work")
}

// heldDir is a directory that stays open, so that no other can get its inode.
type heldDir struct {
	path string
	file *os.File
}

// holdDir opens a directory with a path without symlinks.
func holdDir(path string) (*heldDir, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the agent: %w", err)
	}
	d := &heldDir{path: path, file: file}
	err = d.unchanged()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return d, nil
}

func (d *heldDir) close() {
	_ = d.file.Close() // nothing was written
}

// unchanged returns an error if the path leads to another directory now, because that
// directory took its name, or because a part of the path is a symlink.
func (d *heldDir) unchanged() error {
	place, err := paths.Find(d.path)
	if err != nil {
		return fmt.Errorf("find the directory of the agent: %w", err)
	}
	held, err := d.file.Stat()
	if err != nil {
		return fmt.Errorf("the directory of the agent: %w", err)
	}
	is, err := os.Lstat(d.path)
	if err != nil || place.Path != d.path || !os.SameFile(held, is) {
		return reconcile.NewError(CodeNotPermitted,
			d.path+" is not the directory about which a person was asked",
			"spawn another agent there, which asks again")
	}
	return nil
}

// ask is the question of a worker whose agent needs a permission.
func (s Settings) ask(dir *heldDir) *runner.Permission {
	p := *s.Permission
	return &runner.Permission{
		Request: agent.Request{
			Kind:    reconcile.DirectoryRequest,
			Summary: p.summary(s.Worktree != nil),
			Cwd:     p.Dir,
			Reason:  p.Prompt,
		},
		Refused:   p.refused,
		Unchanged: dir.unchanged,
	}
}

// PermissionOf returns the request in which an agent asks whether it may work in its
// directory; false before its worker makes it.
func (a *Agents) PermissionOf(ctx context.Context, one Agent) (r reconcile.Request, found bool, err error) {
	r, err = a.DB.Views.RequestByID(ctx, one.IssueID, 1) // its worker asks for nothing before
	if errors.Is(err, state.ErrNotFound) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("read what agent %s asks: %w", one.Identifier, err)
	}
	return r, r.RunID == one.ID && r.Kind == reconcile.DirectoryRequest, nil
}
