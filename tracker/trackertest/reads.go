package trackertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/trackertest/contract"
)

// reads are the rules about reading issues.
var reads = []testCase{
	{"rules that reading alone can check", nil, checkRules},
	{"candidates: those in the states", nil, checkStates},
	{"candidates: order and pages", nil, checkPages},
	{"candidates: a failed page", func(b *backend) bool { return b.FailLaterPage != nil }, checkFailedPage},
	{"no states and no ids: no request", nil, checkNothing},
	{"fields: description, priority, labels", nil, checkFields},
	{"fields: assignee", func(b *backend) bool { return b.Person != "" }, checkAssignee},
	{"blockers with states", func(b *backend) bool { return b.Block != nil }, checkBlockers},
	{"by id: many", nil, checkMany},
	{"by id: finished", nil, checkFinished},
	{"by id: archived", func(b *backend) bool { return b.Archive != nil }, checkArchived},
	{"by id: gone", func(b *backend) bool { return b.Remove != nil }, checkGone},
	{"by id: of another project", func(b *backend) bool { return b.Elsewhere != "" }, checkElsewhere},
	{"malformed", func(b *backend) bool { return b.Malform != nil }, checkMalformed},
	{"find", func(b *backend) bool { return b.Find != nil }, checkFind},
	{"verify", func(b *backend) bool { return b.Verify != nil }, checkVerify},
	{"create", func(b *backend) bool { return b.Create != nil }, checkCreate},
	{"concurrent reads", nil, checkConcurrent},
}

func checkRules(b *backend) {
	id := b.add(Issue{
		Title:       "With everything",
		Description: "Text.",
		Priority:    1,
		Labels:      []string{"UI Work", "Bug"},
		Assignee:    b.Person,
	})
	for n := range 3 {
		b.add(Issue{Title: fmt.Sprint("Number ", n), State: b.Active[n%len(b.Active)]})
	}
	if b.Block != nil {
		b.Block(b.T, id, b.add(Issue{}))
	}
	if b.Comment != nil {
		// not before the issue was created
		next := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
		b.Comment(b.T, id, b.Person, "One.", next)
		b.Comment(b.T, id, b.Person, "Two.", next.Add(time.Minute))
	}
	report := contract.Check(b.ctx(), b.TrackerAdapter, b.Active, time.Now())
	for _, v := range report.Violations {
		b.Errorf("%s: %s (%s)", v.Rule, v.Message, v.Why)
	}
	test.Equal(b.T, "issues checked", report.Issues, len(b.candidates()))
}

func checkStates(b *backend) {
	first := b.add(Issue{})
	want := []string{first}
	for _, state := range b.Active[1:] {
		want = append(want, b.add(Issue{State: state}))
	}
	done := b.add(Issue{State: b.Terminal})
	test.Equal(b.T, "candidates", idsOf(b.candidates()), b.inOrder(want))
	found, err := b.Candidates(b.ctx(), b.Active[:1])
	if err != nil || !slices.Equal(idsOf(found), []string{first}) || found[0].State != b.Active[0] {
		b.Errorf("in one state: %+v, %v", found, err)
	}
	found, err = b.Candidates(b.ctx(), []string{b.Terminal})
	if err != nil || !slices.Equal(idsOf(found), []string{done}) {
		b.Errorf("in the terminal state: %+v, %v", found, err)
	}
	b.Move(b.T, first, b.Terminal)
	test.Equal(b.T, "candidates after a move", idsOf(b.candidates()), b.inOrder(want[1:]))
	b.Move(b.T, first, b.Active[0])
	test.Equal(b.T, "candidates after the way back", idsOf(b.candidates()), b.inOrder(want))
}

func checkPages(b *backend) {
	var ids []string
	for n := range 2*b.Page + 20 {
		ids = append(ids, b.add(Issue{Title: fmt.Sprint("Number ", n)}))
	}
	before := b.requests()
	test.Equal(b.T, "candidates", idsOf(b.candidates()), b.inOrder(ids))
	if made := b.requests() - before; b.Page > 0 && b.Requests != nil && made != 3 {
		b.Errorf("%d requests for three pages", made)
	}
}

func (b *backend) requests() int {
	if b.Requests == nil {
		return 0
	}
	return b.Requests()
}

func checkFailedPage(b *backend) {
	for range b.Page + 10 {
		b.add(Issue{})
	}
	b.FailLaterPage(b.T)
	if found, err := b.Candidates(b.ctx(), b.Active); err == nil || len(found) > 0 {
		b.Errorf("%d candidates, %v; a list that is not complete must be an error", len(found), err)
	}
}

func checkNothing(b *backend) {
	b.add(Issue{})
	before := b.requests()
	for _, none := range [][]string{nil, {}, {""}} {
		if found, err := b.Candidates(b.ctx(), none); err != nil || len(found) > 0 {
			b.Errorf("candidates in the states %q: %+v, %v", none, found, err)
		}
		if found, err := b.ByIDs(b.ctx(), none); err != nil || len(found) > 0 {
			b.Errorf("issues with the ids %q: %+v, %v", none, found, err)
		}
	}
	test.Equal(b.T, "requests", b.requests(), before)
}

func checkFields(b *backend) {
	full := b.add(Issue{
		Title:       "Häuser & <Gärten>",
		Description: "One.\n\n- two\n",
		Priority:    1,
		Labels:      []string{"UI Work", "Bug"},
	})
	second := b.add(Issue{Priority: 2})
	plain := b.add(Issue{})
	read := b.byIDs(full, second, plain)
	i := read[full]
	test.Equal(b.T, "title", i.Title, "Häuser & <Gärten>")
	if i.Description == nil || strings.TrimSpace(*i.Description) != "One.\n\n- two" {
		b.Errorf("description %v", i.Description)
	}
	own := func(l string) bool { return slices.Contains(b.OwnLabels, l) }
	test.Equal(
		b.T,
		"labels, sorted",
		slices.DeleteFunc(slices.Sorted(slices.Values(i.Labels)), own),
		[]string{"bug", "ui work"},
	)
	for id, want := range map[string]int{full: 1, second: 2, plain: 0} {
		// A tracker may call no priority 0.
		if p := read[id].Priority; p == nil && want != 0 || p != nil && *p != want {
			b.Errorf("priority %v, want %d", p, want)
		}
	}
	if i := read[plain]; i.Assignee != nil || i.Elsewhere || i.Archived || i.LastCommentAt != nil {
		b.Errorf("an issue with a title only: %+v", i)
	}
}

func checkAssignee(b *backend) {
	theirs := b.issue(b.add(Issue{Assignee: b.Person})).Assignee
	if theirs == nil || theirs.ID != b.Person && theirs.Email != b.Person || theirs.IsMe {
		b.Errorf("assigned to %q: %+v", b.Person, theirs)
	}
	if b.Me == "" {
		return
	}
	if mine := b.issue(b.add(Issue{Assignee: b.Me})).Assignee; mine == nil || !mine.IsMe {
		b.Errorf("assigned to the key's own user: %+v", mine)
	}
}

func checkBlockers(b *backend) {
	open := b.add(Issue{})
	done := b.add(Issue{State: b.Terminal})
	issue := b.add(Issue{})
	b.Block(b.T, issue, open, done)
	want := map[string]string{open: cmp.Or(b.OpenBlocker, b.Active[0]), done: b.Terminal}
	for _, i := range append(b.candidates(), b.issue(issue)) {
		if i.ID != issue {
			continue
		}
		got := map[string]string{}
		for _, ref := range i.BlockedBy {
			if ref.ID == nil || ref.Identifier == nil || ref.State == nil {
				b.Fatalf("blocker without id, identifier or state: %+v", ref)
			}
			got[*ref.ID] = *ref.State
		}
		test.Equal(b.T, "states of the blockers", got, want)
	}
	b.Move(b.T, open, b.Terminal)
	for _, ref := range b.issue(issue).BlockedBy {
		if *ref.State != b.Terminal {
			b.Errorf("blocker %s is %s after its end", *ref.Identifier, *ref.State)
		}
	}
}

func checkMany(b *backend) {
	var ids []string
	for range 2*b.Batch + 12 {
		ids = append(ids, b.add(Issue{}))
	}
	before := b.requests()
	if found := b.byIDs(append(ids, ids[0], "")...); len(found) != len(ids) {
		b.Errorf("%d issues, want %d", len(found), len(ids))
	}
	if made := b.requests() - before; b.Batch > 0 && b.Requests != nil && made != 3 {
		b.Errorf("%d requests for three batches", made)
	}
}

func checkFinished(b *backend) {
	id := b.add(Issue{State: b.Terminal})
	if i := b.issue(id); i.State != b.Terminal || i.Elsewhere {
		b.Errorf("finished: %+v", i)
	}
}

func checkArchived(b *backend) {
	id := b.add(Issue{})
	b.Archive(b.T, id)
	if found := b.candidates(); len(found) > 0 {
		b.Errorf("candidates %+v", found)
	}
	if i := b.issue(id); !i.Archived &&
		reconcile.NormalizeState(i.State) != reconcile.NormalizeState(b.Terminal) {
		b.Errorf("neither archived nor in a terminal state: %+v", i)
	}
}

func checkGone(b *backend) {
	here := b.add(Issue{})
	gone := b.add(Issue{})
	b.Remove(b.T, gone)
	if found := b.byIDs(gone, here); len(found) != 1 || found[here].ID != here {
		b.Errorf("found %+v", found)
	}
	if found := b.byIDs(gone); len(found) != 0 {
		b.Errorf("found %+v", found)
	}
	test.Equal(b.T, "candidates", idsOf(b.candidates()), []string{here})
}

func checkElsewhere(b *backend) {
	here := b.add(Issue{})
	if i, found := b.byIDs(b.Elsewhere, here)[b.Elsewhere]; found && !i.Elsewhere {
		b.Errorf("an issue of another project: %+v", i)
	}
	test.Equal(b.T, "candidates", idsOf(b.candidates()), []string{here})
}

func checkMalformed(b *backend) {
	good := b.add(Issue{})
	bad := b.add(Issue{})
	word := b.Malform(b.T, bad)
	skips := 0
	for _, i := range b.candidates() {
		switch {
		case i.Malformed == "" && i.ID != good:
			b.Errorf("the malformed record is the candidate %+v", i)
		case i.Malformed != "":
			skips++
			if !strings.Contains(i.ID+" "+i.Identifier+" "+i.Malformed, word) {
				b.Errorf("%+v does not name %s", i, word)
			}
			b.noSecret(i.Malformed)
		}
	}
	test.Equal(b.T, "skips", skips, 1)
	found, err := b.ByIDs(b.ctx(), []string{good, bad})
	if err == nil && found[good].ID == good && strings.Contains(found[bad].Malformed, word) {
		return
	}
	if err == nil || len(found) > 0 || !strings.Contains(err.Error(), word) ||
		reconcile.ClassOf(err) != reconcile.ClassTracker {
		b.Errorf("by id: %+v, %v; want an error of the tracker that names %s", found, err, word)
	}
}

func checkFind(b *backend) {
	b.add(Issue{})
	for _, name := range []string{"none-99", "", "no such issue/../x"} {
		found, err := b.Find(b.ctx(), name)
		b.wantError(err, issueNotFound, "")
		if found != nil {
			b.Errorf("find %q: %+v", name, found)
		}
	}
}

func checkVerify(b *backend) {
	found, err := b.Verify(
		b.ctx(),
		reconcile.TrackerNames{States: append(slices.Clone(b.Active), b.Terminal)},
	)
	if err != nil || len(found.States) > 0 {
		b.Errorf("states that exist: %+v, %v", found, err)
	}
}

func checkCreate(b *backend) {
	made, err := b.Create(b.ctx(), reconcile.NewIssue{
		Title: "Written by symphony",
		State: b.Active[0],
	})
	test.OK(b.T, err)
	if i := b.issue(made.ID); i.Title != "Written by symphony" || i.State != b.Active[0] ||
		i.Identifier != made.Identifier {
		b.Errorf("created %+v, read %+v", made, i)
	}
}

func checkConcurrent(b *backend) {
	id := b.add(Issue{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			found, err := b.Candidates(b.ctx(), b.Active)
			read, idErr := b.ByIDs(b.ctx(), []string{id})
			if b.Budget != nil {
				b.Budget()
			}
			if err != nil || idErr != nil || len(found) != 1 || len(read) != 1 {
				b.Error(found, err, read, idErr)
			}
		})
	}
	wg.Wait()
}
