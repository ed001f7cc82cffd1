package gitlab

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest"
)

// opened opens a merge request of a branch with a commit, and returns both.
func (p *place) opened(body string) (number int, commit string) {
	p.t.Helper()
	commit = p.commit("work")
	made := test.Must(p.Open(p.t.Context(), reconcile.NewPull{
		Branch: "work",
		Commit: commit,
		Title:  "GL-1: Work",
		Body:   body,
	}))
	number, _ = p.Number(made.URL)
	return number, commit
}

func (p *place) one(number int) reconcile.Pull {
	p.t.Helper()
	return test.Must(p.Read(p.t.Context(), []int{number}))[number]
}

// Neither the text of a merge request nor a comment on it is carried out.
func TestQuickActions(t *testing.T) {
	p := newPlace(t)
	number, _ := p.opened("Done.\n/merge\r\n/close")
	test.OK(t, p.Forge.Comment(t.Context(), number, "mark", "/close\nmark"))
	m := p.Merges()[0]
	test.Equal(t, "state", m.State, "opened")
	test.Equal(t, "text", m.Body, "Done.\n /merge\r\n /close")
	test.Equal(t, "comment", m.Notes[0].Body, " /close\nmark")
}

// The jobs of the newest pipeline are the checks, whose failures say what can be run again.
func TestJobs(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	p.SetJob(commit, gitlabtest.Job{Name: "lint", State: "failed", AllowFailure: true})
	p.SetJob(commit, gitlabtest.Job{Name: "deploy", State: "manual"})
	p.SetJob(commit, gitlabtest.Job{Name: "old", State: "canceled"})
	id := p.SetJob(commit, gitlabtest.Job{
		Name:  "test",
		State: "failed",
		Log: "section_start:1:step[collapsed=true]\r\x1b[0KStep\n\x1b[31;1mFAIL\x1b[0;m x\r\n" +
			"10%\r50%\r100%\nsection_end:2:step\r\x1b[0K\n",
	})
	p.SetJob(commit, gitlabtest.Job{Name: "quality", State: "success", Reported: true})
	checks := p.one(number).Checks
	states := text.Map(checks.List, func(c reconcile.Check) string { return c.Name + " " + c.State })
	test.Equal(t, "checks", states, []string{
		"deploy open", "lint skipped", "old open", "quality success", "test failure",
	})
	failed := checks.List[4]
	test.Equal(t, "all", checks.State, reconcile.CheckFailure)
	test.Equal(t, "the job", failed.Job, id)
	log := test.Must(p.ReadLog(t.Context(), failed.Job))
	test.Equal(t, "log", log, "Step\nFAIL x\n100%\n\n")
	test.OK(t, p.Rerun(t.Context(), failed.Run))
	again := p.one(number).Checks
	test.Equal(t, "after the rerun", again.State, reconcile.CheckPending)
	if again.List[4].Job == failed.Job {
		t.Error("the job has not begun anew")
	}
	_, err := p.ReadLog(t.Context(), again.List[4].Job)
	test.ErrorIs(t, "a log of a job that has not begun", err, reconcile.ErrGone)
}

// Of more jobs than are read, those that have failed are found.
func TestManyJobs(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	for n := range reconcile.MaxChecksRead + 1 {
		p.SetJob(commit, gitlabtest.Job{Name: fmt.Sprintf("test %04d", n), State: "success"})
	}
	p.SetJob(commit, gitlabtest.Job{Name: "the last", State: "failed"})
	checks := p.one(number).Checks
	test.Equal(t, "all", checks.State, reconcile.CheckFailure)
	names := text.Map(checks.List, func(c reconcile.Check) string { return c.Name + " " + c.State })
	test.Equal(t, "the failed one is named", slices.Contains(names, "the last failure"), true)
}

// The pipeline of an earlier commit says nothing about the present one.
func TestPipelineOfEarlierCommit(t *testing.T) {
	p := newPlace(t)
	number, first := p.opened("Text.")
	count := func(commit string) {
		test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.PipelineOf = commit }))
	}
	for _, state := range []string{"success", "failed"} {
		p.SetJob(first, gitlabtest.Job{Name: "test", State: state})
		count(first)
		p.commit("work")
		test.Equal(t, "checks after "+state, len(p.one(number).Checks.List), 0)
	}
	merged := p.git("commit-tree", "main^{tree}", "-m", "merged", "-p", "main", "-p", "work")
	p.SetJob(merged, gitlabtest.Job{Name: "test", State: "success", Ref: "refs/merge-requests/1/merge"})
	count(merged)
	test.Equal(t, "with the merged result", p.one(number).Checks.State, reconcile.CheckSuccess)
	p.commit("work")
	test.Equal(t, "checks after another push", len(p.one(number).Checks.List), 0)
}

// A merge train tries a merge request together with others. Its pipelines say nothing about this one,
// even if they are of the same commit: what counts is the newest pipeline before.
func TestMergeTrain(t *testing.T) {
	const train = "refs/merge-requests/1/train"
	p := newPlace(t)
	number, commit := p.opened("Text.")
	state := func() string { return p.one(number).Checks.State }
	p.SetJob(commit, gitlabtest.Job{Name: "test", State: "failed"})
	p.SetJob(commit, gitlabtest.Job{Name: "test", State: "success", Ref: train})
	test.Equal(t, "of the same commit", state(), reconcile.CheckFailure)
	merged := p.git("commit-tree", "main^{tree}", "-m", "merged", "-p", "main", "-p", "work")
	p.SetJob(merged, gitlabtest.Job{Name: "test", State: "success", Ref: "refs/merge-requests/1/merge"})
	together := p.git("commit-tree", "main^{tree}", "-m", "train", "-p", "main", "-p", "work")
	p.SetJob(together, gitlabtest.Job{Name: "test", State: "failed", Ref: train})
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.PipelineOf = together }))
	test.Equal(t, "of the train's commit", state(), reconcile.CheckSuccess)
}

// Of a commit with very many pipelines only the newest counts, and what other programs reported.
func TestManyPipelines(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	for i := range 140 {
		if i == 80 {
			p.SetJob(commit, gitlabtest.Job{Name: "quality", State: "success", Reported: true})
		}
		p.SetJob(commit, gitlabtest.Job{Name: "old", State: "failed", Ref: "v" + strconv.Itoa(i)})
	}
	p.SetJob(commit, gitlabtest.Job{Name: "test", State: "success"})
	names := text.Map(p.one(number).Checks.List, func(c reconcile.Check) string { return c.Name })
	test.Equal(t, "checks", names, []string{"quality", "test"})
}

// Of 3,000 checks of a commit the first 2,000 are read and 500 kept, with those that have failed.
func TestManyChecks(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	for n := range 3000 {
		state := "success"
		if n == 1900 {
			state = "failed"
		}
		p.SetJob(commit, gitlabtest.Job{Name: "job " + strconv.Itoa(n), State: state})
	}
	p.ClearLog()
	checks := p.one(number).Checks
	isFailed := func(c reconcile.Check) bool { return c.State == reconcile.CheckFailure }
	test.Equal(t, "checks", []any{len(checks.List), checks.Cut, checks.State, text.First(checks.List, isFailed).Name},
		[]any{reconcile.MaxChecks, true, reconcile.CheckFailure, "job 1900"})
	if n := len(p.Log()); n > 40 {
		t.Errorf("%d requests", n)
	}
}

// Of a log of 200 MB only the end is kept, without the colours in it.
func TestLargeLog(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lines := []byte(strings.Repeat("\x1b[32mok\x1b[0m 12345678901234567890\n", 3000))
		for sent := 0; sent < 200<<20; sent += len(lines) {
			_, _ = w.Write(lines)
		}
		_, _ = w.Write([]byte("\x1b[31mFAIL\x1b[0m\n"))
	}))
	t.Cleanup(s.Close)
	f := test.Must(Adapter(transport.ForgeOptions{
		Options:    transport.Options{Endpoint: s.URL + "/api/v4", Key: testToken},
		Repository: testProject,
	}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	log := test.Must(f.ReadLog(t.Context(), 1))
	runtime.ReadMemStats(&after)
	if len(log) > reconcile.MaxLog || !strings.HasSuffix(log, "ok 12345678901234567890\nFAIL\n") {
		t.Errorf("%d bytes, at the end %q", len(log), log[max(0, len(log)-100):])
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
		t.Errorf("%d MB were used", used>>20)
	}
}

// A pipeline that can't begin has failed, although it has no job.
func TestBrokenPipeline(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	p.BreakPipeline(commit)
	checks := p.one(number).Checks
	test.Equal(t, "all", checks.State, reconcile.CheckFailure)
	test.Equal(t, "its name", checks.List[0].Name, "pipeline")
}

// A review has the notes that a person wrote with a verdict, at the commit of that time. What is
// resolved, and what symphony has written, is none; what quotes symphony is one.
func TestReviews(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	test.OK(t, p.Forge.Comment(t.Context(), number, "<!-- symphony:x -->", "Hello.\n\n<!-- symphony:x -->"))
	test.OK(t, p.Review(number, gitlabtest.Reader, "commented", time.Hour, gitlabtest.Note{Body: "Old."}))
	test.OK(t, p.Review(
		number, gitlabtest.Writer, "changes_requested", 10*time.Minute,
		gitlabtest.Note{Body: "Please change this.", File: "x.go", Line: 3},
		gitlabtest.Note{Body: "Done?", File: "x.go", Line: 4, Resolved: true},
		gitlabtest.Note{Body: "> <!-- symphony:x -->\n\nIn all."},
	))
	reviews := p.one(number).Reviews
	test.Equal(t, "reviews", len(reviews), 2)
	r := reviews[1]
	test.Equal(t, "the review", []any{r.Author, r.State, r.Writer, r.Body, r.Commit},
		[]any{gitlabtest.Writer, "changes_requested", true, "> <!-- symphony:x -->\n\nIn all.", commit})
	test.Equal(t, "its lines", r.Comments, []reconcile.ReviewComment{{File: "x.go", Line: 3, Body: "Please change this."}})
	p.commit("work")
	r = p.one(number).Reviews[1]
	test.Equal(t, "its commit after a push", r.Commit, commit)
	test.Equal(t, "its line after a push", r.Comments[0].Line, 0)
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.Reviewers[gitlabtest.Writer] = "reviewed" }))
	test.Equal(t, "taken back", p.one(number).Reviews[1].State, "dismissed")
}

// What a person writes after a verdict is another review, so that the verdict keeps its commit.
func TestNoteAfterVerdict(t *testing.T) {
	p := newPlace(t)
	number, first := p.opened("Text.")
	test.OK(t, p.Review(number, gitlabtest.Writer, "approved", time.Minute, gitlabtest.Note{Body: "Good."}))
	second := p.commit("work")
	test.OK(t, p.Review(number, gitlabtest.Writer, "commented", 0, gitlabtest.Note{Body: "Please add a test."}))
	var said [][]string
	for _, r := range p.one(number).Reviews {
		said = append(said, []string{r.State, r.Body, r.Commit})
	}
	test.Equal(t, "reviews", said, [][]string{
		{"approved", "Good.", first},
		{"commented", "Please add a test.", second},
	})
}

// A review is the same one after a part of it was resolved.
func TestResolvedNotes(t *testing.T) {
	p := newPlace(t)
	number, _ := p.opened("Text.")
	test.OK(t, p.Review(number, gitlabtest.Writer, "commented", 0,
		gitlabtest.Note{Body: "First.", File: "x.go", Line: 3},
		gitlabtest.Note{Body: "Second.", File: "x.go", Line: 4},
	))
	before := p.one(number).Reviews
	resolve := func(i int) {
		test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.Notes[i].Resolved = true }))
	}
	resolve(0)
	after := p.one(number).Reviews
	test.Equal(t, "reviews", len(after), 1)
	test.Equal(t, "its id", after[0].ID, before[0].ID)
	test.Equal(t, "its lines", after[0].Comments, before[0].Comments[1:])
	resolve(1)
	test.Equal(t, "reviews without an open note", len(p.one(number).Reviews), 0)
}

// A verdict of which GitLab has no note of its own counts, too.
func TestVerdictWithoutNote(t *testing.T) {
	p := newPlace(t)
	number, _ := p.opened("Text.")
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) {
		m.Approvals = map[string]time.Time{gitlabtest.Writer: time.Now()}
	}))
	reviews := p.one(number).Reviews
	test.Equal(t, "reviews", len(reviews), 1)
	test.Equal(t, "its state", reviews[0].State, "approved")
}

// What keeps a merge request from being merged is known.
func TestMergeStatus(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	test.Equal(t, "just after a push", p.one(number).Mergeable, "unknown")
	test.Equal(t, "then", p.one(number).Mergeable, "mergeable")
	p.NeedsApprovals = 1
	rules := test.Must(p.ReadMerge(t.Context(), number))
	test.Equal(t, "an approval is missing", rules.Missing, true)
	m := reconcile.Merging{Number: number, Head: commit, Method: "merge"}
	err := p.Merge(t.Context(), m)
	if !errors.Is(err, reconcile.ErrRejected) || !strings.Contains(err.Error(), "not_approved") {
		t.Errorf("error %v", err)
	}
	p.NeedsApprovals = 0
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.MergeError = "a hook refused it" }))
	test.Contains(t, "a hook", p.Merge(t.Context(), m).Error(), "Branch cannot be merged (mergeable: a hook refused it)")
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.Conflict = true }))
	test.Equal(t, "with a conflict", p.one(number).Mergeable, "conflicting")
}

// GitLab merges later what lacks an approval or waits for its pipeline, and nothing that conflicts.
func TestAutoMerge(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	p.one(number)
	m := reconcile.Merging{Number: number, Head: commit, Method: "squash"}
	conflict := func(is bool) {
		test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.Conflict = is }))
	}
	conflict(true)
	_, err := p.ArmMerge(t.Context(), m)
	test.ErrorIs(t, "with a conflict", err, reconcile.ErrRejected)
	conflict(false)
	p.NeedsGreen = true
	p.SetJob(commit, gitlabtest.Job{Name: "test", State: "running"})
	test.Equal(t, "the pipeline is missing", test.Must(p.ReadMerge(t.Context(), number)).Missing, true)
	test.Equal(t, "merged at once", test.Must(p.ArmMerge(t.Context(), m)), false)
	test.Equal(t, "auto-merge", p.one(number).AutoMerge, reconcile.AutoMergeOn)
	second := p.commit("work")
	p.one(number)
	test.Equal(t, "auto-merge after a push", p.one(number).AutoMerge, reconcile.AutoMergeOff)
	_, err = p.ArmMerge(t.Context(), m)
	test.ErrorIs(t, "the commit before", err, reconcile.ErrLater)
	p.SetJob(second, gitlabtest.Job{Name: "test", State: "success"})
	p.NeedsApprovals = 1
	m.Head = second
	test.Equal(t, "merged without an approval", test.Must(p.ArmMerge(t.Context(), m)), false)
	test.OK(t, p.Review(number, gitlabtest.Writer, "approved", 0))
	test.Equal(t, "then", p.one(number).State, reconcile.PullMerged)
}

// An older GitLab refuses auto-merge while no pipeline is at work: if nothing is missing any more,
// the next pass merges.
func TestAutoMergeWithoutPipeline(t *testing.T) {
	p := newPlace(t)
	p.WaitsForPipelines = true
	number, commit := p.opened("Text.")
	p.one(number)
	m := reconcile.Merging{Number: number, Head: commit, Method: "squash"}
	_, err := p.ArmMerge(t.Context(), m)
	test.ErrorIs(t, "nothing to wait for", err, reconcile.ErrLater)
	p.NeedsApprovals = 1
	_, err = p.ArmMerge(t.Context(), m)
	test.ErrorIs(t, "an approval is missing", err, reconcile.ErrRejected)
	p.NeedsApprovals = 0
	test.Equal(t, "is something missing", test.Must(p.ReadMerge(t.Context(), number)).Missing, false)
	test.OK(t, p.Merge(t.Context(), m))
}

// In a project with merge trains nothing is merged past the train.
func TestArmOnMergeTrain(t *testing.T) {
	p := newPlace(t)
	p.MergeTrains = true
	number, commit := p.opened("Text.")
	p.one(number)
	test.Equal(t, "a queue", test.Must(p.ReadMerge(t.Context(), number)).Queue, true)
	m := reconcile.Merging{Number: number, Head: commit, Method: "squash"}
	p.ClearLog()
	for range 2 {
		test.Equal(t, "merged at once", test.Must(p.ArmMerge(t.Context(), m)), false)
	}
	boarded := 0
	for _, r := range p.Log() {
		test.Lacks(t, "a request", r.String(), "/merge?")
		if strings.HasSuffix(r.Path, fmt.Sprint("/merge_trains/merge_requests/", number)) {
			boarded++
		}
	}
	test.Equal(t, "requests for the train", boarded, 1)
	test.Equal(t, "on the train", p.one(number).AutoMerge, reconcile.AutoMergeOn)
	test.OK(t, p.DisarmMerge(t.Context(), number))
	test.Equal(t, "off the train", p.one(number).AutoMerge, reconcile.AutoMergeOff)
	_, err := p.ArmMerge(t.Context(), reconcile.Merging{Number: number, Head: strings.Repeat("1", 40), Method: "squash"})
	test.ErrorIs(t, "another commit", err, reconcile.ErrLater)
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.Conflict = true }))
	_, err = p.ArmMerge(t.Context(), m)
	test.ErrorIs(t, "with a conflict", err, reconcile.ErrRejected)
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.Conflict = false }))
	p.NeedsApprovals = 1
	test.Must(p.ArmMerge(t.Context(), m))
	test.OK(t, p.Review(number, gitlabtest.Writer, "approved", 0))
	test.Equal(t, "while the train is at work", p.one(number).State, "open")
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.TrainPassed = true }))
	test.Equal(t, "when it has passed", p.one(number).State, reconcile.PullMerged)
}

// Releases of GitLab refuse a merge, and the end of an auto-merge, with 405, 406 or 422.
func TestRefusalsOfReleases(t *testing.T) {
	for name, is422 := range map[string]bool{"405 and 406": false, "422": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.Unprocessable = is422
			p.WaitsForPipelines = true
			number, commit := p.opened("Text.")
			m := reconcile.Merging{Number: number, Head: commit, Method: "squash"}
			test.ErrorIs(t, "before GitLab has looked at it", p.Merge(t.Context(), m), reconcile.ErrLater)
			p.one(number)
			_, err := p.ArmMerge(t.Context(), m)
			test.ErrorIs(t, "nothing to wait for", err, reconcile.ErrLater)
			p.NeedsApprovals = 1
			_, err = p.ArmMerge(t.Context(), m)
			test.ErrorIs(t, "an approval is missing", err, reconcile.ErrRejected)
			test.OK(t, p.DisarmMerge(t.Context(), number))
			p.NeedsApprovals = 0
			test.OK(t, p.Merge(t.Context(), m))
			test.OK(t, p.DisarmMerge(t.Context(), number))
		})
	}
}

// An auto-merge that GitLab does not end is an error: a commit must not be pushed that it would merge.
func TestDisarmRefused(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	p.one(number)
	p.NeedsApprovals = 1
	m := reconcile.Merging{Number: number, Head: commit, Method: "squash"}
	test.Must(p.ArmMerge(t.Context(), m))
	test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.Begun = true }))
	test.ErrorIs(t, "the error", p.DisarmMerge(t.Context(), number), reconcile.ErrRejected)
}

// Projects whose history is linear, or nearly so, take only a branch that contains its base. A merge
// of the base makes it so; without a squash that merge would be in a history without merges.
func TestUpToDate(t *testing.T) {
	p := newPlace(t)
	number, commit := p.opened("Text.")
	p.commit("main")
	p.one(number)
	test.Equal(t, "behind", test.Must(p.ReadMerge(t.Context(), number)).Behind, false)
	type rules struct{ Behind, Linear bool }
	read := func() rules {
		r := test.Must(p.ReadMerge(t.Context(), number))
		return rules{r.Behind, r.Linear}
	}
	p.MergeMethod = "rebase_merge"
	test.Equal(t, "with merge commits", read(), rules{Behind: true})
	m := reconcile.Merging{Number: number, Head: commit, Method: "merge"}
	test.ErrorIs(t, "a merge", p.Merge(t.Context(), m), reconcile.ErrBehind)
	_, err := p.ArmMerge(t.Context(), m)
	test.ErrorIs(t, "a later merge", err, reconcile.ErrBehind)
	p.MergeMethod = "ff"
	test.Equal(t, "fast-forward only", read(), rules{Behind: true, Linear: true})
	m.Head = p.git("commit-tree", "main^{tree}", "-m", "merged", "-p", "work", "-p", "main")
	p.git("update-ref", "refs/heads/work", m.Head)
	p.one(number)
	test.Equal(t, "after a merge of the base", read(), rules{Linear: true})
	m.Method = "squash"
	test.OK(t, p.Merge(t.Context(), m))
	test.Equal(t, "merges in the base", p.git("rev-list", "--merges", "--count", "main"), "0")
}

// Who may merge depends on the base, if that is protected.
func TestMayMerge(t *testing.T) {
	p := newPlace(t)
	p.commit("other")
	may := func(base string) bool { return test.Must(p.MayMerge(t.Context(), base)) }
	test.Equal(t, "into the default branch", may(""), true)
	p.MaintainersMerge = true
	test.Equal(t, "into a protected branch", may(""), false)
	test.Equal(t, "into it by name", may("main"), false)
	test.Equal(t, "into another", may("other"), true)
	number, commit := p.opened("Text.")
	p.one(number)
	err := p.Merge(t.Context(), reconcile.Merging{Number: number, Head: commit, Method: "merge"})
	e, _ := errors.AsType[*reconcile.Error](err)
	if !errors.Is(err, reconcile.ErrRejected) || !strings.Contains(e.Hint, "let the account of $TEAM_TOKEN merge") {
		t.Errorf("error %v", err)
	}
}

// A project that was renamed is an error that names it.
func TestRenamedProject(t *testing.T) {
	p := newPlace(t)
	number, _ := p.opened("Text.")
	p.Rename(testProject, "team/shops/web")
	for name, call := range map[string]func() error{
		"read":    func() error { _, err := p.Read(t.Context(), []int{number}); return err },
		"comment": func() error { return p.Forge.Comment(t.Context(), number, "mark", "mark") },
		"rerun":   func() error { return p.Rerun(t.Context(), 1) },
	} {
		err := call()
		e, _ := errors.AsType[*reconcile.Error](err)
		if e == nil || e.Code != reconcile.CodeForgeMoved || !strings.Contains(e.Message, "team/shops/web") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
