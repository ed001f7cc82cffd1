package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// early is long before a request of requestOf expires, late just after.
var (
	early = reconcile.Instant{Boot: "boot-1", Mono: time.Hour}
	late  = reconcile.Instant{Boot: "boot-1", Mono: 2*time.Hour + 1}
)

func requestOf(r reconcile.Run, kind reconcile.RequestKind) reconcile.Request {
	return reconcile.Request{
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		RunID:      r.ID,
		ThreadID:   "thread",
		Kind:       kind,
		Summary:    "make install",
		Outside:    true,
		Detail: reconcile.RequestDetail{
			Command:     "make install",
			Cwd:         "/srv/x",
			Reason:      "it's needed",
			Permissions: []byte(`{"network":{"enabled":true}}`),
			Questions: []reconcile.RequestQuestion{{
				ID:      "q1",
				Text:    "Which?",
				Options: []reconcile.RequestOption{{Label: "Yes"}},
			}},
		},
		AskedAt:   epoch,
		ExpiresAt: epoch.Add(time.Hour),
		Deadline:  reconcile.Instant{Boot: "boot-1", Mono: 2 * time.Hour},
	}
}

func asked(t testing.TB, db *DB, r reconcile.Run, kind reconcile.RequestKind) reconcile.Request {
	t.Helper()
	return test.Must(db.Journal.AddRequest(ctx, requestOf(r, kind)))
}

func decided(
	db *DB,
	q reconcile.Request,
	how reconcile.RequestDecision,
	at reconcile.Instant,
	dead bool,
) (reconcile.Request, error) {
	q.Decision = how
	q.Answer = reconcile.RequestAnswer{
		Reason:  "because",
		Answers: map[string][]string{"q1": {"Yes"}},
	}
	return db.Operator.DecideRequest(ctx, epoch.Add(time.Minute), at, q, dead)
}

// finishRun ends a run as its worker does.
func finishRun(t testing.TB, db *DB, r reconcile.Run) {
	t.Helper()
	r.Outcome = reconcile.Failed
	r.Phase = reconcile.Finishing
	test.OK(t, db.Journal.Finish(ctx, epoch, r))
}

func wantEnded(t testing.TB, err error, fate reconcile.RequestFate) {
	t.Helper()
	test.Contains(t, "the error", wantCode(t, err, "request_ended").Message, string(fate))
}

func TestRequestIsStoredWhole(t *testing.T) {
	db := newState(t)
	run := startedRun(t, db, 7)
	q := asked(t, db, run, reconcile.CommandRequest)
	want := requestOf(run, reconcile.CommandRequest)
	want.Number = 1
	got := test.Must(db.Views.FindRequest(ctx, "abc-7", 1))
	test.Equal(t, "requests", []reconcile.Request{q, got}, []reconcile.Request{want, want})
	test.Equal(t, "id", q.ID(), "ABC-7.1")
	for _, number := range []int{0, 2} {
		test.ErrorIs(
			t,
			fmt.Sprint("number ", number),
			test.Err(db.Views.FindRequest(ctx, "ABC-7", number)),
			ErrNotFound,
		)
	}
	// The worker may wait for an hour, so the request must be on the disk.
	test.Equal(t, "durability of the request", synchronous(t, db), full)
	wantOpen(t, db, epoch, q.Attention().Key)
}

// TestRequestIsDecidedOnce checks that the first decision in time is stored, and that every
// other is refused.
func TestRequestIsDecidedOnce(t *testing.T) {
	type before = func(*testing.T, *DB, reconcile.Request, reconcile.Run)
	deny := func(t *testing.T, db *DB, q reconcile.Request, _ reconcile.Run) {
		t.Helper()
		test.Must(decided(db, q, reconcile.DecideDeny, early, false))
	}
	end := func(t *testing.T, db *DB, _ reconcile.Request, r reconcile.Run) { t.Helper(); finishRun(t, db, r) }
	for name, c := range map[string]struct {
		before []before
		at     reconcile.Instant
		dead   bool
		fate   reconcile.RequestFate // why it is refused, empty where it is not
	}{
		"in time": {at: early},
		"twice": {
			at:     early,
			fate:   reconcile.RequestAnswered,
			before: []before{deny},
		},
		"after the worker read it": {
			at:     early,
			fate:   reconcile.RequestAnswered,
			before: []before{deny, resolved(reconcile.RequestAnswered)},
		},
		"withdrawn": {
			at:     early,
			fate:   reconcile.RequestWithdrawn,
			before: []before{resolved(reconcile.RequestWithdrawn)},
		},
		"the first fate is kept": {
			at: early, fate: reconcile.RequestExpired,
			before: []before{resolved(reconcile.RequestExpired), resolved(reconcile.RequestWithdrawn)},
		},
		"too late for a slow worker": {at: late, fate: reconcile.RequestExpired},
		"another boot, wall in time": {at: reconcile.Instant{
			Boot: "boot-2",
			Mono: 100 * time.Hour,
		}},
		"its worker is dead": {at: early, dead: true, fate: reconcile.RequestRunEnded},
		"its run has ended": {
			at:     early,
			fate:   reconcile.RequestRunEnded,
			before: []before{end},
		},
		"answered by no operator": {
			at:     early,
			before: []before{resolved(reconcile.RequestAnswered)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newState(t)
			run := startedRun(t, db, 1)
			q := asked(t, db, run, reconcile.CommandRequest)
			for _, f := range c.before {
				f(t, db, q, run)
			}
			before := test.Must(db.RequestByID(ctx, q.IssueID, q.Number))
			is, err := decided(db, q, reconcile.DecideApprove, c.at, c.dead)
			if c.fate != "" {
				wantEnded(t, err, c.fate)
				after, err := db.RequestByID(ctx, q.IssueID, q.Number)
				test.Equal(
					t,
					"error, and the request after a refused decision",
					[]any{err, after},
					[]any{nil, before},
				)
				return
			}
			test.OK(t, err)
			test.Equal(
				t,
				"decision and fate",
				[]any{is.Decision, is.Fate},
				[]any{reconcile.DecideApprove, reconcile.RequestFate("")},
			)
			// A request that was decided just in time does not expire.
			is = test.Must(
				db.Journal.ResolveRequest(ctx, epoch, q.IssueID, q.Number, reconcile.RequestExpired),
			)
			if is.Fate != reconcile.RequestAnswered || is.Decision != reconcile.DecideApprove ||
				is.Answer.Reason != "because" {
				t.Errorf("after it expired it is %+v", is)
			}
		})
	}
}

func resolved(fate reconcile.RequestFate) func(*testing.T, *DB, reconcile.Request, reconcile.Run) {
	return func(t *testing.T, db *DB, q reconcile.Request, _ reconcile.Run) {
		t.Helper()
		test.Must(db.Journal.ResolveRequest(ctx, epoch, q.IssueID, q.Number, fate))
	}
}

// TestOpenRequests lists the undecided requests of live runs, the oldest first.
func TestOpenRequests(t *testing.T) {
	db := newState(t)
	runs := []reconcile.Run{startedRun(t, db, 1), startedRun(t, db, 2)}
	second := asked(t, db, runs[0], reconcile.CommandRequest)
	older := requestOf(runs[1], reconcile.QuestionRequest)
	older.AskedAt = epoch.Add(-time.Minute)
	first := test.Must(db.Journal.AddRequest(ctx, older))
	wantIDs := func(want ...string) {
		t.Helper()
		open := test.Must(db.Views.OpenRequests(ctx))
		ids := test.Map(open, func(q reconcile.Request) string { return q.ID() })
		test.Equal(t, "open requests", ids, want)
	}
	wantIDs("ABC-2.1", "ABC-1.1")
	finishRun(t, db, runs[1])
	wantIDs("ABC-1.1")
	is, err := db.RequestByID(ctx, first.IssueID, first.Number)
	test.Equal(t, "error, and fate of the other", []any{err, is.Fate}, []any{nil, reconcile.RequestRunEnded})
	test.Must(decided(db, second, reconcile.DecideDeny, early, false))
	wantIDs()
}

// TestLateAnswers checks that one later run receives the answer to a question of an ended run.
// An approval is refused.
func TestLateAnswers(t *testing.T) {
	db := newState(t)
	run := startedRun(t, db, 1)
	question := asked(t, db, run, reconcile.QuestionRequest)
	command := asked(t, db, run, reconcile.CommandRequest)
	unread := asked(t, db, run, reconcile.QuestionRequest)
	// the worker dies before it reads the answer
	test.Must(decided(db, unread, reconcile.DecideAnswer, early, false))
	hidden := requestOf(run, reconcile.QuestionRequest)
	hidden.Detail.Questions[0].Secret = true
	secret := test.Must(db.Journal.AddRequest(ctx, hidden))
	sealed := test.Must(db.Journal.AddRequest(ctx, hidden))
	sealed.Decision = reconcile.DecideAnswer
	sealed.Answer = reconcile.RequestAnswer{Sealed: []byte("x")}
	test.Must(db.Operator.DecideRequest(ctx, epoch, early, sealed, false))
	expired := asked(t, db, run, reconcile.QuestionRequest)
	resolved(reconcile.RequestExpired)(t, db, expired, run)
	wantLate := func(want ...int) {
		t.Helper()
		list := test.Must(db.Journal.LateAnswers(ctx, run.IssueID))
		var got []int
		for _, q := range list {
			got = append(got, q.Number)
			test.Equal(t, "answer to "+q.ID(), q.Answer.Answers["q1"], []string{"Yes"})
		}
		test.Equal(t, "late answers", got, want)
	}
	wantLate()
	finishRun(t, db, run)
	wantLate(unread.Number)
	is := test.Must(decided(db, question, reconcile.DecideAnswer, late, false))
	test.Equal(t, "answered late it", is.Fate, reconcile.RequestRunEnded)
	wantLate(question.Number, unread.Number)
	refused := func(q reconcile.Request, how reconcile.RequestDecision, at reconcile.Instant, fate reconcile.RequestFate) {
		t.Helper()
		wantEnded(t, test.Err(decided(db, q, how, at, false)), fate)
	}
	refused(question, reconcile.DecideAnswer, late, reconcile.RequestRunEnded)
	refused(question, reconcile.DecideDeny, early, reconcile.RequestRunEnded)
	refused(command, reconcile.DecideApprove, early, reconcile.RequestRunEnded)
	refused(secret, reconcile.DecideAnswer, early, reconcile.RequestRunEnded)
	refused(expired, reconcile.DecideAnswer, early, reconcile.RequestExpired)

	list := test.Must(db.Journal.LateAnswers(ctx, run.IssueID))
	test.OK(t, db.Journal.MarkAnswersSeen(ctx, list[:1], "run-a"))
	wantLate(unread.Number)
	test.OK(t, db.Journal.MarkAnswersSeen(ctx, list, "run-b"))
	wantLate()
	test.Equal(t, "told", test.Must(db.RequestByID(ctx, question.IssueID, question.Number)).ToldRun, "run-a")
}

// TestAnswerToADyingWorker checks that an answer is not lost if the worker dies right after
// reading it.
func TestAnswerToADyingWorker(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // from the last heartbeat until the worker read the answer
		lost  bool
		want  int
	}{
		"died at once": {0, true, 1},
		"died later":   {-time.Millisecond, true, 0},
		"ended":        {time.Second, false, 0},
	} {
		db := newState(t)
		run := startedRun(t, db, 1)
		q := asked(t, db, run, reconcile.QuestionRequest)
		test.Must(decided(db, q, reconcile.DecideAnswer, early, false))
		test.Must(
			db.Journal.ResolveRequest(
				ctx,
				epoch.Add(c.after),
				q.IssueID,
				q.Number,
				reconcile.RequestAnswered,
			),
		)
		if c.lost {
			test.OK(
				t,
				db.Store.EndDead(
					ctx,
					epoch.Add(time.Hour),
					mustRun(t, db, run.ID),
					reconcile.Lost,
					"worker_lost",
					"",
				),
			)
		} else {
			finishRun(t, db, run)
		}
		test.Equal(t, name, len(test.Must(db.Journal.LateAnswers(ctx, run.IssueID))), c.want)
	}
}

func TestCreated(t *testing.T) {
	db := newState(t)
	made := []reconcile.Created{{Kind: "comment", ID: "c-1"}, {Kind: "attachment", ID: "a-1"}}
	test.OK(t, db.Journal.SaveCreated(ctx, "run-1", "issue-1", made, epoch))
	test.OK(t, db.Journal.SaveCreated(ctx, "run-1", "issue-1", nil, epoch))
	// An object that is stored already, such as a link, stays that of the first run.
	test.OK(t, db.Journal.SaveCreated(ctx, "run-2", "issue-1", made[1:], epoch))

	ids := []string{"c-1", "c-2", "a-1", `"]'`, ""}
	for i := range 2000 { // more than the parameters that SQLite accepts by default
		ids = append(ids, fmt.Sprintf("other-%d", i))
	}
	ours := test.Must(db.Journal.Created(ctx, ids))
	test.Equal(t, "ours", ours, map[string]bool{"c-1": true, "a-1": true})
	test.Equal(t, "created by nobody", len(test.Must(db.Journal.Created(ctx, nil))), 0)
	var kind, run string
	test.OK(
		t,
		db.sql.QueryRowContext(ctx, `SELECT kind, run_id FROM created WHERE id = 'a-1'`).Scan(&kind, &run),
	)
	test.Equal(t, "kept as", []any{kind, run}, []any{"attachment", "run-1"})
}

// TestReplyIsNoGuidance checks that a reply that has decided a request is not passed to agents
// as a comment.
func TestReplyIsNoGuidance(t *testing.T) {
	db := newState(t)
	q := asked(t, db, startedRun(t, db, 1), reconcile.CommandRequest)
	q.Decision = reconcile.DecideApprove
	q.Answer = reconcile.RequestAnswer{By: "Kim", Reply: "comment-1"}
	test.Must(db.Operator.DecideRequest(ctx, epoch, early, q, false))
	is := test.Must(db.RequestByID(ctx, q.IssueID, q.Number))
	if ours := test.Must(db.Journal.Created(ctx, []string{"comment-1", "comment-2"})); len(ours) != 1 ||
		!ours["comment-1"] ||
		is.Answer.By != "Kim" {
		t.Errorf("%v, %+v", ours, is.Answer)
	}
	q.Answer.Reply = "comment-2" // too late
	wantEnded(t, test.Err(db.Operator.DecideRequest(ctx, epoch, early, q, false)), reconcile.RequestAnswered)
	test.Equal(
		t,
		"replies after a refused answer",
		len(test.Must(db.Journal.Created(ctx, []string{"comment-2"}))),
		0,
	)
}

// TestHolds checks that a hold can be kept in spite of newer comments, unless it is the
// operator's, which no comment ends.
func TestHolds(t *testing.T) {
	db := newState(t)
	fill(t, db)
	want := Hold{
		IssueID:   issueOf(4).ID,
		Reason:    reconcile.HoldMaxFailures,
		CommentAt: epoch,
		Since:     epoch,
	}
	test.Equal(t, "holds", test.Must(db.Store.Holds(ctx)), []Hold{want})
	want.CommentAt = epoch.Add(time.Hour)
	test.OK(t, db.Store.KeepHold(ctx, want))
	test.Equal(t, "holds", test.Must(db.Store.Holds(ctx)), []Hold{want})
}
