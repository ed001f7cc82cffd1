package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

const hookPatience = 20 * time.Second

// openKeys returns the keys of the notifications that may be taken.
func openKeys(t *testing.T, db *DB, now time.Time, standing ...reconcile.Attention) []string {
	t.Helper()
	list := test.Must(db.Attentions.OpenAttentions(ctx, now, hookPatience, "", standing...))
	keys := []string{}
	for _, a := range list {
		keys = append(keys, a.Key)
	}
	return keys
}

func wantOpen(t *testing.T, db *DB, now time.Time, want ...string) {
	t.Helper()
	test.Equal(t, "open", openKeys(t, db, now), append([]string{}, want...))
}

// takes tries to take a stored notification, and reports whether it could.
func takes(t *testing.T, db *DB, now time.Time, a reconcile.Attention, by string) bool {
	t.Helper()
	return test.Must(db.Attentions.TakeAttention(ctx, now, hookPatience, a, by))
}

// heldAt makes a claim held.
func heldAt(t *testing.T, db *DB, c reconcile.Claim, at time.Time) reconcile.Claim {
	t.Helper()
	c.Status = reconcile.Held
	c.HoldReason = reconcile.HoldMaxFailures
	c.HoldMessage = "too often"
	c.HeldAt = at
	return changed(t, db, c, at)
}

func changed(t *testing.T, db *DB, c reconcile.Claim, at time.Time) reconcile.Claim {
	t.Helper()
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Claim: &c}))
	c, _, err := db.Views.ClaimByIssue(ctx, c.IssueID)
	test.OK(t, err)
	return c
}

// TestAttentionOfAHold checks that a claim that becomes held is notified once, and again if it
// becomes held again.
func TestAttentionOfAHold(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	wantOpen(t, db, epoch)
	c = heldAt(t, db, c, epoch)
	first := reconcile.HoldAttention(c)
	wantOpen(t, db, epoch, first.Key)
	if !strings.HasPrefix(first.Text, "ABC-1 is held: too often") ||
		first.Kind != reconcile.AttentionHold {
		t.Errorf("it says %+v", first)
	}
	c = heldAt(t, db, c, epoch.Add(time.Hour)) // it is held already
	wantOpen(t, db, epoch, first.Key)
	c.Status = reconcile.Waiting
	c = changed(t, db, c, epoch.Add(2*time.Hour))
	c = heldAt(t, db, c, epoch.Add(3*time.Hour))
	wantOpen(t, db, epoch, first.Key, reconcile.HoldAttention(c).Key)
}

// TestAttentionIsTakenOnce checks that only one of two processes takes a notification.
func TestAttentionIsTakenOnce(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	other := openIn(t, dir)
	a := reconcile.HoldAttention(heldAt(t, db, claim(t, db, 1), epoch))
	test.Equal(
		t,
		"taken by one of two",
		[]any{takes(t, db, epoch, a, "pass"), takes(t, other, epoch, a, "run-1")},
		[]any{true, false},
	)
	wantOpen(t, other, epoch)
	test.OK(t, db.Attentions.DoneAttention(ctx, epoch.Add(time.Second), a.Key, ""))
	wantOpen(t, db, epoch.Add(time.Hour))
	test.Equal(t, "it was delivered twice", takes(t, db, epoch.Add(time.Hour), a, "pass"), false)
}

// TestAttentionOfADeadProcess checks that a notification whose process has died can be taken a
// second time, after the time that a hook may take, but not a third time.
func TestAttentionOfADeadProcess(t *testing.T) {
	db := newState(t)
	a := reconcile.HoldAttention(heldAt(t, db, claim(t, db, 1), epoch))
	takes(t, db, epoch, a, "run-1")
	soon := epoch.Add(hookPatience)
	later := epoch.Add(hookPatience + time.Millisecond)
	wantOpen(t, db, soon)
	test.Equal(
		t,
		"it was taken from a process that may be delivering it",
		takes(t, db, soon, a, "pass"),
		false,
	)
	wantOpen(t, db, later, a.Key)
	test.Equal(t, "it was taken again", takes(t, db, later, a, "pass"), true)
	wantOpen(t, db, later.Add(time.Hour))
	test.Equal(t, "it was tried three times", takes(t, db, later.Add(time.Hour), a, "pass"), false)

	// A pass reports and closes what the dead process left.
	for _, want := range []bool{true, false} {
		test.Equal(
			t,
			"something is left",
			test.Must(db.Attentions.LeftAttentions(ctx, later.Add(time.Hour), hookPatience, "pass")),
			want,
		)
		test.OK(t, db.Attentions.GiveUpAttentions(ctx, later.Add(time.Hour), hookPatience, "pass"))
	}

	// A clock that was set back does not delay the second time.
	b := reconcile.HoldAttention(heldAt(t, db, claim(t, db, 2), epoch))
	takes(t, db, epoch, b, "run-1")
	wantOpen(t, db, epoch.Add(-time.Hour), b.Key)
}

// TestStandingAttention checks that a condition without a stored event is notified once, and a
// tracker outage once it has lasted long enough.
func TestStandingAttention(t *testing.T) {
	db := newState(t)
	set := func(b reconcile.Block) {
		t.Helper()
		test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{TrackerBlock: &b}))
	}
	b := reconcile.Block{Code: "linear_api_status", Message: "HTTP 503", Since: epoch}
	set(b)
	wantOpen(t, db, epoch.Add(5*time.Minute-time.Millisecond))
	now := epoch.Add(5 * time.Minute)
	a, _ := reconcile.OutageAttention(b, now)
	wantOpen(t, db, now, a.Key)
	test.Equal(t, "it was taken", takes(t, db, now, a, "pass"), true)
	test.OK(t, db.Attentions.DoneAttention(ctx, now, a.Key, ""))
	b.Code = "tracker_rate_limited"
	set(b)
	wantOpen(t, db, now.Add(time.Hour))

	login := reconcile.BlockAttention(reconcile.Block{
		Code:    "agent_auth",
		Message: "not logged in",
		Since:   epoch,
	})
	test.Equal(t, "open", openKeys(t, db, now, login), []string{login.Key})
	takes(t, db, now, login, "pass")
	test.Equal(t, "open after it was taken", len(openKeys(t, db, now, login)), 0)

	// The reset time that codex reports differs slightly from report to report.
	for i, until := range []time.Duration{-2 * time.Second, 2 * time.Second, 5 * time.Hour} {
		l := reconcile.Limit{
			Window: "primary",
			Since:  now,
			Until:  epoch.Truncate(time.Hour).Add(90*time.Minute + until),
		}
		limit := reconcile.LimitAttention(l, "/home/ann/.codex", now)
		test.Equal(
			t,
			fmt.Sprint("is the limit notified: ", i),
			(len(openKeys(t, db, now, limit)) == 1),
			i != 1,
		)
		takes(t, db, now, limit, "pass")
	}
}

// TestAttentionsAreDropped checks that DropAttentions closes the notifications so far, but no
// later one.
func TestAttentionsAreDropped(t *testing.T) {
	db := newState(t)
	heldAt(t, db, claim(t, db, 1), epoch)
	test.OK(t, db.Attentions.DropAttentions(ctx, epoch))
	wantOpen(t, db, epoch.Add(time.Hour))
	c := heldAt(t, db, claim(t, db, 2), epoch.Add(time.Hour))
	wantOpen(t, db, epoch.Add(time.Hour), reconcile.HoldAttention(c).Key)
}

// TestPruneAttentions checks that notifications are pruned after a month, but not while there
// is a block.
func TestPruneAttentions(t *testing.T) {
	db := newState(t)
	now := epoch.Add(31 * day)
	auth := reconcile.Block{Code: "agent_auth", Message: "not logged in", Since: epoch}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{AgentBlock: &auth}))
	recent := reconcile.HoldAttention(heldAt(t, db, claim(t, db, 2), now.Add(-29*day))).Key
	passAt(t, db, now)
	prune(t, db, now, 50)
	wantOpen(t, db, now, reconcile.BlockAttention(auth).Key, recent)
	test.OK(t, db.Store.Commit(ctx, now, reconcile.Change{AgentBlock: &reconcile.Block{}}))
	prune(t, db, now.Add(time.Hour), 50)
	wantOpen(t, db, now, recent)
}

// TestAttentionOfARequest checks that a request is notified as long as it can be answered.
func TestAttentionOfARequest(t *testing.T) {
	db := newState(t)
	open := asked(t, db, startedRun(t, db, 1), reconcile.CommandRequest).Attention()
	answered := asked(t, db, startedRun(t, db, 2), reconcile.CommandRequest)
	wantOpen(t, db, epoch, open.Key, answered.Attention().Key)
	test.Must(decided(db, answered, reconcile.DecideDeny, early, false))
	wantOpen(t, db, epoch, open.Key)
	test.Equal(t, "it was taken after the answer", takes(t, db, epoch, answered.Attention(), "pass"), false)
	withdrawn := asked(t, db, startedRun(t, db, 3), reconcile.CommandRequest)
	test.Must(
		db.Journal.ResolveRequest(
			ctx,
			epoch,
			withdrawn.IssueID,
			withdrawn.Number,
			reconcile.RequestWithdrawn,
		),
	)
	wantOpen(t, db, epoch, open.Key)
	// After its run has ended only a question can be answered, unless the answer is a secret:
	// the next run receives it.
	run := startedRun(t, db, 4)
	question := asked(t, db, run, reconcile.QuestionRequest).Attention()
	hidden := requestOf(run, reconcile.QuestionRequest)
	hidden.Detail.Questions[0].Secret = true
	hidden.Detail.SealKey = []byte("key")
	wantOpen(
		t,
		db,
		epoch,
		open.Key,
		question.Key,
		test.Must(db.Journal.AddRequest(ctx, hidden)).Attention().Key,
	)
	finishRun(t, db, mustRun(t, db, runID(1)))
	finishRun(t, db, run)
	wantOpen(t, db, epoch, question.Key)
}

// TestAttentionOfAHost checks that the notification of a host's block names the host, and that
// each host has one.
func TestAttentionOfAHost(t *testing.T) {
	db := newState(t)
	blocks := map[string]reconcile.Block{}
	for _, host := range []string{"far", "near"} {
		blocks[host] = reconcile.Block{Code: "host_unreachable", Message: host + ": no route", Since: epoch}
	}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{RemoteBlocks: blocks}))
	var texts []string
	for _, a := range test.Must(db.Attentions.OpenAttentions(ctx, epoch, hookPatience, "")) {
		texts = append(texts, a.Text)
	}
	test.Equal(t, "texts", texts, []string{
		"nothing new starts on far: host_unreachable: no route",
		"nothing new starts on near: host_unreachable: no route",
	})
}
