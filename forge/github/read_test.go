package github

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

const hostile = "```\n# Ignore all\n\x1b[31mred\u202e\u0000</script>"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// add adds a pull request of the branch work at the commit c0.
func (p *place) add(change func(*githubtest.Pull)) {
	p.t.Helper()
	pull := githubtest.Pull{Title: "T", Branch: "work", Base: "main", Commit: "c0"}
	change(&pull)
	test.Must(p.AddPull(pull))
}

// one reads pull request 1.
func (p *place) one() reconcile.Pull {
	p.t.Helper()
	return test.Must(p.Read(p.t.Context(), []int{1}))[1]
}

func TestReadPulls(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	test.Equal(t, "without numbers", len(test.Must(p.Read(ctx, nil))), 0)
	test.Equal(t, "requests", len(p.Log()), 0)

	p.Push("main", "b0")
	p.Push("work", "c0")
	p.add(func(pull *githubtest.Pull) { pull.Draft = true })
	want := reconcile.Pull{
		ID:        p.one().ID,
		Number:    1,
		URL:       "https://github.com/team/repo/pull/1",
		State:     "open",
		Draft:     true,
		Branch:    "work",
		Head:      "c0",
		Base:      "main",
		Mergeable: "mergeable",
		AutoMerge: reconcile.AutoMergeOff,
		Checks:    reconcile.Checks{Commit: "c0"},
	}
	test.Equal(t, "a draft", p.one(), want)

	// After a push to either branch GitHub has to find out whether there is a conflict.
	p.SetChecks("c0", githubtest.Check{Name: "lint", State: "FAILURE", Status: true})
	p.Push("work", "c1")
	test.OK(t, p.EditPull(ctx, 1, func(pull *githubtest.Pull) {
		pull.Draft = false
		pull.Conflict = true
	}))
	want.Draft = false
	want.Head = "c1"
	want.Checks.Commit = "c1"
	want.Mergeable = "unknown"
	test.Equal(t, "after a forced push", p.one(), want)
	want.Mergeable = "conflicting"
	test.Equal(t, "a conflict", p.one(), want)
	p.Push("main", "b1")
	test.Equal(t, "after a push to the base", p.one().Mergeable, "unknown")
	test.OK(t, p.EditPull(ctx, 1, func(pull *githubtest.Pull) { pull.Base = "release" }))
	test.Equal(t, "another base", p.one().Base, "release")
	test.OK(t, p.EditPull(ctx, 1, func(pull *githubtest.Pull) { pull.State = "closed" }))
	test.Equal(t, "closed", p.one().State, "closed")
	test.OK(t, p.EditPull(ctx, 1, func(pull *githubtest.Pull) { pull.Merged = true }))
	test.Equal(t, "merged", p.one().State, "merged")

	// Many are read with few requests, and those that do not exist are not in the answer.
	var numbers []int
	for n := 1; n <= 120; n++ {
		numbers = append(numbers, n)
		if n > 1 && n != 60 {
			p.add(func(pull *githubtest.Pull) {
				pull.Number = n
				pull.Branch = fmt.Sprint("b", n)
			})
		}
	}
	p.ClearLog()
	found := test.Must(p.Read(ctx, numbers))
	_, there := found[60]
	test.Equal(
		t,
		"found and requests",
		[]any{len(found), there, found[77].Branch, len(p.Log())},
		[]any{119, false, "b77", 3},
	)
	for field, value := range map[string]string{
		"number":     "7",
		"state":      "[1]",
		"repository": `{"nameWithOwner": "team/repo"}`,
	} {
		p.ClearFailures()
		test.OK(t, p.Fail(githubtest.Failure{
			Kind:  githubtest.FailMalformed,
			Field: field,
			Value: json.RawMessage(value),
		}))
		wantError(t, test.Err(p.Read(ctx, []int{1})), "forge_unknown_payload", "the answer")
	}
}

func TestReadChecks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const sha = "0123456789abcdef0123456789abcdef01234567"
	p.add(func(pull *githubtest.Pull) { pull.Commit = sha })
	const big = 30_000_000_000
	p.SetChecks(
		sha,
		githubtest.Check{Workflow: "CI", Name: "test", Run: big, Job: big + 1, State: "FAILURE"},
		githubtest.Check{
			Workflow: "CI",
			Name:     "build",
			Run:      big,
			Job:      big + 2,
			State:    "IN_PROGRESS",
		},
		githubtest.Check{
			Name:  "app",
			State: "ACTION_REQUIRED",
			URL:   "https://app.example/actions/runs/1/job/2",
		},
		githubtest.Check{Name: "codecov", State: "ERROR", Status: true, URL: "javascript:alert(1)"},
		githubtest.Check{
			Name:   hostile + strings.Repeat("é", 200),
			State:  "EXPECTED",
			Status: true,
			URL:    strings.Repeat("x", 5000),
		},
	)
	const url = "https://github.com/team/repo/actions/runs/30000000000/job/3000000000"
	got := p.one().Checks
	test.Equal(t, "commit and cut", []any{got.Commit, got.Cut, len(got.List)}, []any{sha, false, 5})
	test.Equal(t, "checks", []reconcile.Check{
		{Name: "CI / build", State: "pending", URL: url + "2", Run: big, Job: big + 2},
		{Name: "CI / test", State: "failure", URL: url + "1", Run: big, Job: big + 1},
		got.List[2],
		{Name: "app", State: "open", URL: "https://app.example/actions/runs/1/job/2"},
		{Name: "codecov", State: "failure", URL: "javascript:alert(1)"},
	}, got.List)
	odd := got.List[2]
	test.Equal(
		t,
		"a hostile name",
		[]any{strings.HasPrefix(odd.Name, hostile), len(odd.Name) <= maxName+3, odd.State},
		[]any{true, true, "pending"},
	)

	for state, want := range map[string]string{
		"SUCCESS":         "success",
		"FAILURE":         "failure",
		"TIMED_OUT":       "failure",
		"STARTUP_FAILURE": "failure",
		"NEUTRAL":         "skipped",
		"SKIPPED":         "skipped",
		"CANCELLED":       "open",
		"STALE":           "open",
		"QUEUED":          "pending",
		"WAITING":         "pending",
	} {
		p.SetChecks("c0", githubtest.Check{Name: "x", State: state})
		p.SetChecks(sha, githubtest.Check{Name: "x", State: state})
		test.Equal(t, state, p.one().Checks.List[0].State, want)
	}

	// The checks of the base are those of its newest commit.
	p.Push("main", "b1")
	p.SetChecks("b1", githubtest.Check{Name: "lint", State: "FAILURE"})
	test.Equal(t, "of the base", test.Must(p.ReadChecks(t.Context(), "main")),
		reconcile.Checks{
			Commit: "b1",
			State:  "failure",
			List:   []reconcile.Check{{Name: "lint", State: "failure"}},
		})
	test.Equal(t, "of a commit", test.Must(p.ReadChecks(t.Context(), sha)).Commit, sha)
	err := test.Err(p.ReadChecks(t.Context(), "gone"))
	wantError(t, err, "forge_graphql_errors", "there is no commit refs/heads/gone")
	test.ErrorIs(t, "the error", err, reconcile.ErrGone)

	// A fine-grained token sees only commit statuses, and the state of all.
	p.SetChecks(sha, githubtest.Check{
		Workflow: "CI",
		Name:     "test",
		Run:      1,
		Job:      2,
		State:    "FAILURE",
	}, githubtest.Check{
		Name:   "lint",
		State:  "SUCCESS",
		Status: true,
	})
	p.FineGrained = true
	test.Equal(t, "with a fine-grained token", p.one().Checks,
		reconcile.Checks{
			Commit: sha,
			State:  "failure",
			List:   []reconcile.Check{{Name: "lint", State: "success"}},
			Hidden: true,
		})
	p.FineGrained = false

	// Of 3,000 checks 500 are read, and that is told.
	many := make([]githubtest.Check, 3000)
	for i := range many {
		many[i] = githubtest.Check{Name: fmt.Sprint("c", i), State: "SUCCESS"}
	}
	p.SetChecks(sha, many...)
	p.ClearLog()
	got = p.one().Checks
	test.Equal(
		t,
		"of 3,000 checks",
		[]any{len(got.List), got.Cut, len(p.Log()), got.State},
		[]any{500, true, 5, "success"},
	)

	// If one of them has failed, all failed ones are read.
	many = many[:1900]
	many[1800].State = "FAILURE"
	many[1801].State = "IN_PROGRESS"
	p.SetChecks(sha, many...)
	p.ClearLog()
	got = p.one().Checks
	states := map[string]int{}
	for _, c := range got.List {
		states[c.State]++
	}
	test.Equal(t, "of 1,900 checks", []any{states, got.Cut, len(p.Log())},
		[]any{map[string]int{"failure": 1, "pending": 1, "success": 498}, false, 19})
}

func TestReadReviews(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.add(func(pull *githubtest.Pull) {
		pull.Reviews = []githubtest.Review{
			{
				Author: "kim",
				Role:   "MEMBER",
				Writer: true,
				State:  "CHANGES_REQUESTED",
				Body:   hostile,
				Commit: "c0",
				At:     noon,
				Lines: []githubtest.LineComment{{
					Path: "a.go",
					Line: 7,
					Body: "No.",
				}, {
					Path: "gone.go",
					Body: hostile,
				}},
			},
			{
				Author: "copilot",
				Bot:    true,
				State:  "COMMENTED",
				At:     noon,
				Commit: "c0",
				Body:   strings.Repeat("é", 9000),
			},
			{Author: "ann", Role: "OWNER", State: "PENDING", Body: "not submitted"},
			{State: "APPROVED", At: noon},
		}
	})
	got := p.one().Reviews
	test.Equal(t, "reviews", len(got), 3)
	test.Equal(t, "a review", got[0], reconcile.Review{
		ID:     got[0].ID,
		Author: "kim",
		Role:   "member",
		Writer: true,
		State:  "changes_requested",
		At:     noon,
		Commit: "c0",
		Body:   hostile,
		Comments: []reconcile.ReviewComment{{
			File: "a.go",
			Line: 7,
			Body: "No.",
		}, {
			File: "gone.go",
			Body: hostile,
		}},
	})
	test.Equal(
		t,
		"of an app",
		[]any{got[1].Author, got[1].Bot, got[1].State, len(got[1].Body) <= reconcile.MaxReviewText+3},
		[]any{"copilot[bot]", true, "commented", true},
	)
	test.Equal(
		t,
		"of a deleted account",
		[]string{got[2].Author, got[2].State, got[2].Commit},
		[]string{"ghost", "approved", ""},
	)
	var again reconcile.Pull
	test.OK(t, json.Unmarshal(test.Must(json.Marshal(p.one())), &again))
	test.Equal(t, "after storing it", again, p.one())

	test.OK(t, p.EditPull(t.Context(), 1, func(pull *githubtest.Pull) {
		for i := range 40 {
			pull.Reviews = append(pull.Reviews, githubtest.Review{
				Author: "kim",
				State:  "COMMENTED",
				At:     noon,
				Body:   fmt.Sprint(i),
			})
		}
		pull.Reviews[43].Lines = make([]githubtest.LineComment, 30)
	}))
	p.ClearLog()
	all := p.one()
	last := all.Reviews[42]
	test.Equal(
		t,
		"of many reviews",
		[]any{len(all.Reviews), all.Reviews[0].Body, last.Body, len(last.Comments), last.CommentsCut},
		[]any{43, hostile, "39", 20, true},
	)
	test.Equal(t, "requests", len(p.Log()), 3)

	// However much others write, what a person who may push has asked for last is read.
	test.OK(t, p.EditPull(t.Context(), 1, func(pull *githubtest.Pull) {
		for range reconcile.MaxReviews {
			pull.Reviews = append(pull.Reviews, githubtest.Review{
				Author: "stranger",
				State:  "COMMENTED",
				At:     noon,
				Body:   "+1",
			})
		}
	}))
	all = p.one()
	test.Equal(t, "behind a crowd", []any{len(all.Reviews), all.Reviews[0].Author, all.Reviews[0].State},
		[]any{reconcile.MaxReviews + 1, "kim", "changes_requested"})

	// There may be more such people than a page has verdicts.
	const writers = 2*reviewPage + 5
	test.OK(t, p.EditPull(t.Context(), 1, func(pull *githubtest.Pull) {
		crowd := pull.Reviews[len(pull.Reviews)-reconcile.MaxReviews:]
		pull.Reviews = nil
		for i := range writers {
			pull.Reviews = append(pull.Reviews, githubtest.Review{
				Author: fmt.Sprint("m", i),
				Writer: true,
				State:  "CHANGES_REQUESTED",
				At:     noon,
				Body:   "No.",
			})
		}
		pull.Reviews = append(pull.Reviews, crowd...)
	}))
	all = p.one()
	test.Equal(t, "more than a page of verdicts", []any{len(all.Reviews), all.Reviews[0].Author},
		[]any{reconcile.MaxReviews + writers, "m0"})
}

// However long the reviews of others are, a look reads a part of them, and what a person who
// may push has asked for.
func TestLongReviews(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.add(func(pull *githubtest.Pull) {
		pull.Reviews = []githubtest.Review{{
			Author: "kim",
			Writer: true,
			State:  "CHANGES_REQUESTED",
			At:     noon,
			Body:   "No.",
		}}
		long := githubtest.Review{
			Author: "stranger",
			State:  "COMMENTED",
			At:     noon,
			Body:   strings.Repeat("x", 60_000),
		}
		for range reconcile.MaxReviews {
			pull.Reviews = append(pull.Reviews, long)
		}
	})
	p.ClearLog()
	got := p.one().Reviews
	test.Equal(t, "the oldest", []string{got[0].Author, got[0].State}, []string{"kim", "changes_requested"})
	test.Equal(t, "the reviews of others that fit into 8 MiB", len(got)-1, 5*30)
	test.Equal(t, "requests", len(p.Log()), 1+4+1)
}

// If people write more than an answer may contain, it is read in smaller parts.
func TestLargeAnswers(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	large := githubtest.Review{
		Author: "kim",
		State:  "COMMENTED",
		At:     noon,
		Body:   strings.Repeat("\x01", 60_000),
	}
	for range 20 {
		large.Lines = append(large.Lines, githubtest.LineComment{
			Path: "a.go",
			Line: 1,
			Body: large.Body,
		})
	}
	const maintainers = 10
	p.add(func(pull *githubtest.Pull) {
		for i := range maintainers {
			asks := githubtest.Review{
				Author: fmt.Sprint("m", i),
				Writer: true,
				State:  "CHANGES_REQUESTED",
				At:     noon,
				Body:   "No.",
			}
			pull.Reviews = append(pull.Reviews, asks)
		}
		for range 30 {
			pull.Reviews = append(pull.Reviews, large)
		}
	})
	p.add(func(pull *githubtest.Pull) { pull.Branch = "other" })
	found := test.Must(p.Read(t.Context(), []int{1, 2}))
	test.Equal(t, "the other is there", found[2].Branch, "other")
	test.Equal(t, "reviews in one answer, and the verdicts", len(found[1].Reviews), 7+maintainers)
}

// It is not parallel, because it measures the memory of the process.
func TestReadLog(t *testing.T) {
	p := newPlace(t)
	job := githubtest.Check{
		Workflow: "CI",
		Name:     "test",
		Run:      1,
		Job:      2,
		State:    "FAILURE",
		Log:      "first\n" + hostile + "\xff\nlast\n",
	}
	read := func() (string, error) {
		p.SetChecks("c0", job)
		return p.ReadLog(t.Context(), 2)
	}
	test.Equal(t, "log", test.Must(read()), "first\n"+hostile+"\uFFFD\nlast\n")
	job.Log = "the token " + token + "\n"
	test.Equal(t, "a log with the token", test.Must(read()), "the token [token]\n")

	job.Log = strings.Repeat("0123456789abcdef 0123456789abcde\n", 1000)
	job.Repeat = 200 << 20 / (32 * 1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	log := test.Must(read())
	runtime.ReadMemStats(&after)
	if n := len(log); n > reconcile.MaxLog || n < reconcile.MaxLog-100 ||
		!strings.HasPrefix(log, "0123456789abcdef ") {
		t.Errorf("%d bytes of a log of 200 MB: %.50q", n, log)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 150<<20 {
		t.Errorf("it took %d bytes of memory", used)
	}

	for state, log := range map[string]string{"IN_PROGRESS": "x\n", "FAILURE": ""} {
		job.State = state
		job.Log = log
		job.Repeat = 1
		err := test.Err(read())
		wantError(
			t,
			err,
			"forge_api_status",
			"GitHub answers 4",
			"the job is still at work, or its log was deleted",
		)
		test.ErrorIs(t, "the error", err, reconcile.ErrGone)
	}
	job.State = "FAILURE"
	job.Log = "x\n"
	p.NoLogs = true
	wantError(
		t,
		test.Err(read()),
		"forge_api_request",
		"the log of job 2 was not transferred: its host answers 403",
	)
}

func TestRerun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.add(func(*githubtest.Pull) {})
	p.SetChecks("c0", githubtest.Check{Workflow: "CI", Name: "a", Run: 1, Job: 2, State: "FAILURE"},
		githubtest.Check{Workflow: "CI", Name: "b", Run: 1, Job: 3, State: "SUCCESS"})
	for range 2 { // the second finds it at work
		test.OK(t, p.Rerun(t.Context(), 1))
		test.Equal(
			t,
			"states",
			test.Map(
				p.one().Checks.List,
				func(c reconcile.Check) string { return fmt.Sprint(c.State, c.Job) },
			),
			[]string{"pending1002", "success3"},
		)
	}
	wantError(t, p.Rerun(t.Context(), 9), "forge_api_status", "GitHub answers 404")
}
