// Package forgetest is the conformance suite of the adapters to forges. An adapter's test
// arranges things in its own forge or in a fake of it, through the functions of a Backend, and
// Run checks the adapter's answers:
//
//	func TestConformance(t *testing.T) { forgetest.Run(t, newBackend) }
//
// reconcile.Forge is the contract.
package forgetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Backend is a forge with a repository of the owner team, whose default branch main has a
// commit, and its adapter. Functions end the test if they fail.
type Backend struct {
	*reconcile.Forge
	// Lacks are the functions that the adapter leaves out, such as MayMerge.
	Lacks []string
	// Refused is an adapter to the same repository with a token that the forge refuses.
	Refused *reconcile.Forge
	By      string // the source of the adapters' tokens, such as $TEAM_TOKEN
	Secret  string // the token of Forge, which no error may contain

	// Push adds an empty commit to a branch, which begins at main if it is new.
	Push func(t testing.TB, branch string) (commit string)
	// Close closes a pull request without merging it, and Merge merges it.
	Close, Merge func(t testing.TB, number int)
	// Status reports a check of a commit as another program; state is pending, success or
	// failure.
	Status func(t testing.TB, commit, name, state string)
	// FailJob pushes a commit to a new branch, whose only check is a job of the forge's own
	// that has failed with a log.
	FailJob func(t testing.TB, branch string, log ...string) (commit string)
	// Review submits a review of a pull request as Writer, who may push, or as Reader; state
	// is approved, changes_requested or commented.
	Review         func(t testing.TB, number int, author, state, body string)
	Writer, Reader string
	// Require makes the base main require a check.
	Require func(t testing.TB, name string)
	// Methods are the ways to merge that the repository allows; all of them if it is nil.
	Methods []string
	// Comments returns the comments on a pull request.
	Comments func(t testing.TB, number int) []string
}

// Run checks the adapter of the forges that start returns. It starts a forge for each case, as
// a subtest.
func Run(t *testing.T, start func(t *testing.T) *Backend) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.check(&backend{Backend: start(t), T: t})
		})
	}
}

// cases are the rules of the contract.
var cases = []struct {
	name  string
	check func(*backend)
}{
	{"all functions", (*backend).checkComplete},
	{"open", (*backend).checkOpen},
	{"open again after the end", (*backend).checkOpenAgain},
	{"open beside another base", (*backend).checkOtherBase},
	{"open without a branch", (*backend).checkNoBranch},
	{"numbers of addresses", (*backend).checkNumber},
	{"read", (*backend).checkRead},
	{"checks", (*backend).checkChecks},
	{"jobs", (*backend).checkJobs},
	{"reviews", (*backend).checkReviews},
	{"commits", (*backend).checkBuildsOn},
	{"comment", (*backend).checkComment},
	{"merge", (*backend).checkMerge},
	{"merge later", (*backend).checkArmMerge},
	{"merge later, taken back", (*backend).checkDisarmMerge},
	{"things that do not exist", (*backend).checkMissing},
	{"a refused token", (*backend).checkRefused},
}

// backend is a Backend in a test.
type backend struct {
	*Backend
	*testing.T
}

func (b *backend) ctx() context.Context { return b.Context() }

// open opens a pull request of a branch to which it pushes a commit. It returns the request,
// the answer and the number.
func (b *backend) open(branch string) (reconcile.NewPull, reconcile.OpenedPull, int) {
	b.Helper()
	n := reconcile.NewPull{
		Branch: branch,
		Commit: b.Push(b.T, branch),
		Title:  "ABC-1: Work",
		Body:   "Text.",
	}
	opened := test.Must(b.Open(b.ctx(), n))
	number, here := b.Number(opened.URL)
	if !opened.Opened || opened.ID == "" || number == 0 || !here {
		b.Fatalf("opened %+v, number %d, here %v", opened, number, here)
	}
	return n, opened, number
}

// one reads a pull request that exists.
func (b *backend) one(number int) reconcile.Pull {
	b.Helper()
	found := test.Must(b.Read(b.ctx(), []int{number}))
	pull, exists := found[number]
	if !exists || len(found) != 1 {
		b.Fatalf("no pull request %d in %+v", number, found)
	}
	return pull
}

// checkComplete checks that the adapter has all functions but those that its test names.
func (b *backend) checkComplete() {
	forge := reflect.ValueOf(b.Forge).Elem()
	var absent []string
	for i := range forge.NumField() {
		if forge.Field(i).IsNil() {
			absent = append(absent, forge.Type().Field(i).Name)
		}
	}
	test.Equal(b.T, "functions that the adapter lacks", absent, b.Lacks)
}

func (b *backend) checkOpen() {
	n, opened, _ := b.open("work")
	test.Equal(b.T, "by", opened.By, b.By)
	again := test.Must(b.Open(b.ctx(), n))
	opened.Opened = false
	test.Equal(b.T, "repeated", again, opened)
	n.Commit = b.Push(b.T, "work")
	test.Equal(b.T, "after a push", test.Must(b.Open(b.ctx(), n)), opened)

	n.Branch = "contained"
	n.Commit = b.Push(b.T, "contained")
	n.Base = "contained"
	test.Equal(b.T, "the base contains it", test.Must(b.Open(b.ctx(), n)).URL, "")
}

func (b *backend) checkOpenAgain() {
	n, opened, number := b.open("work")
	b.Close(b.T, number)
	closed := test.Must(b.Open(b.ctx(), n))
	test.Equal(b.T, "a person closed it at that commit", []any{closed.URL, closed.Opened}, []any{opened.URL, false})
	n.Commit = b.Push(b.T, "work")
	second := test.Must(b.Open(b.ctx(), n))
	if !second.Opened || second.URL == opened.URL || second.ID == opened.ID {
		b.Errorf("after a push to the branch of a closed pull request: %+v after %+v", second, opened)
	}
	test.Equal(b.T, "the first", b.one(number).State, reconcile.PullClosed)
}

// checkOtherBase: a pull request of the branch into another one is not taken for the wanted one, unless
// it is the known one.
func (b *backend) checkOtherBase() {
	_, _, number := b.open("first")
	base := b.one(number).Base
	b.Push(b.T, "production")
	n := reconcile.NewPull{Branch: "work", Commit: b.Push(b.T, "work"), Base: "production", Title: "T", Body: "B"}
	others := test.Must(b.Open(b.ctx(), n))
	n.Base = base
	n.Known = others.ID
	test.Equal(b.T, "the known one", test.Must(b.Open(b.ctx(), n)).URL, others.URL)
	n.Known = ""
	own := test.Must(b.Open(b.ctx(), n))
	if !own.Opened || own.URL == others.URL {
		b.Errorf("opened %+v beside %+v", own, others)
	}
}

func (b *backend) checkNoBranch() {
	_, err := b.Open(b.ctx(), reconcile.NewPull{
		Branch: "none",
		Commit: strings.Repeat("1", 40),
		Title:  "T",
		Body:   "B",
	})
	if !errors.Is(err, reconcile.ErrNoBranch) {
		b.Errorf("error %v, want ErrNoBranch", err)
	}
}

func (b *backend) checkNumber() {
	_, opened, number := b.open("work")
	for address, want := range map[string][]any{
		opened.URL: {number, true},
		strings.Replace(opened.URL, "/team/", "/others/", 1): {number, false},
		"https://example.com/":                               {0, false},
		"":                                                   {0, false},
		opened.URL + "/files":                                {0, false},
	} {
		n, here := b.Number(address)
		test.Equal(b.T, "number of "+address, []any{n, here}, want)
	}
}

func (b *backend) checkRead() {
	n, opened, number := b.open("work")
	_, _, other := b.open("feature/with-slash")
	pull := b.one(number)
	test.Equal(b.T, "pull request", []any{
		pull.ID, pull.Number, pull.URL, pull.State, pull.Draft, pull.Branch, pull.Head, pull.Base,
		pull.Checks, len(pull.Reviews),
	}, []any{
		opened.ID, number, opened.URL, "open", false, "work", n.Commit, "main",
		reconcile.Checks{Commit: n.Commit},
		0,
	})
	test.Equal(b.T, "its branch", b.one(other).Branch, "feature/with-slash")
	both := test.Must(b.Read(b.ctx(), []int{number, other, other + 1000}))
	test.Equal(b.T, "read together with a missing one", len(both), 2)
	test.Equal(b.T, "without numbers", len(test.Must(b.Read(b.ctx(), nil))), 0)
	b.Merge(b.T, number)
	test.Equal(b.T, "merged", b.one(number).State, reconcile.PullMerged)
	b.Close(b.T, other)
	test.Equal(b.T, "closed", b.one(other).State, reconcile.PullClosed)
}

func (b *backend) checkChecks() {
	n, _, number := b.open("work")
	states := func() (all []string) {
		checks := b.one(number).Checks
		test.Equal(b.T, "checks alone", test.Must(b.ReadChecks(b.ctx(), "work")), checks)
		test.Equal(b.T, "checks of the commit", test.Must(b.ReadChecks(b.ctx(), n.Commit)), checks)
		return append(text.Map(checks.List, func(c reconcile.Check) string { return c.Name + " " + c.State }),
			checks.State)
	}
	test.Equal(b.T, "none", states(), []string{""})
	b.Status(b.T, n.Commit, "lint", "success")
	test.Equal(b.T, "a success", states(), []string{"lint success", "success"})
	b.Status(b.T, n.Commit, "build", "pending")
	test.Equal(b.T, "one at work", states(), []string{"build pending", "lint success", "pending"})
	b.Status(b.T, n.Commit, "lint", "failure")
	test.Equal(b.T, "a failure", states(), []string{"build pending", "lint failure", "failure"})
	next := b.Push(b.T, "work")
	test.Equal(b.T, "after a push", test.Must(b.ReadChecks(b.ctx(), "work")), reconcile.Checks{Commit: next})
}

func (b *backend) checkJobs() {
	commit := b.FailJob(b.T, "work", "first", "FAIL: TestHello")
	job := func() reconcile.Check {
		b.Helper()
		list := test.Must(b.ReadChecks(b.ctx(), commit)).List
		if len(list) != 1 || list[0].Job == 0 || list[0].Run == 0 {
			b.Fatalf("checks %+v, want one job", list)
		}
		return list[0]
	}
	failed := job()
	test.Equal(b.T, "state", failed.State, reconcile.CheckFailure)
	test.Contains(b.T, "log", test.Must(b.ReadLog(b.ctx(), failed.Job)), "FAIL: TestHello")
	for range 2 { // the second time it is at work
		test.OK(b.T, b.Rerun(b.ctx(), failed.Run))
		test.Equal(b.T, "after the rerun", job().State, reconcile.CheckPending)
	}
	_, err := b.ReadLog(b.ctx(), job().Job)
	b.gone("the log of a job that has not begun", err)
}

func (b *backend) checkReviews() {
	n, _, number := b.open("work")
	b.Review(b.T, number, b.Reader, "commented", "Nice.")
	b.Review(b.T, number, b.Writer, "changes_requested", "Please change it.")
	reviews := b.one(number).Reviews
	var said [][]any
	for _, r := range reviews {
		said = append(said, []any{r.Author, r.Writer, r.Bot, r.State, r.Body, r.Commit})
		if r.ID == "" || r.At.IsZero() {
			b.Errorf("review %+v lacks an ID or a time", r)
		}
	}
	test.Equal(b.T, "reviews", said, [][]any{
		{b.Reader, false, false, "commented", "Nice.", n.Commit},
		{b.Writer, true, false, "changes_requested", "Please change it.", n.Commit},
	})
	b.Push(b.T, "work")
	test.Equal(b.T, "after a push", b.one(number).Reviews[1].Commit, n.Commit)
	b.Review(b.T, number, b.Writer, "approved", "")
	last := b.one(number).Reviews
	test.Equal(b.T, "an approval", last[len(last)-1].State, "approved")
}

func (b *backend) checkBuildsOn() {
	n, _, number := b.open("work")
	b.Push(b.T, "work")
	test.Equal(b.T, "an earlier commit", test.Must(b.BuildsOn(b.ctx(), number, n.Commit)), true)
	test.Equal(b.T, "another", test.Must(b.BuildsOn(b.ctx(), number, strings.Repeat("1", 40))), false)
}

func (b *backend) checkComment() {
	_, _, number := b.open("work")
	const marker = "<!-- symphony 1 -->"
	for range 2 {
		test.OK(b.T, b.Comment(b.ctx(), number, marker, "Done.\n\n"+marker))
	}
	test.OK(b.T, b.Comment(b.ctx(), number, "<!-- symphony 2 -->", "More.\n\n<!-- symphony 2 -->"))
	test.Equal(b.T, "comments", b.Comments(b.T, number),
		[]string{"Done.\n\n" + marker, "More.\n\n<!-- symphony 2 -->"})
}

// soon repeats a merge while the forge asks for that: it may still look for conflicts.
func (b *backend) soon(merge func() error) error {
	b.Helper()
	var err error
	for range 100 {
		err = merge()
		if !errors.Is(err, reconcile.ErrLater) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// merged waits until a pull request is merged.
func (b *backend) merged(number int) {
	b.Helper()
	for range 200 {
		if b.one(number).State == reconcile.PullMerged {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.Fatalf("pull request %d is not merged", number)
}

func (b *backend) checkMerge() {
	n, _, number := b.open("work")
	if !slices.Contains(b.Lacks, "MayMerge") {
		test.Equal(b.T, "may the account merge", test.Must(b.MayMerge(b.ctx(), "")), true)
	}
	rules := test.Must(b.ReadMerge(b.ctx(), number))
	test.Equal(b.T, "its commit", rules.Head, n.Commit)
	test.Equal(b.T, "what is in the way", []bool{rules.Missing, rules.Queue, rules.Behind}, []bool{false, false, false})
	methods := b.Methods
	if methods == nil {
		methods = []string{"squash", "merge", "rebase"}
	}
	test.Equal(b.T, "methods", rules.Methods, methods)
	m := reconcile.Merging{
		Number: number,
		Head:   strings.Repeat("1", 40),
		Method: "squash",
	}
	if err := b.Forge.Merge(b.ctx(), m); !errors.Is(err, reconcile.ErrLater) {
		b.Errorf("a merge at another commit: %v, want ErrLater", err)
	}
	test.Equal(b.T, "then", b.one(number).State, "open")
	m.Head = n.Commit
	test.OK(b.T, b.soon(func() error { return b.Forge.Merge(b.ctx(), m) }))
	pull := b.one(number)
	test.Equal(b.T, "merged", []any{pull.State, pull.Head}, []any{reconcile.PullMerged, n.Commit})
	if err := b.Forge.Merge(b.ctx(), m); err == nil {
		b.Error("it was merged twice")
	}
}

// arm lets the forge merge a pull request once a check is green.
func (b *backend) arm() (commit string, number int) {
	b.Helper()
	n, _, number := b.open("work")
	b.Require(b.T, "ci/test")
	test.Equal(b.T, "something is missing", test.Must(b.ReadMerge(b.ctx(), number)).Missing, true)
	m := reconcile.Merging{
		Number: number,
		Head:   n.Commit,
		Method: "merge",
	}
	if err := b.soon(func() error { return b.Forge.Merge(b.ctx(), m) }); !errors.Is(err, reconcile.ErrRejected) {
		b.Errorf("a merge without what is missing: %v, want ErrRejected", err)
	}
	for range 2 {
		err := b.soon(func() error {
			merged, err := b.ArmMerge(b.ctx(), m)
			test.Equal(b.T, "merged at once", merged, false)
			return err
		})
		test.OK(b.T, err)
	}
	if auto := b.one(number).AutoMerge; auto == reconcile.AutoMergeOff {
		b.Errorf("auto-merge is %q", auto)
	}
	return n.Commit, number
}

// green reports the check that the base requires, and a check that a backend may require by a
// pattern.
func (b *backend) green(commit string) {
	b.Helper()
	b.Status(b.T, commit, "lint all", "success")
	b.Status(b.T, commit, "ci/test", "success")
}

func (b *backend) checkArmMerge() {
	commit, number := b.arm()
	b.green(commit)
	b.merged(number)
}

func (b *backend) checkDisarmMerge() {
	commit, number := b.arm()
	for range 2 {
		test.OK(b.T, b.DisarmMerge(b.ctx(), number))
	}
	if auto := b.one(number).AutoMerge; auto == reconcile.AutoMergeOn {
		b.Errorf("auto-merge is %q", auto)
	}
	b.green(commit)
	// Otherwise it would be merged already.
	m := reconcile.Merging{
		Number: number,
		Head:   commit,
		Method: "merge",
	}
	test.OK(b.T, b.soon(func() error { return b.Forge.Merge(b.ctx(), m) }))
	b.merged(number)
}

// gone checks that an error means that something does not exist.
func (b *backend) gone(what string, err error) {
	b.Helper()
	e, is := errors.AsType[*reconcile.Error](err)
	if !is || !errors.Is(err, reconcile.ErrGone) || e.Hint == "" {
		b.Errorf("%s: error %v, want one with a hint that wraps ErrGone", what, err)
	}
}

func (b *backend) checkMissing() {
	const none = 4711
	_, err := b.ReadChecks(b.ctx(), "none")
	b.gone("the checks of a branch", err)
	_, err = b.ReadChecks(b.ctx(), strings.Repeat("1", 40))
	b.gone("the checks of a commit", err)
	_, err = b.BuildsOn(b.ctx(), none, strings.Repeat("1", 40))
	b.gone("the commits of a pull request", err)
	_, err = b.ReadLog(b.ctx(), none)
	b.gone("the log of a job", err)
	b.gone("a comment", b.Comment(b.ctx(), none, "marker", "Text with marker."))
	_, err = b.ReadMerge(b.ctx(), none)
	b.gone("the rules of a merge", err)
	b.gone("a merge", b.Forge.Merge(b.ctx(), reconcile.Merging{
		Number: none,
		Head:   strings.Repeat("1", 40),
		Method: "merge",
	}))
	test.OK(b.T, b.DisarmMerge(b.ctx(), none))
}

func (b *backend) checkRefused() {
	refuse := func(what string, err error) {
		b.Helper()
		e, is := errors.AsType[*reconcile.Error](err)
		if !is || reconcile.ClassOf(err) == "" || e.Hint == "" || errors.Is(err, reconcile.ErrGone) {
			b.Fatalf("%s: error %v, want one with a class and a hint", what, err)
		}
		test.Lacks(b.T, "the error of "+what, err.Error()+e.Hint, b.Secret)
	}
	f := b.Refused
	_, err := f.Open(b.ctx(), reconcile.NewPull{Branch: "work", Commit: b.Push(b.T, "work"), Title: "T"})
	refuse("open", err)
	_, err = f.Read(b.ctx(), []int{1})
	refuse("read", err)
	_, err = f.ReadChecks(b.ctx(), "work")
	refuse("checks", err)
	refuse("comment", f.Comment(b.ctx(), 1, "marker", "marker"))
	_, err = f.ReadMerge(b.ctx(), 1)
	refuse("the rules of a merge", err)
	refuse("merge", f.Merge(b.ctx(), reconcile.Merging{Number: 1, Head: strings.Repeat("1", 40), Method: "merge"}))
}
