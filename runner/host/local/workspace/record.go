package workspace

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// State is the progress of a workspace, such as "ready".
type State string

// The states of a workspace.
const (
	Creating State = "creating" // not complete: after a crash it is deleted
	Prepared State = "ready"    // after_create succeeded, or there was none
	Removing State = "removing" // on its way into the trash
)

// RunRef names a run across state directories.
type RunRef struct {
	RunID    string `json:"run_id"`
	StateDir string `json:"state_dir"`
}

// Owner identifies the issue and the run that a workspace is acquired for. All fields are
// required.
type Owner struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"identifier"`
	// Project is the tracker's endpoint and project. Workspaces of other projects are never
	// changed.
	Project  string `json:"project"`
	StateDir string `json:"state_dir"` // absolute
	RunID    string `json:"run_id"`
}

// Record describes a workspace. Only the holder of the lease writes it.
type Record struct {
	Owner        // StateDir and RunID name the last run that held the workspace
	Key   string `json:"key"`
	// ID is host.Workspace.ID.
	ID    string `json:"id"`
	State State  `json:"state"`
	// Previous are earlier holders whose processes may still be running, oldest first.
	Previous []RunRef `json:"previous,omitempty"`
	Path     string   `json:"path"`
	// Unsaved is the work because of which the last removal, at UnsavedAt, kept the workspace;
	// empty if there was none. KeptSince is the time of the first removal that kept it since
	// its last run.
	Unsaved   string    `json:"unsaved,omitempty"`
	UnsavedAt time.Time `json:"unsaved_at,omitzero"`
	KeptSince time.Time `json:"kept_since,omitzero"`
	// Outside is the fingerprint of the files in no repository that after_create left (see
	// git.OutsideFiles).
	Outside string `json:"outside,omitempty"`
	// Origin is the repository that the workspace was cloned from; empty if hooks have made
	// it.
	Origin host.Origin `json:"origin,omitzero"`
	// Began is the commit where the work began, as after_create left it (see git.Began).
	// Agents can move every branch of their repository, also of the remote. It is empty if the
	// workspace is older than this field.
	Began string `json:"began,omitempty"`
	// Beside are commits that after_create left beside it, for example in other branches.
	Beside []string `json:"beside,omitempty"`
	// GitDir is the git directory as after_create left it, if it is elsewhere (see git.Elsewhere).
	GitDir string `json:"git_dir,omitempty"`
	// AccountFiles are those of the agent's git, as of the last run.
	git.AccountFiles
	// Restored: an operator brought it back from the trash, and no run used it since.
	Restored bool `json:"restored,omitempty"`
}

// clone returns symphony's knowledge of the clone in the workspace.
func (r Record) clone() git.Clone {
	return git.Clone{
		Origin:       r.Origin,
		Began:        r.Began,
		Beside:       r.Beside,
		Elsewhere:    r.GitDir,
		AccountFiles: r.AccountFiles,
	}
}

const (
	// in Record.Previous; the planner holds an issue long before it crashed this often
	maxPrevious = 8
	maxRecord   = 1 << 20 // bytes
)

// Record returns the record of a key; ok is false if there is none.
func (r *Root) Record(key string) (rec Record, ok bool, err error) {
	b, err := files.ReadRegular(r.record(key), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, false, nil
	}
	if err != nil {
		return rec, false, r.recordFailed(key, err)
	}
	rec, err = parseRecord(b)
	if err != nil {
		return rec, false, r.recordFailed(key, err)
	}
	return rec, true, nil
}

// recordFailed is the error of a record that can't be read.
func (r *Root) recordFailed(key string, err error) error {
	return reconcile.NewError(
		CodeFailed,
		fmt.Sprintf("read the record %s: %v", r.record(key), err),
		"move that workspace and its record away",
	).WithCause(err)
}

// parseRecord reads the output of writeRecord.
func parseRecord(b []byte) (rec Record, err error) {
	if err := json.Unmarshal(b, &rec); err != nil {
		return Record{}, err
	}
	if !slices.Contains([]State{Creating, Prepared, Removing}, rec.State) {
		return Record{}, fmt.Errorf("unknown state %q", rec.State)
	}
	if rec.IssueID == "" || rec.Identifier == "" || rec.ID == "" {
		return Record{}, errors.New("no issue or no id in it")
	}
	return rec, nil
}

// writeRecord replaces the record of rec.Key durably. Only the holder of the lease calls it.
func (r *Root) writeRecord(rec Record) error {
	b, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return files.Failed(err, "write the record of %s", rec.Key)
	}
	err = durable.WriteFile(r.record(rec.Key), append(b, '\n'), 0o600)
	return files.Failed(err, "write the record of %s", rec.Key)
}

func (r *Root) removeRecord(key string) error {
	err := os.Remove(r.record(key))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files.Failed(err, "remove the record of %s", key)
	}
	return files.Failed(durable.SyncDir(r.meta()), "remove the record of %s", key)
}

// List returns the records of all workspaces, in the order of their files' names. It skips
// records that can't be read and joins their errors: the returned records are valid even if err
// is not nil.
func (r *Root) List() (recs []Record, err error) {
	entries, err := os.ReadDir(r.meta())
	if err != nil {
		return nil, files.Failed(err, "read the records of %s", r.Path)
	}
	for _, e := range entries {
		key, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord {
			continue
		}
		rec, ok, readErr := r.Record(key)
		err = errors.Join(err, readErr)
		if ok {
			recs = append(recs, rec)
		}
	}
	return recs, err
}

const (
	maxKey     = 120 // bytes
	suffixSize = 17  // "-" and 16 hex digits
)

var (
	notInKey  = text.Pattern(`[^A-Za-z0-9._-]`)
	hasSuffix = text.Pattern(`-[0-9a-f]{16}$`)
)

// Key is the directory name of an issue (specification 4.2 and 9.5): the identifier with every
// character outside [A-Za-z0-9._-] replaced by "_". If that changed anything, or the
// identifier is empty, starts with a dot, exceeds 120 bytes or looks like a key with a suffix,
// "-" and 16 hex digits of its SHA-256 follow, with the rest cut so that a key never exceeds
// 120 bytes. Different identifiers never share a key.
func Key(identifier string) string {
	plain := notInKey().ReplaceAllString(identifier, "_")
	if plain == identifier && plain != "" && plain[0] != '.' && len(plain) <= maxKey &&
		!hasSuffix().MatchString(plain) {
		return plain
	}
	sum := sha256.Sum256([]byte(identifier))
	return fmt.Sprintf("%s-%x", plain[:min(len(plain), maxKey-suffixSize)], sum[:8])
}

// checkOwner returns an error if the workspace at path belongs to another issue or project
// than o. Inside the same project, the tracker gave an identifier to a second issue: no fault
// of that issue.
func (r Record) checkOwner(path string, o Owner) error {
	if r.IssueID == o.IssueID && r.Project == o.Project {
		return nil
	}
	code := CodeForeign
	hint := "give each project its own workspace.root"
	if r.Project == o.Project {
		code = CodeTaken
		hint = "symphony prune removes the workspace of that issue"
	}
	return reconcile.NewError(code, fmt.Sprintf("%s belongs to issue %s (id %s) of %s, state directory %s",
		path, r.Identifier, r.IssueID, r.Project, r.StateDir), hint)
}

// The codes of this package's errors. Every error is a *reconcile.Error or wraps the error of
// a context.
const (
	CodeInvalidCwd      = "invalid_workspace_cwd"
	CodeGone            = reconcile.CodeWorkspaceGone
	CodeForeign         = reconcile.CodeWorkspaceForeign
	CodeTaken           = "workspace_taken"
	CodeBusy            = reconcile.CodeWorkspaceBusy
	CodeExists          = "already_exists"
	CodeHookFailed      = "hook_failed"
	CodeHookTimeout     = "hook_timeout"
	CodeRootUnusable    = files.CodeRootUnusable
	CodeProjectConflict = "project_conflict"
	CodeFailed          = files.CodeFailed
)

func invalidCwd(path, why string) error {
	return reconcile.NewError(
		CodeInvalidCwd,
		fmt.Sprintf("%s: %s", path, why),
		"move it away",
	)
}
