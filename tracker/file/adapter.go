// Package file is the adapter to a folder of Markdown files, one for each issue, in the format
// of Backlog.md.
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the
// codes of its errors.
//
// # Decisions
//
//   - Every read reads all files: an id is in a file, not in its name. A thousand files take a
//     tenth of a second.
//   - The description is the body without the section of comments, so that a comment is no
//     progress.
//   - Subfolders, hidden files, other extensions, and Markdown without front matter are no
//     issues. A file that looks like an issue but is none is reported as skipped: a
//     symbolic link, a file of more than 1 MiB, front matter that cannot be read, an id in two
//     files.
//   - An id that is missing may be in a file that a program is replacing at this moment, or in
//     a file that cannot be read. So ByIDs looks several times before it reports an issue as
//     gone. It fails if a file is unreadable, and if no issue is left. While the folder
//     contains a new file that is empty or ends before its id, every missing issue counts as
//     malformed.
//   - Beside a folder called tasks, Backlog.md moves finished issues to completed, and
//     discarded ones to archive/tasks. An issue there is finished, whatever its state is.
package file

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Adapter returns the folder as a tracker. It reads the configuration of Backlog.md, if it
// exists.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	t := &tracker{Options: o, settings: readSettings(o.Path)}
	return &reconcile.TrackerAdapter{
		Tracker:  t,
		Name:     "the folder",
		Find:     t.Find,
		Comments: t.Comments,
		Post:     t.Post,
		Edit:     t.Edit,
		Move:     t.Move,
		Create:   t.Create,
		Verify:   t.Verify,
		Tools:    t.tools(),
	}, nil
}

// Candidates implements reconcile.Tracker: the issues in the given states, or in a state that is
// misspelt, the oldest first, and files that are no issues at the end.
func (t *tracker) Candidates(_ context.Context, states []string) ([]reconcile.Issue, error) {
	if len(states) == 0 {
		return []reconcile.Issue{}, nil
	}
	all, err := t.read()
	if err != nil {
		return nil, err
	}
	asked := text.Filter(all.records, func(r *record) bool {
		state := cmp.Or(t.stateMeant(r.issue.State), r.issue.State)
		isState := func(s string) bool { return reconcile.SameState(s, state) }
		return r.fault != nil || slices.ContainsFunc(states, isState)
	})
	issues := text.Map(asked, func(r *record) reconcile.Issue { return t.issue(all, r) })
	slices.SortStableFunc(issues, func(a, b reconcile.Issue) int {
		switch {
		case a.CreatedAt == nil && b.CreatedAt == nil:
			return 0
		case a.CreatedAt == nil:
			return 1
		case b.CreatedAt == nil:
			return -1
		}
		return a.CreatedAt.Compare(*b.CreatedAt)
	})
	return issues, nil
}

// ByIDs implements reconcile.Tracker. An issue that is missing is looked for again until
// patience is over.
func (t *tracker) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return map[string]reconcile.Issue{}, nil
	}
	for began := time.Now(); ; {
		found, complete, err := t.byIDs(ids)
		if complete || time.Since(began) > patience {
			return found, err
		}
		if !sleep(ctx) {
			return nil, ctx.Err()
		}
	}
}

// byIDs reads the issues once. complete is set if each was found.
func (t *tracker) byIDs(ids []string) (found map[string]reconcile.Issue, complete bool, err error) {
	all, err := t.read()
	if err != nil {
		return nil, false, err
	}
	found = make(map[string]reconcile.Issue, len(ids))
	complete = true
	for _, id := range ids {
		r := all.byID(id)
		if r != nil && r.fault == nil && r.issue.ID == id {
			found[id] = t.issue(all, r)
			continue
		}
		complete = false
		if r != nil && r.fault == nil {
			continue // it is written in another way
		}
		if all.unreadable != nil {
			return nil, false, all.unreadable
		}
		if r != nil {
			found[id] = reconcile.Issue{
				ID:         id,
				Identifier: id,
				State:      r.statusSeen,
				Malformed:  r.fault(),
			}
			continue
		}
		if other := all.nameless(); other != nil {
			found[id] = reconcile.Issue{
				ID:         id,
				Identifier: id,
				Malformed:  "no file has this id, and " + other.fault(),
			}
		}
	}
	if len(found)+len(all.records) == 0 {
		return nil, false, reconcile.NewError(
			reconcile.CodeTrackerEmpty,
			t.Path+" contains no issue any more",
			"restore it, as by mounting it or by git stash pop; "+
				"for ten minutes no run is stopped and no issue is released",
		)
	}
	return found, complete, nil
}

// Find returns the issue with an id or file name, in any case. The code of the error is
// issue_not_found if there is none.
func (t *tracker) Find(_ context.Context, ref string) (*reconcile.Issue, error) {
	all, r, err := t.find(t.whole(ref))
	if err != nil {
		return nil, err
	}
	issue := t.issue(all, r)
	return &issue, nil
}

// whole returns the id that a number stands for: for 4 that is TASK-4 or TASK-004, whatever
// its state, if no other id ends with it. Other references come back unchanged.
func (t *tracker) whole(ref string) string {
	all, err := t.read()
	if err != nil {
		return ref
	}
	return all.whole(ref)
}

// whole is tracker.whole in a folder that was read.
func (f *folder) whole(ref string) string {
	number := strings.TrimPrefix(ref, "#")
	if !text.IsNumber(number) || f.byID(ref) != nil || f.byFile(ref) != nil {
		return ref
	}
	var ids []string
	for _, r := range f.records {
		if r.hasNumber(number) {
			ids = append(ids, r.issue.ID)
		}
	}
	if len(ids) != 1 {
		return ref
	}
	return ids[0]
}

// issue completes the issue of a record with the fields that depend on other records.
func (t *tracker) issue(all *folder, r *record) reconcile.Issue {
	issue := r.issue
	if r.fault != nil {
		issue.Malformed = r.fault()
		return issue
	}
	issue.StateMeant = t.stateMeant(issue.State)
	issue.Remarks = slices.Clone(r.remarks)
	for _, id := range r.dependencies {
		ref := t.blocker(all, id)
		if *ref.ID == issue.ID {
			t.Warn(fmt.Sprintf("%s: dependencies: %s is its own id, and ignored: write the id of another issue", r.name, id))
			continue
		}
		issue.BlockedBy = append(issue.BlockedBy, ref)
	}
	isWanted := func(name string) bool { return strings.EqualFold(name, bare(t.Assignee)) }
	switch {
	case slices.ContainsFunc(r.assignees, isWanted):
		issue.Assignee = &reconcile.Assignee{ID: t.Assignee}
	case len(r.assignees) > 0:
		issue.Assignee = &reconcile.Assignee{ID: r.assignees[0]}
	}
	return issue
}

// blocker returns the issue that a dependency names, by its id or its number.
func (t *tracker) blocker(all *folder, id string) reconcile.BlockerRef {
	b := all.byID(all.whole(id))
	if b != nil && b.fault == nil {
		return reconcile.BlockerRef{
			ID:         &b.issue.ID,
			Identifier: &b.issue.Identifier,
			State:      &b.issue.State,
		}
	}
	ref := reconcile.BlockerRef{ID: &id, Identifier: &id}
	if b != nil {
		ref.Mend = "correct " + b.name
		return ref
	}
	ids := text.Map(all.records, func(r *record) string { return r.issue.Identifier })
	meant := suggest.Issue(id, ids)
	if other := all.byFile(id); other != nil {
		meant = other.issue.ID
	}
	if meant != "" {
		ref.Mend = "write " + meant + " instead of " + id
	}
	return ref
}

// Verify checks that the folder can be read, and looks for misspelt names. In a folder of
// Backlog.md a state exists if it is in the configuration or an issue. In another folder any name may
// be meant: so an active state or a label is reported only if no issue has it, and it resembles one that
// the workflow does not name, and that several issues have, or for a label one.
func (t *tracker) Verify(_ context.Context, names reconcile.TrackerNames) (reconcile.TrackerFindings, error) {
	found := reconcile.TrackerFindings{Project: reconcile.TrackerProject{
		ID:   t.Path,
		Name: t.Path,
		Slug: t.Path,
	}}
	all, err := t.read()
	if err != nil {
		return found, err
	}
	for _, name := range all.plain {
		if !strings.EqualFold(name, "README.md") {
			t.Warn(name + " is not an issue" + noFrontMatter + ": " + mendFront)
		}
	}
	states := slices.Clone(t.settings.Statuses)
	labels := []string{}
	for _, r := range all.records {
		states = append(states, r.issue.State)
		labels = append(labels, r.issue.Labels...)
	}
	isComplete := len(t.settings.Statuses) > 0
	found.States = slices.DeleteFunc(unknown(names.States, states, isComplete), func(u reconcile.UnknownName) bool {
		isName := func(s string) bool { return reconcile.SameState(s, u.Name) }
		if isComplete {
			// The first issue that is moved there brings the state into the folder. Init writes this one.
			return isName("Human Review")
		}
		isNear := func(s string) bool { return reconcile.SameState(s, u.Nearest[0]) }
		isOne := len(text.Filter(states, isNear)) == 1 // which may be the misspelt one, as Candidates says
		return isOne || !slices.ContainsFunc(t.Active, isName)
	})
	found.Labels = unknown(names.Labels, labels, false)
	if strings.EqualFold(names.Assignee, "me") {
		found.Assignee = &reconcile.UnknownName{Name: names.Assignee}
	}
	return found, nil
}

// unknown returns the names that are not known. isComplete: known lists every existing name;
// if not, only a name that resembles a known name is reported.
func unknown(names, known []string, isComplete bool) []reconcile.UnknownName {
	var list []reconcile.UnknownName
	others := slices.DeleteFunc(slices.Clone(known), func(k string) bool {
		return k == "" || slices.ContainsFunc(names, func(n string) bool { return reconcile.SameState(n, k) })
	})
	for _, name := range names {
		if slices.ContainsFunc(known, func(k string) bool { return reconcile.SameState(k, name) }) {
			continue
		}
		near := suggest.Near(name, others)
		if isComplete || len(near) > 0 {
			list = append(list, reconcile.UnknownName{Name: name, Nearest: near})
		}
	}
	return list
}

// maxComment bounds a comment of an agent, in bytes.
const maxComment = 64 << 10

// tools returns the agent's tools, which change only the issue that the agent works on.
func (t *tracker) tools() []reconcile.AgentTool {
	states := strings.Join(t.states(), ", ")
	if len(t.Handoff) > 0 {
		states = strings.Join(t.Active, ", ")
	}
	update := agenttool.Change{
		Name:        "issue_update",
		Description: "Move the issue that you work on to another state. States: " + states + ".",
		Argument:    "state",
		Meaning:     "One of: " + states,
		ReadOnly:    t.ReadOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, state string) (string, *reconcile.Created, error) {
			known := t.known(state)
			if known == "" {
				return "", nil, agenttool.Refusal(
					"invalid_input",
					fmt.Sprintf("there is no state %q; states: %s", strings.TrimSpace(state), states),
				)
			}
			answer := text.JSON(map[string]string{"issue": issue.ID, "state": known})
			return string(answer), nil, t.Move(ctx, issue.ID, known)
		},
	}
	comment := agenttool.Change{
		Name:         "issue_comment",
		Description:  "Comment on the issue that you work on, in Markdown.",
		Argument:     "text",
		Meaning:      "The text of the comment",
		CommentsOnly: true,
		ReadOnly:     t.ReadOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, body string) (string, *reconcile.Created, error) {
			body = strings.TrimSpace(body)
			if len(body) > maxComment {
				return "", nil, agenttool.Refusal("invalid_input", "the comment is longer than 64 KiB")
			}
			c, err := t.post(ctx, issue.ID, authorAgent, body)
			answer := text.JSON(map[string]string{"issue": issue.ID, "comment": c.ID})
			return string(answer), &reconcile.Created{Kind: "comment", ID: c.ID}, err
		},
	}
	return []reconcile.AgentTool{update.Tool(), comment.Tool()}
}

// states are the states to which issues can be moved.
func (t *tracker) states() []string {
	var list []string
	for _, state := range slices.Concat(t.Active, t.Others, t.Handoff, t.settings.Statuses, t.Terminal) {
		if !slices.ContainsFunc(list, func(s string) bool { return reconcile.SameState(s, state) }) {
			list = append(list, state)
		}
	}
	return list
}

// stateMeant returns the active state that a person meant with a state that no setting names:
// To Do for To-Do or To Doo; empty for other states.
func (t *tracker) stateMeant(state string) string {
	if state == "" || t.known(state) != "" {
		return ""
	}
	return suggest.Misspelt(state, t.Active)
}

// known returns a state as the workflow spells it; empty if there is none of that name.
func (t *tracker) known(state string) string {
	return text.First(t.states(), func(s string) bool { return reconcile.SameState(s, state) })
}

// Move changes the state of an issue to a state of the list states. The error wraps
// reconcile.ErrGone if the id is in no file of the folder.
func (t *tracker) Move(ctx context.Context, id, state string) error {
	known := t.known(state)
	if known == "" {
		return reconcile.NoState(t.Path, state, t.states())
	}
	return t.change(ctx, id, func(r *record, content []byte) ([]byte, error) {
		if reconcile.SameState(r.issue.State, known) {
			return content, nil
		}
		return t.setState(r, content, known)
	})
}
