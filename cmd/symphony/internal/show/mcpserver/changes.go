package mcpserver

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	port "github.com/symphony-cron/symphony/runner/host"
)

const (
	listedCommits = 50
	mostDiff      = 32 << 10 // bytes of a diff in a result of read_changes
)

type readChangesIn struct {
	AgentID string `json:"agentId"`
	Offset  int    `json:"offset,omitempty" jsonschema:"nextOffset of the last result"`

	Commit string `json:"commit,omitempty" jsonschema:"with offset: the last state.commit"`
}

type readChangesOut struct {
	AgentID string         `json:"agentId"`
	Cwd     string         `json:"cwd"`
	State   port.GitStatus `json:"state"`

	Commits []port.GitCommit `json:"commits" jsonschema:"those that the base lacks, newest first, at most 50"`

	Diff      string `json:"diff" jsonschema:"since the work left the base; uncommitted work follows # Not committed:"`
	DiffBytes int    `json:"diffBytes" jsonschema:"the length of the whole diff"`

	NextOffset int `json:"nextOffset,omitempty" jsonschema:"where the rest of the diff begins, if this is not all"`
}

type deliverChangesIn struct {
	AgentID string `json:"agentId"`
	Commit  string `json:"commit,omitempty" jsonschema:"as read_changes showed it"`
}

type deliverChangesOut struct {
	AgentID string `json:"agentId"`
	agents.Delivered
}

// changeTools show the changes of agents in their repositories, and deliver them.
type changeTools struct {
	agents  *agents.Agents
	project *wiring.Project // nil without a workflow
	deliver bool            // to the origin of the agent's repository
	timeout time.Duration   // of a delivery
}

func (c changeTools) addTo(t *calls.Tools) {
	calls.Add(t, calls.Tool{
		Name:        "read_changes",
		Effect:      calls.Reads,
		Description: "Show what an agent has changed in its git repository: branch, commits, files, diff.",
	}, c.readChanges)
	if !c.canDeliver() {
		return
	}
	calls.Add(t, calls.Tool{
		Name:   "deliver_changes",
		Effect: calls.Works,
		Description: "Push the commits of an agent's worktree to its branch in the remote repository. " +
			"Use it when your user wants the reviewed work there, and not during a turn.",
	}, c.deliverChanges)
}

func (c changeTools) readChanges(ctx context.Context, in readChangesIn) (readChangesOut, error) {
	one, err := c.agents.Find(ctx, in.AgentID)
	if err != nil {
		return readChangesOut{}, err
	}
	out := readChangesOut{AgentID: in.AgentID, Cwd: one.WorkspacePath, Commits: []port.GitCommit{}}
	machine := wiring.ThisMachine()
	workspace := port.WorkspaceRequest{Path: one.WorkspacePath, Commits: listedCommits}
	found, err := machine.Inspect(ctx, workspace)
	if err != nil {
		return out, fmt.Errorf("examine the directory of agent %s: %w", in.AgentID, err)
	}
	if found.Git == nil {
		return out, reconcile.NewError(
			"not_found",
			"there is no git repository at "+one.WorkspacePath,
			"list_agents shows whether it has ended: then a worktree without work is removed",
		)
	}
	if found.Git.Commit != nil {
		workspace.Commit = *found.Git.Commit
	}
	if err := port.CheckCommit(workspace.Commit, in.Commit); err != nil {
		return out, err
	}
	out.State = *found.Git
	out.Commits = append(out.Commits, found.Commits...)
	diff := &window{
		skip: max(in.Offset, 0),
		most: mostDiff,
	}
	if _, err := machine.Diff(ctx, workspace, diff); err != nil {
		return out, fmt.Errorf("compare the work of agent %s with its base: %w", in.AgentID, err)
	}
	out.DiffBytes = diff.all
	kept := firstRunes(diff.kept.Bytes(), diff.skip+diff.kept.Len() < diff.all)
	kept = fitting(kept, resultBytes-calls.SizeOf(out))
	out.Diff = validText(kept)
	end := diff.skip + len(kept)
	if end < diff.all && len(kept) > 0 {
		out.NextOffset = end
	}
	return out, nil
}

// validText returns bytes as a text. A diff may contain bytes that are none.
func validText(b []byte) string { return string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) }

// firstRunes returns bytes without the beginning of a character at their end, if more follow.
func firstRunes(b []byte, more bool) []byte {
	if !more {
		return b
	}
	for n := len(b) - 1; n > 0 && n >= len(b)-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			if !utf8.FullRune(b[n:]) {
				return b[:n]
			}
			break
		}
	}
	return b
}

// fitting returns the beginning of bytes that takes at most so many bytes as JSON, and at least one
// character.
func fitting(b []byte, most int) []byte {
	if calls.SizeOf(validText(b)) <= most {
		return b
	}
	tooLong := sort.Search(len(b), func(n int) bool { return calls.SizeOf(validText(b[:n])) > most })
	_, first := utf8.DecodeRune(b)
	return firstRunes(b[:max(first, tooLong-1)], true)
}

// window keeps some of the bytes that are written to it, and counts all.
type window struct {
	skip int // bytes to drop before the first kept byte
	most int // bytes that are kept
	all  int // bytes that were written
	kept bytes.Buffer
}

// Write implements io.Writer.
func (w *window) Write(b []byte) (int, error) {
	from := min(max(w.skip-w.all, 0), len(b))
	to := min(from+w.most-w.kept.Len(), len(b))
	w.kept.Write(b[from:to])
	w.all += len(b)
	return len(b), nil
}

func (c changeTools) deliverChanges(ctx context.Context, in deliverChangesIn) (deliverChangesOut, error) {
	out := deliverChangesOut{AgentID: in.AgentID}
	to, err := c.destination()
	if err != nil {
		return out, err
	}
	out.Delivered, err = c.agents.Deliver(ctx, in.AgentID, to, in.Commit, c.timeout)
	return out, err
}

// canDeliver reports whether the operator permits deliveries now, at the start of the server.
func (c changeTools) canDeliver() bool {
	if !c.deliver && c.project == nil {
		return false
	}
	_, err := c.destination()
	return err == nil
}

// destination returns where the operator permits deliveries to: without a URL to the origin of
// the agent's repository.
func (c changeTools) destination() (port.Repository, error) {
	if c.deliver {
		return port.Repository{}, nil
	}
	// as it is now
	p := wiring.NewProject(c.project.Env, c.project.Path, c.project.StateDir)
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return port.Repository{}, fmt.Errorf("read where the workflow permits deliveries to: %w", err)
	}
	if !cfg.Repository.Delivers() {
		return port.Repository{}, reconcile.NewError(
			"not_permitted",
			p.Path+" permits no deliveries",
			"ask your user to set repository.deliver there, or to start symphony mcp with --deliver",
		)
	}
	return port.Repository{URL: cfg.Repository.URL, Base: cfg.Repository.Base}, nil
}
