package state

import (
	"database/sql"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/team"
)

// fill stores a row of every kind.
func fill(t *testing.T, db *DB) {
	t.Helper()
	mono := reconcile.Instant{Boot: "boot-1", Mono: time.Hour}
	issue := func(i int) reconcile.Claim {
		issue := issueOf(i)
		return reconcile.Claim{
			IssueID:       issue.ID,
			Identifier:    issue.Identifier,
			Issue:         issue,
			Project:       "project",
			WorkspaceRoot: "/root",
			Attempt:       i,
			ClaimedAt:     epoch,
		}
	}
	// 1 runs, 2 has ended and is not settled, 3 waits, 4 is held, 5 is done but for its
	// totals.
	for i := 1; i <= 5; i++ {
		c := issue(i)
		c.Status = reconcile.Running
		c.RunID = runID(i)
		run := newRun(i)
		run.Attempt = i
		test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c, Insert: &run}))
		taken := test.Must(db.Journal.TakeRun(ctx, run.ID, worker, epoch))
		tokens := reconcile.Tokens{Input: int64(i), Output: 10, Total: int64(10 + i)}
		thread := reconcile.Thread{ID: fmt.Sprint("thread-", i), WorkspaceID: "space"}
		test.OK(t, db.Journal.SaveThread(ctx, run.ID, run.IssueID, thread, tokens, epoch))
		taken.Phase = reconcile.StreamingTurn
		taken.Turns = 2
		taken.TurnsDone = 1
		taken.Beats = 7
		taken.Tokens = tokens
		taken.ThreadID = thread.ID
		taken.TurnID = "turn"
		taken.WorkspacePath = "/srv/x"
		taken.WorkspaceID = "space"
		taken.LastEvent = "turn_started"
		taken.LastMessage = "It begins."
		taken.LastEventAt = epoch
		taken.Activity = "go test ./..."
		taken.RateLimits = []byte(`{"primary":{"used_percent":12}}`)
		taken.Model = "gpt-5.5"
		taken.Links = []reconcile.Link{{Kind: "pull_request", URL: "https://example.com/r/pull/1"}}
		test.Must(db.Journal.UpdateRun(ctx, epoch, taken))
		if i == 1 {
			fillRemote(t, db, taken)
			test.OK(t, db.Store.RequestStop(ctx, run.ID, reconcile.StopOperator, mono))
			continue
		}
		taken.Outcome = reconcile.Failed
		taken.ErrorCode = "turn_failed"
		taken.ErrorText = "It went wrong."
		taken.AfterRunError = "exit status 1"
		test.OK(t, db.Journal.Finish(ctx, epoch.Add(time.Minute), taken))
		if i > 2 {
			settled(t, db, i)
		}
	}
	for i, verb := range []reconcile.Verb{reconcile.VerbHold, reconcile.VerbPause} {
		test.Must(db.Operator.AddCommand(ctx, reconcile.Command{
			Verb:       verb,
			IssueID:    issueOf(i).ID,
			Identifier: "ABC",
			CreatedAt:  epoch,
		}))
	}
	paused := true
	block := reconcile.Block{
		Code:    "agent_quota",
		Message: "Used up.",
		Since:   epoch,
		NextTry: epoch,
		Tries:   2,
	}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Paused: &paused, AgentBlock: &block}))
	test.OK(t, db.Store.SaveSkips(ctx, epoch, []reconcile.Skip{
		{
			IssueID:    "id-9",
			Identifier: "ABC-9",
			Reason:     "blocked_by",
			Message:    "it waits for ABC-8",
			Title:      "Two lamps",
			URL:        "https://example.com/9",
		},
	}))
	test.OK(t, db.Store.SaveSweep(ctx, epoch))
	reviewed := issueOf(3)
	reviewed.PullRequest = &reconcile.PullRequest{
		URL:    "https://example.com/r/pull/1",
		State:  "open",
		Checks: "passed",
		Review: "required",
	}
	test.OK(t, db.Store.SavePullRequests(ctx, epoch, []reconcile.Issue{reviewed}))
	test.OK(t, db.SetMeta(ctx, "last_good_workflow", "---\n---\nText with 'quotes'.\n"))
	_, err := db.Store.SavePass(ctx, Pass{
		Trigger:   "cron",
		StartedAt: epoch,
		Duration:  time.Second,
		Actions:   3,
		Skipped:   1,
		BootID:    "boot-1",
		Mono:      time.Hour,
		Errors:    []reconcile.Error{{Code: "tracker_error", Message: "No answer."}},
	})
	test.OK(t, err)
	fillRequests(t, db)
	call := reconcile.Call{
		ID:        "call-1",
		RunID:     runID(1),
		Agent:     "agent-1",
		Verb:      reconcile.CallConversation,
		Params:    []byte(`{"model":"m"}`),
		CreatedAt: epoch,
	}
	test.Must(db.Clients.AddCall(ctx, call))
}

// fillRemote makes a run one of a host, with a workspace there.
func fillRemote(t *testing.T, db *DB, run reconcile.Run) {
	t.Helper()
	run.Remote = reconcile.RemoteBegun
	run.HeardAt = epoch
	test.Must(db.Journal.UpdateRun(ctx, epoch, run))
	test.OK(t, db.Journal.SaveRemoteWorkspace(ctx, run, &reconcile.Workspace{
		IssueID: run.IssueID,
		Host:    run.Host,
		Path:    "/srv/x",
	}))
}

// fillRequests adds requests: of run 1 an open, an approved and an expired one; of run 2 one
// that was answered too late.
func fillRequests(t *testing.T, db *DB) {
	t.Helper()
	run := mustRun(t, db, runID(1))
	asked(t, db, run, reconcile.CommandRequest)
	test.Must(
		decided(db, asked(t, db, run, reconcile.FileChangeRequest), reconcile.DecideForSession, early, false),
	)
	expired := asked(t, db, run, reconcile.PermissionsRequest)
	test.Must(
		db.Journal.ResolveRequest(ctx, epoch, expired.IssueID, expired.Number, reconcile.RequestExpired),
	)
	// as it was a moment ago
	test.Must(db.sql.Exec(`UPDATE runs SET outcome = NULL WHERE id = ?`, runID(2)))
	late := asked(t, db, mustRun(t, db, runID(2)), reconcile.QuestionRequest)
	test.Must(db.sql.Exec(`UPDATE runs SET outcome = 'failed' WHERE id = ?`, runID(2)))
	test.Must(decided(db, late, reconcile.DecideAnswer, early, false))
	test.OK(t, db.Journal.SaveCreated(ctx, run.ID, run.IssueID, []reconcile.Created{{
		ID:   "comment-1",
		Kind: "comment",
	}}, epoch))
	for _, c := range commentsOf(run) {
		test.OK(t, db.Store.SaveComment(ctx, c))
	}
	thread := reconcile.Thread{ID: "thread-1", WorkspaceID: "space", Home: "/home/ann/.codex"}
	test.OK(t, db.Journal.RecordLastSeen(ctx, run.ID, run.IssueID, thread, reconcile.LastSeen{
		CommentAt:   epoch,
		Description: "hash",
		Prompt:      "prompt",
	}, epoch))
	fillTeam(t, db)
}

// fillTeam stores a claim of this machine and one of another.
func fillTeam(t *testing.T, db *DB) {
	t.Helper()
	since := team.Instant{Boot: "boot-1", Since: time.Hour}
	test.Must(db.Team.SaveOwnClaims(ctx, []team.Own{{
		Issue:   team.Issue{ID: issueOf(1).ID, Identifier: issueOf(1).Identifier},
		Key:     "3f2a9c1b04de55aa10c7",
		Content: "content",
		Object:  "object",
		Tried:   []team.Try{{Content: "tried", At: since}},
		Renewed: since,
	}}))
	test.OK(t, db.Team.SaveSeenClaims(ctx, []team.Seen{{
		Entry:   team.Entry{Key: "aa10c73f2a9c1b04de55", Object: "object", Content: "content"},
		Looked:  since,
		Age:     time.Minute,
		FirstAt: epoch,
	}}))
}

// commentsOf are symphony's comments on a request, which is open, and about a hold.
func commentsOf(r reconcile.Run) []Comment {
	return []Comment{
		{
			Key:     "request:" + r.ID + ":1",
			IssueID: r.IssueID,
			Number:  1,
			ID:      "comment-3",
			At:      epoch,
			Text:    "hash",
			Shown:   "other",
			Problem: "unclear",
			Seen:    []string{"comment-4"},
		},
		{Key: "hold:id-4:1", IssueID: issueOf(4).ID, ID: "comment-5", At: epoch, Done: true},
	}
}

// settled settles the run of issue i and updates the claim.
func settled(t *testing.T, db *DB, i int) {
	t.Helper()
	c, _, err := db.Views.ClaimByIssue(ctx, issueOf(i).ID)
	test.OK(t, err)
	c.Status = reconcile.Waiting
	c.Kind = reconcile.Backoff
	c.DueAt = epoch.Add(time.Hour)
	c.Failures = 1
	c.ErrorCode = "turn_failed"
	c.ErrorMessage = "It went wrong."
	if i == 4 {
		c.Status = reconcile.Held
		c.HoldReason = reconcile.HoldMaxFailures
		c.HoldMessage = "Too often."
		c.HeldAt = epoch
		c.HoldCommentAt = epoch
	}
	var release *reconcile.Release
	if i == 5 {
		release = &reconcile.Release{Reason: reconcile.StopTerminal, State: "Done"}
	}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{
		Claim:   &c,
		Settle:  runID(i),
		Delete:  i == 5,
		Release: release,
	}))
}

// dump returns the whole database as SQL statements.
func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	var b strings.Builder
	var version int
	test.OK(t, db.QueryRow(`PRAGMA user_version`).Scan(&version))
	fmt.Fprintf(&b, "PRAGMA user_version = %d;\n", version)
	names := lines(
		t,
		db,
		`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`,
	)
	for _, made := range lines(t, db, `SELECT sql FROM sqlite_schema WHERE sql <> '' AND name NOT LIKE 'sqlite_%'
		ORDER BY type DESC, name`) {
		fmt.Fprintf(&b, "%s;\n", made)
	}
	for _, name := range names {
		columns := lines(t, db, `SELECT quote(name) FROM pragma_table_info('`+name+`')`)
		for i, c := range columns {
			columns[i] = strings.ReplaceAll(c, "'", `"`)
		}
		list := strings.Join(columns, ", ")
		for _, values := range lines(t, db, `SELECT concat_ws(', ', quote(`+strings.Join(columns, "), quote(")+`)) FROM `+name) {
			fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES\n  (%s);\n", name, list, values)
		}
	}
	return b.String()
}

func lines(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	return test.Must(rows(tx{db, ctx}, itself[string], query))
}

// TestDatabaseIsOpenedAgain checks that everything that a program stored is there for the next
// one, and that work on it continues.
func TestDatabaseIsOpenedAgain(t *testing.T) {
	dir := newDir(t)
	made := test.Must(Create(ctx, dir, epoch))
	fill(t, made)
	before := dump(t, made.sql)
	test.OK(t, made.Close())

	db := createIn(t, dir)
	if dump(t, db.sql) != before {
		t.Error("opening it changed something")
	}
	rec := test.Must(db.Store.State(ctx))
	if len(rec.Claims) != 4 || len(rec.Runs) != 2 || len(rec.Commands) != 2 || !rec.Paused ||
		rec.AgentBlock == nil {
		t.Fatalf("of 4 claims, 2 unsettled runs, 2 commands, a pause and a block there are: %+v", rec)
	}
	if want := issueOf(3); !reflect.DeepEqual(rec.Claims[2].Issue, want) ||
		rec.Claims[2].Attempt != 3 ||
		rec.Claims[3].HoldReason != reconcile.HoldMaxFailures {
		t.Errorf("claims are %+v", rec.Claims[2:])
	}
	test.Equal(t, "total", test.Must(db.Runs.Totals(ctx)).Tokens.Total, 13+14+15)
	wantRequests(t, db)
	wantComments(t, db)
	test.Equal(t, "what is known of the host", rec.Runs[0].Remote, reconcile.RemoteBegun)
	test.Equal(t, "when the host was heard", rec.Runs[0].HeardAt, epoch)
	test.Equal(t, "the workspace on the host", rec.RemoteWorkspaces[0].Path, "/srv/x")
	wantHome(t, db)
	wantHistory(t, db)
	// A live worker continues, and an ended run can be settled.
	run := rec.Runs[0]
	run.Beats++
	test.Equal(
		t,
		"the stop reason",
		test.Must(db.Journal.UpdateRun(ctx, epoch, run)).Stop,
		reconcile.StopOperator,
	)
	settled(t, db, 2)
	test.Equal(t, "total with the run", test.Must(db.Runs.Totals(ctx)).Tokens.Total, 12+13+14+15)
}

// wantRequests checks what fillRequests stored.
func wantRequests(t *testing.T, db *DB) {
	t.Helper()
	open := test.Must(db.Views.OpenRequests(ctx))
	if len(open) != 1 || open[0].ID() != "ABC-1.1" || open[0].Detail.Command != "make install" {
		t.Errorf("open requests are %+v", open)
	}
	late := test.Must(db.Journal.LateAnswers(ctx, issueOf(2).ID))
	if len(late) != 1 || late[0].Answer.Answers["q1"][0] != "Yes" {
		t.Errorf("late answers are %+v", late)
	}
	made, err := db.Journal.Created(ctx, []string{"comment-1", "comment-2"})
	test.Equal(
		t,
		"error, and comments that are ours",
		[]any{err, made["comment-1"], made["comment-2"]},
		[]any{nil, true, false},
	)
	told, found, err := db.Journal.LastSeen(ctx, "thread-1")
	test.Equal(
		t,
		"error, and what the thread was told",
		[]any{err, found, told.CommentAt},
		[]any{nil, true, epoch},
	)
}

// wantComments checks what fillRequests stored of symphony's comments.
func wantComments(t *testing.T, db *DB) {
	t.Helper()
	want := commentsOf(mustRun(t, db, runID(1)))
	open := test.Must(db.Store.Comments(ctx, nil))
	both := test.Must(db.Store.Comments(ctx, []string{want[1].Key}))
	if len(open) != 1 || !cmp.Equal(open[want[0].Key], want[0]) || len(both) != 2 ||
		!cmp.Equal(both[want[1].Key], want[1]) {
		t.Errorf("comments are %+v, with a done one %+v", open, both)
	}
	if ours := test.Must(db.Journal.Created(ctx, []string{"comment-3", "comment-4", "comment-5"})); len(
		ours,
	) != 2 ||
		ours["comment-4"] {
		t.Errorf("ours are %v", ours)
	}
}

// wantHome checks the thread of the live run.
func wantHome(t *testing.T, db *DB) {
	t.Helper()
	_, here, err := db.Journal.LastThread(ctx, issueOf(1).ID, "/home/ann/.codex")
	test.OK(t, err)
	test.Equal(t, "the last thread", here.ID, "thread-1")
	_, other, err := db.Journal.LastThread(ctx, issueOf(1).ID, "/srv/codex")
	test.OK(t, err)
	test.Equal(t, "the last thread of another home", other.ID, "")
}

// wantHistory checks the releases and the use by day.
func wantHistory(t *testing.T, db *DB) {
	t.Helper()
	found := test.Must(db.Views.FindResults(ctx, ResultFilter{Outcomes: []string{ResultReleased, ResultHandedOver}}))
	test.Equal(t, "releases", found.Total, 1)
	days := test.Must(db.Views.Days(ctx, epoch.Add(-time.Hour)))
	if len(days.Uses) != 1 || days.Uses[0].Tokens.Total == 0 {
		t.Errorf("days are %+v", days.Uses)
	}
}
