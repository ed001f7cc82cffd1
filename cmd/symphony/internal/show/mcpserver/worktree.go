package mcpserver

import (
	"bytes"
	"cmp"
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	port "github.com/symphony-cron/symphony/runner/host"
)

const (
	listedCommits = 50
	defaultDiff   = 32 << 10 // bytes of a diff in a result of read_changes
)

type (
	readChangesIn struct {
		AgentID  string `json:"agentId"`
		Offset   int    `json:"offset,omitempty" jsonschema:"of the diff, in bytes: nextOffset of the last result"`
		Commit   string `json:"commit,omitempty" jsonschema:"with offset: state.commit of the last result; another HEAD is refused"`
		MaxBytes int    `json:"maxBytes,omitempty" jsonschema:"of the diff; default 32768, at most 65536"`
	}
	readChangesOut struct {
		AgentID    string           `json:"agentId"`
		Cwd        string           `json:"cwd"`
		State      port.GitStatus   `json:"state"`
		Commits    []port.GitCommit `json:"commits" jsonschema:"those that the base does not contain, newest first, at most 50"`
		Diff       string           `json:"diff" jsonschema:"since the work left the base; what is not committed follows # Not committed:"`
		DiffBytes  int              `json:"diffBytes" jsonschema:"the length of the whole diff"`
		NextOffset int              `json:"nextOffset,omitempty" jsonschema:"where the rest of the diff begins, if this is not all"`
	}
	deliverChangesIn struct {
		AgentID string `json:"agentId"`
		Commit  string `json:"commit,omitempty" jsonschema:"the one that read_changes has shown; with another HEAD nothing is pushed"`
	}
	deliverChangesOut struct {
		AgentID string `json:"agentId"`
		agents.Delivered
	}
)

// worktrees are the tools about what agents have changed.
type worktrees struct {
	agents  *agents.Agents
	options Options
}

func (t worktrees) addTools(all *tools) {
	addTool(all, "read_changes", reads(), t.read, ""+
		"Show what an agent has changed in its git repository: branch, commits, changed files, diff. "+
		"Use it after a turn, to review the work. Do not use it to follow a running turn: read_events does.")
	addTool(
		all,
		"deliver_changes",
		works(),
		t.deliver,
		"Push the commits of an agent's worktree to its branch in the remote repository. "+
			"Use it when your user wants the reviewed work there. Do not use it during a turn, or without a worktree.",
	)
}

func (t worktrees) read(ctx context.Context, in readChangesIn) (out readChangesOut, err error) {
	one, err := t.agents.Find(ctx, in.AgentID)
	if err != nil {
		return out, err
	}
	out = readChangesOut{AgentID: in.AgentID, Cwd: one.WorkspacePath, Commits: []port.GitCommit{}}
	machine := wiring.ThisMachine()
	q := port.WorkspaceRequest{Path: one.WorkspacePath, Commits: listedCommits}
	found, err := machine.Inspect(ctx, q)
	switch {
	case err != nil:
	case found.Git == nil:
		err = reconcile.NewError(
			"workspace_not_found",
			"there is no git repository at "+one.WorkspacePath,
			"list_agents shows whether the agent works there; a worktree without work is removed when its agent ends",
		)
	case found.Git.Commit != nil:
		q.Commit = *found.Git.Commit
		err = port.CheckCommit(q.Commit, in.Commit)
	}
	if err != nil {
		return out, err
	}
	out.State = *found.Git
	out.Commits = append(out.Commits, found.Commits...)
	most := cmp.Or(min(max(in.MaxBytes, 0), maxRead), defaultDiff)
	diff := &window{skip: max(in.Offset, 0), most: most}
	_, err = machine.Diff(ctx, q, diff)
	out.Diff = string(bytes.ToValidUTF8(diff.kept.Bytes(), []byte("\uFFFD")))
	out.DiffBytes = diff.all
	if end := diff.skip + diff.kept.Len(); end < diff.all && diff.kept.Len() > 0 {
		out.NextOffset = end
	}
	return out, err
}

// window keeps some of the bytes that are written to it, and counts all.
type window struct {
	skip, most, all int
	kept            bytes.Buffer
}

// Write implements io.Writer.
func (w *window) Write(b []byte) (int, error) {
	from := min(max(w.skip-w.all, 0), len(b))
	to := min(from+w.most-w.kept.Len(), len(b))
	w.kept.Write(b[from:to])
	w.all += len(b)
	return len(b), nil
}

func (t worktrees) deliver(ctx context.Context, in deliverChangesIn) (deliverChangesOut, error) {
	to, err := t.destination()
	out := deliverChangesOut{AgentID: in.AgentID}
	if err == nil {
		out.Delivered, err = t.agents.Deliver(ctx, in.AgentID, to, in.Commit, t.options.CallTimeout)
	}
	return out, err
}

// destination is where the operator permits deliveries to: without a URL to the origin of the
// agent's repository.
func (t worktrees) destination() (to port.Repository, err error) {
	if t.options.Deliver {
		return to, nil
	}
	if p := t.options.Project; p != nil {
		cfg, err := wiring.NewProject(p.Env, p.Path, p.StateDir).ConfigWithoutKey()
		if err == nil && cfg.Repository.URL != "" && cfg.Repository.Delivers() {
			return port.Repository{URL: cfg.Repository.URL, Base: cfg.Repository.Base}, nil
		}
	}
	return to, reconcile.NewError("delivery_not_permitted", "the operator has not permitted deliveries",
		"ask your user to start symphony mcp with --deliver, or with a workflow that has repository.url")
}
