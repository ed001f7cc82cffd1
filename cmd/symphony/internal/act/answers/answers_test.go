package answers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

var epoch = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const (
	own = "symphony@example.com" // the user of the key
	kim = "kim@example.com"      // an operator
	eve = "eve@example.com"      // another user
)

// scene is a project with one live run of ABC-7, and a tracker that is a list of comments.
type scene struct {
	t          *testing.T
	db         *state.DB
	exchange   Exchange
	comments   []reconcile.Comment // the oldest first
	calls      []string
	fails      map[string]error // by the name of the call
	lost       bool             // a post or edit is made, but its answer is lost
	normalises bool             // the tracker changes texts a little
	ignored    []string
	alive      bool
	now        time.Time
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, fails: map[string]error{}, alive: true, now: epoch}
	s.db = test.Must(state.Create(t.Context(), t.TempDir()+"/state", epoch))
	t.Cleanup(func() { s.db.Close() })
	run := reconcile.Run{
		ID:         "run-1",
		Kind:       reconcile.AgentRun,
		IssueID:    "id-7",
		Identifier: "ABC-7",
		Phase:      reconcile.Starting,
		StartedAt:  epoch,
	}
	test.OK(t, s.db.Store.Commit(t.Context(), epoch, reconcile.Change{Insert: &run}))
	test.Must(s.db.Journal.TakeRun(t.Context(), run.ID, reconcile.Handle{}, epoch))
	s.exchange = Exchange{
		DB:        s.db,
		Operators: []string{"Kim@example.com"},
		Now:       func() time.Time { return s.now },
		At:        reconcile.Instant{Boot: "b"},
		Alive:     func(string) bool { return s.alive },
		Ignore:    func(issue, reply string) { s.ignored = append(s.ignored, issue+": "+reply) },
		Tracker: &reconcile.TrackerAdapter{
			Tracker:  s,
			Comments: s.list,
			Post:     s.post,
			Edit: func(_ context.Context, issue, id, body string) (string, error) {
				s.calls = append(s.calls, "edit")
				i := slices.IndexFunc(s.comments, func(c reconcile.Comment) bool { return c.ID == id })
				if i < 0 {
					return "", fmt.Errorf("comment %s of %s: %w", id, issue, reconcile.ErrGone)
				}
				if s.fails["edit"] == nil {
					s.comments[i].Body = s.stored(body)
				}
				if s.lost {
					s.lost = false
					return "", errors.New("no answer in time")
				}
				return s.comments[i].Body, s.fails["edit"]
			},
		},
	}
	return s
}

func (s *scene) list(_ context.Context, issue string, since time.Time) (list []reconcile.Comment, err error) {
	s.calls = append(s.calls, "comments")
	for _, c := range slices.Backward(s.comments) {
		if c.CreatedAt.After(since) && issue == "id-7" {
			list = append(list, c)
		}
	}
	return list, s.fails["comments"]
}

func (s *scene) post(_ context.Context, _, body string) (reconcile.Comment, error) {
	s.calls = append(s.calls, "post")
	if err := s.fails["post"]; err != nil {
		return reconcile.Comment{}, err
	}
	made := s.comment(own, s.stored(body))
	if s.lost {
		s.lost = false
		return reconcile.Comment{}, errors.New("no answer in time")
	}
	return made, nil
}

func (s *scene) stored(body string) string {
	if s.normalises {
		body = strings.ReplaceAll(body, "\n- ", "\n* ")
	}
	return body
}

func (*scene) Candidates(context.Context, []string) ([]reconcile.Issue, error) { return nil, nil }

func (s *scene) ByIDs(context.Context, []string) (map[string]reconcile.Issue, error) {
	issue := reconcile.Issue{ID: "id-7", Identifier: "ABC-7", State: "Todo"}
	if n := len(s.comments); n > 0 {
		issue.LastCommentAt = &s.comments[n-1].CreatedAt
	}
	return map[string]reconcile.Issue{"id-7": issue}, nil
}

// comment makes a comment, all within one minute, to which some trackers round.
func (s *scene) comment(author, body string) reconcile.Comment {
	c := reconcile.Comment{
		ID:        fmt.Sprint("c", len(s.comments)+1),
		Author:    "Kim Poe",
		AuthorIDs: []string{"u-" + author, author},
		Own:       author == own,
		Body:      body,
		CreatedAt: s.now.Truncate(time.Minute),
	}
	s.comments = append(s.comments, c)
	return c
}

func (s *scene) ask(r reconcile.Request) reconcile.Request {
	s.t.Helper()
	r.IssueID = "id-7"
	r.Identifier = "ABC-7"
	r.RunID = "run-1"
	r.AskedAt = s.now
	r.ExpiresAt = s.now.Add(time.Hour)
	r.Deadline = reconcile.Instant{Boot: "b", Mono: time.Hour}
	return test.Must(s.db.Journal.AddRequest(s.t.Context(), r))
}

func (s *scene) pass() {
	s.t.Helper()
	for _, err := range s.exchange.Pass(s.t.Context()) {
		s.t.Error(err)
	}
}

func (s *scene) passes(count int) {
	s.t.Helper()
	for range count {
		s.pass()
	}
}

// calling runs a pass and checks what it asks the tracker for.
func (s *scene) calling(what string, want ...string) {
	s.t.Helper()
	s.calls = nil
	s.pass()
	test.Equal(s.t, what, s.calls, want)
}

// asked is a scene with requests that have their comments.
func asked(t *testing.T, list ...reconcile.Request) *scene {
	t.Helper()
	s := newScene(t)
	for _, r := range list {
		s.ask(r)
	}
	s.pass()
	return s
}

// reply makes a comment of the operator and runs a pass.
func (s *scene) reply(text string) {
	s.t.Helper()
	s.comment(kim, text)
	s.pass()
}

// request returns the request as it is now.
func (s *scene) request(number int) reconcile.Request {
	s.t.Helper()
	return test.Must(s.db.RequestByID(s.t.Context(), "id-7", number))
}

func command(text string) reconcile.Request {
	return reconcile.Request{
		Kind:    reconcile.CommandRequest,
		Summary: text,
		Outside: true,
		Detail:  reconcile.RequestDetail{Command: text, Cwd: "/ws/ABC-7"},
	}
}

func question(q ...reconcile.RequestQuestion) reconcile.Request {
	return reconcile.Request{
		Kind:    reconcile.QuestionRequest,
		Summary: "which?",
		Detail:  reconcile.RequestDetail{Questions: q},
	}
}

// A request becomes one comment. The reply of an operator decides it, and the comment shows
// the decision. Then nothing is asked.
func TestRequestIsAnsweredByAComment(t *testing.T) {
	s := newScene(t)
	s.pass()
	s.ask(command("make install"))
	s.passes(2)
	test.Equal(t, "the requests to the tracker", s.calls, []string{"post", "comments"})
	test.Contains(
		t,
		"the comment",
		s.comments[0].Body,
		"outside the sandbox",
		"`ABC-7.1`",
		"```text\nmake install\n```",
		"`/ws/ABC-7`",
		"2026-03-02 13:00 UTC",
		"`approve for session`",
		"\n<!-- symphony:request run-1 1 -->",
	)
	s.reply("Approve!\n\nThanks.")
	r := s.request(1)
	if r.Decision != reconcile.DecideApprove || r.Answer.By != "Kim Poe (Kim@example.com)" ||
		len(s.comments) != 2 {
		t.Errorf("%+v, %+v", r, s.comments)
	}
	test.Contains(t, "after the decision", s.comments[0].Body, "**Approved** by `Kim Poe (Kim@example.com)`")
	test.Lacks(t, "after the decision", s.comments[0].Body, "deny")
	test.Equal(
		t,
		"symphony wrote the comment c2",
		test.Must(s.db.Journal.Created(t.Context(), []string{"c1", "c2"}))["c2"],
		true,
	)
	s.calling("the requests afterwards")
}

func TestReplies(t *testing.T) {
	colours := []reconcile.RequestOption{{Label: "Red"}, {Label: "Blue", Description: "the sky"}}
	one := question(reconcile.RequestQuestion{ID: "q", Text: "Which?", Options: colours})
	other := question(reconcile.RequestQuestion{
		ID:      "q",
		Text:    "Which?",
		Options: colours,
		Other:   true,
	})
	several := question(reconcile.RequestQuestion{
		ID:      "q",
		Text:    "Which?",
		Options: colours,
		Several: true,
	})
	text := question(reconcile.RequestQuestion{ID: "q", Text: "Why?"})
	two := question(reconcile.RequestQuestion{
		ID:      "a",
		Text:    "Which?",
		Options: colours,
	}, reconcile.RequestQuestion{
		ID:   "b",
		Text: "Why?",
	})
	secret := question(reconcile.RequestQuestion{ID: "q", Text: "The password?", Secret: true})
	secret.Detail.SealKey = []byte("key")
	long := command(strings.Repeat("x", longestDetail+1))
	for name, c := range map[string]struct {
		r       reconcile.Request
		reply   string
		want    reconcile.RequestDecision
		answer  string // reason or answers
		problem string
	}{
		"approve":           {command("x"), "APPROVE", reconcile.DecideApprove, "", ""},
		"approve by id":     {command("x"), "approve abc-7.1", reconcile.DecideApprove, "", ""},
		"approve by code":   {command("x"), "approve `ABC-7.1`", reconcile.DecideApprove, "", ""},
		"id first":          {command("x"), "ABC-7.1: approve", reconcile.DecideApprove, "", ""},
		"for session":       {command("x"), "Approve for session", reconcile.DecideForSession, "", ""},
		"for session by id": {command("x"), "approve ABC-7.1 for session", reconcile.DecideForSession, "", ""},
		"quote": {
			command("x"),
			"> The agent asks to run a command\n> approve or deny\n\napprove\r\n",
			reconcile.DecideApprove,
			"",
			"",
		},
		"deny": {command("x"), "deny", reconcile.DecideDeny, "", ""},
		"deny with reason": {
			command("x"),
			"Deny: not `today`\nsorry",
			reconcile.DecideDeny,
			"not `today`\nsorry",
			"",
		},
		"deny by id":      {command("x"), "deny ABC-7.1: no", reconcile.DecideDeny, "no", ""},
		"deny in words":   {command("x"), "deny, it is dangerous", reconcile.DecideDeny, "it is dangerous", ""},
		"another request": {command("x"), "approve ABC-7.2", "", "", "no open request 2"},
		"another issue":   {command("x"), "approve ABC-8.1", "", "", "no open request `ABC-8.1` on this issue"},
		"no id": {
			command("x"),
			"deny: log4j-2.17 is vulnerable",
			reconcile.DecideDeny,
			"log4j-2.17 is vulnerable",
			"",
		},
		"no answer":           {text, "approve ABC-8.1", "", "", "no open request `ABC-8.1` on this issue"},
		"a doubt":             {command("x"), "approve? really?", "", "", "must begin with"},
		"a condition":         {command("x"), "approve if the tests pass", "", "", "must begin with"},
		"a sentence":          {command("x"), "I do not\napprove", "", "", "must begin with"},
		"only a quote":        {command("x"), "> approve", "", "", "must begin with"},
		"too long to approve": {long, "approve", "", "", "too long"},
		"too long to deny":    {long, "deny", reconcile.DecideDeny, "", ""},
		"option":              {one, "2", reconcile.DecideAnswer, "map[q:[Blue]]", ""},
		"option by its label": {one, "blue", reconcile.DecideAnswer, "map[q:[Blue]]", ""},
		"no option":           {one, "3", "", "", "accepts only its options"},
		"other text":          {other, "Green", reconcile.DecideAnswer, "map[q:[Green]]", ""},
		"two options":         {several, "2, 1", reconcile.DecideAnswer, "map[q:[Blue Red]]", ""},
		"text": {
			text,
			"ABC-7.1: because\n\nit is so",
			reconcile.DecideAnswer,
			"map[q:[because\n\nit is so]]",
			"",
		},
		"text with a verb":   {text, "deny lists are bad", reconcile.DecideAnswer, "map[q:[deny lists are bad]]", ""},
		"a question denied":  {text, "deny: ask later", reconcile.DecideDeny, "ask later", ""},
		"tell by id":         {text, "tell ABC-7.1 yes", reconcile.DecideAnswer, "map[q:[yes]]", ""},
		"two questions":      {two, "1\nbecause", reconcile.DecideAnswer, "map[a:[Red] b:[because]]", ""},
		"a blank between":    {two, "1\n \t\nbecause", reconcile.DecideAnswer, "map[a:[Red] b:[because]]", ""},
		"one of two answers": {two, "1", "", "", "it has 1 line, and there are 2 questions"},
		"secret":             {secret, "hunter2", "", "", "a secret can't be answered here"},
		"secret denied":      {secret, "deny", reconcile.DecideDeny, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := asked(t, c.r)
			test.Lacks(t, "the comment", s.comments[0].Body, "password")
			s.reply(c.reply)
			r := s.request(1)
			body := s.comments[0].Body
			got := r.Answer.Reason
			if r.Decision == reconcile.DecideAnswer {
				got = fmt.Sprint(r.Answer.Answers)
			}
			if r.Decision != c.want || got != c.answer ||
				strings.Contains(body, "decided nothing") != (c.problem != "") ||
				!strings.Contains(body, c.problem) {
				t.Errorf(
					"decided %q %q, want %q %q; the comment: %s",
					r.Decision,
					got,
					c.want,
					c.answer,
					body,
				)
			}
		})
	}
}

// Only the reply of an operator decides, and only one that is certainly the operator's own.
// Others are logged once.
func TestWhoseRepliesCount(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(s *scene, reply *reconcile.Comment)
		decides bool
		ignored int
	}{
		"an operator": {func(*scene, *reconcile.Comment) {}, true, 0},
		"an operator by id": {func(s *scene, r *reconcile.Comment) {
			s.exchange.Operators = []string{"U-9"}
			r.AuthorIDs = []string{"u-9"}
		}, true, 0},
		"another user": {func(_ *scene, r *reconcile.Comment) { r.AuthorIDs = []string{"u-2", eve} }, false, 1},
		"a name like an operator": {func(_ *scene, r *reconcile.Comment) {
			r.Author = kim
			r.AuthorIDs = []string{"u-2", eve}
		}, false, 1},
		"a letter like k": {
			func(_ *scene, r *reconcile.Comment) { r.AuthorIDs = []string{"\u212aim@example.com"} },
			false,
			1,
		},
		"an unknown author": {func(_ *scene, r *reconcile.Comment) { r.AuthorIDs = nil }, false, 1},
		"an empty id": {func(s *scene, r *reconcile.Comment) {
			s.exchange.Operators = []string{""}
			r.AuthorIDs = []string{""}
		}, false, 1},
		"with symphony's key": {func(_ *scene, r *reconcile.Comment) { r.Own = true }, false, 1},
		"with a marker": {
			func(_ *scene, r *reconcile.Comment) { r.Body += "\n\n<!-- symphony:agent -->" },
			false,
			0,
		},
		"of an agent's tool": {func(s *scene, r *reconcile.Comment) {
			made := []reconcile.Created{{Kind: "comment", ID: r.ID}}
			test.OK(s.t, s.db.Journal.SaveCreated(s.t.Context(), "run-1", "id-7", made, epoch))
		}, false, 0},
		"edited":               {func(_ *scene, r *reconcile.Comment) { r.Edited = true }, false, 0},
		"older than the asked": {func(s *scene, _ *reconcile.Comment) { slices.Reverse(s.comments) }, false, 0},
		"after the comment was deleted": {func(s *scene, r *reconcile.Comment) {
			r.CreatedAt = r.CreatedAt.Add(time.Minute)
			s.comments = []reconcile.Comment{*r}
		}, false, 1},
		"on another issue": {func(s *scene, _ *reconcile.Comment) { s.comments = s.comments[:1] }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := asked(t, command("make"))
			s.comment(kim, "approve")
			c.change(s, &s.comments[1])
			s.passes(3)
			r := s.request(1)
			if (r.Decision != "") != c.decides || len(s.ignored) != c.ignored || len(s.comments) > 2 {
				t.Errorf("decided %q, ignored %q, comments %+v", r.Decision, s.ignored, s.comments)
			}
		})
	}
}

// The output of a pass that a worker has started is not read, so that it leaves what it would
// log to another pass.
func TestIgnoredReplyIsLoggedWhereItIsRead(t *testing.T) {
	s := asked(t, command("make"))
	s.comment(eve, "approve")
	log := s.exchange.Ignore
	s.exchange.Ignore = nil
	s.pass()
	s.exchange.Ignore = log
	s.passes(2)
	test.Equal(
		t,
		"what is logged",
		s.ignored,
		[]string{`ABC-7: a comment of "Kim Poe", who is not in tracker.operators`},
	)
}

// A comment that an agent or a person has changed is written again, and the replies so far
// decide nothing, because they may be about what it said. Some trackers change texts
// themselves.
func TestChangedComment(t *testing.T) {
	for _, normalises := range []bool{false, true} {
		s := newScene(t)
		s.normalises = normalises
		s.ask(command("rm -rf ~"))
		s.pass()
		s.comments[0].Body = strings.Replace(s.comments[0].Body, "rm -rf ~", "ls", 1)
		s.comment(kim, "approve")
		s.passes(2)
		test.Equal(t, "the decision", s.request(1).Decision, "")
		test.Contains(t, "the comment", s.comments[0].Body, "rm -rf ~", "was changed")
		s.reply("deny")
		test.Equal(t, "the decision", s.request(1).Decision, reconcile.DecideDeny)
	}
}

// If it is unknown whether symphony's comment was made or changed, a reply to its true text
// decides, and one to another text does not.
func TestReplyAfterALostAnswer(t *testing.T) {
	s := asked(t, command("make"))
	s.comment(kim, "what is this?")
	s.lost = true
	test.Equal(t, "how many errors a pass has", len(s.exchange.Pass(t.Context())), 1)
	s.reply("approve")
	test.Equal(t, "the decision after a lost edit", s.request(1).Decision, reconcile.DecideApprove)

	s = newScene(t)
	s.ask(command("rm -rf ~"))
	s.lost = true
	test.Equal(t, "how many errors a pass has", len(s.exchange.Pass(t.Context())), 1)
	s.comments[0].Body = strings.Replace(s.comments[0].Body, "rm -rf ~", "ls", 1)
	s.comment(kim, "approve")
	s.passes(3)
	test.Equal(t, "the decision", s.request(1).Decision, "")
	test.Contains(t, "the comment", s.comments[0].Body, "rm -rf ~", "write a new answer")
}

// A reply decides a request whose comment was deleted no more, but others as before.
func TestOneCommentIsDeleted(t *testing.T) {
	s := asked(t, command("one"), command("two"))
	s.comments = s.comments[1:]
	s.now = s.now.Add(time.Minute)
	s.reply("approve ABC-7.1")
	s.reply("approve ABC-7.2")
	test.Equal(t, "the first decision", s.request(1).Decision, "")
	test.Equal(t, "the second decision", s.request(2).Decision, reconcile.DecideApprove)
}

// With several open requests an answer without an id decides none of them, then or later, and
// is explained once.
func TestSeveralRequests(t *testing.T) {
	s := asked(t, command("one"), command("two"))
	s.reply("approve")
	for _, c := range s.comments[:2] {
		test.Contains(t, "the comment", c.Body, "write the id before the answer (`ABC-7.1`, `ABC-7.2`)")
	}
	s.comment(kim, "approve")
	s.calling("the requests for a second such answer", "comments")
	s.comment(kim, "deny ABC-7.2: no")
	s.passes(2)
	first := s.request(1)
	second := s.request(2)
	if first.Decision != "" ||
		second.Decision != reconcile.DecideDeny ||
		second.Answer.Reason != "no" {
		t.Errorf("%+v\n%+v", first, second)
	}
	s.reply("approve ABC-7.1")
	test.Equal(t, "the decision of the last one", s.request(1).Decision, reconcile.DecideApprove)
}

// A pass that was killed right after it made a comment does not know that it is there. Its
// readers do.
func TestAnswerBesideAnUnknownComment(t *testing.T) {
	s := asked(t, command("one"))
	s.ask(command("two"))
	s.lost = true
	test.Equal(t, "the pass has failed", len(s.exchange.Pass(t.Context())) > 0, true)
	s.comment(kim, "approve")
	s.fails["post"] = errors.New("down")
	_ = s.exchange.Pass(t.Context())
	test.Equal(
		t,
		"the decisions",
		[]any{s.request(1).Decision, s.request(2).Decision},
		[]any{reconcile.RequestDecision(""), reconcile.RequestDecision("")},
	)
}

// An answer to a request that has ended, for instance to the mail about it, does not decide
// the next one, which its author may not have seen. After a day without another request no id
// is needed.
func TestAnswerToAnEarlierRequest(t *testing.T) {
	s := asked(t, command("one"))
	test.Must(s.db.Journal.ResolveRequest(t.Context(), s.now, "id-7", 1, reconcile.RequestExpired))
	s.pass()
	s.now = s.now.Add(23 * time.Hour)
	s.ask(command("two"))
	s.pass()
	test.Contains(
		t,
		"the comment",
		s.comments[1].Body,
		"the agent has asked for something else in the last day: `ABC-7.2: …`",
	)
	s.reply("approve")
	test.Equal(t, "the decision", s.request(2).Decision, "")
	test.Contains(t, "the comment", s.comments[1].Body, "write the id before the answer (`ABC-7.2`)")
	s.reply("ABC-7.2: approve")
	test.Equal(t, "the decision with the id", s.request(2).Decision, reconcile.DecideApprove)
	s.now = s.now.Add(25 * time.Hour)
	s.ask(command("three"))
	s.pass()
	s.reply("approve")
	test.Equal(t, "the decision after a day", s.request(3).Decision, reconcile.DecideApprove)
}

// The first of two replies decides. A command may decide it as well; then a reply that came at
// the same time decides no other.
func TestDecidedElsewhere(t *testing.T) {
	s := asked(t, command("one"), command("two"))
	r := s.request(1)
	r.Decision = reconcile.DecideDeny
	test.Must(s.db.Operator.DecideRequest(t.Context(), s.now, s.exchange.At, r, false))
	s.comment(kim, "approve") // of which one?
	s.pass()
	test.Equal(t, "the decision", s.request(2).Decision, "")
	test.Contains(t, "the comment", s.comments[0].Body, "**Denied** by a command of symphony.")
	s.comment(kim, "approve ABC-7.2")
	s.comment(kim, "deny ABC-7.2")
	s.passes(2)
	test.Equal(t, "the decision", s.request(2).Decision, reconcile.DecideApprove)
	test.Equal(t, "how many comments there are", len(s.comments), 5)
}

// The comment shows how a request ended without a decision. A late answer to a question is
// kept for the next run.
func TestEndedRequests(t *testing.T) {
	text := question(reconcile.RequestQuestion{ID: "q", Text: "Why?"})
	for name, c := range map[string]struct {
		r     reconcile.Request
		reply string
		end   func(s *scene)
		want  string
	}{
		"expired": {command("x"), "", func(s *scene) {
			test.Must(s.db.Journal.ResolveRequest(s.t.Context(), s.now, "id-7", 1, reconcile.RequestExpired))
		}, "**Expired**"},
		"withdrawn": {command("x"), "approve", func(s *scene) {
			test.Must(s.db.Journal.ResolveRequest(s.t.Context(), s.now, "id-7", 1, reconcile.RequestWithdrawn))
		}, "**Withdrawn**"},
		"ended":         {command("x"), "approve", finish, "**Ended**"},
		"answered late": {text, "because", finish, "the next one gets the answer"},
		"answered by a reply": {
			text,
			"because",
			func(*scene) {},
			"**Answered** by `Kim Poe (Kim@example.com)`. `because`",
		},
		"not answered": {text, "", finish, "**Ended**"},
	} {
		t.Run(name, func(t *testing.T) {
			s := asked(t, c.r)
			c.end(s)
			if c.reply != "" {
				s.comment(kim, c.reply)
			}
			s.pass()
			test.Contains(t, "the comment", s.comments[0].Body, c.want)
			s.calling("the requests afterwards")
		})
	}
}

func finish(s *scene) {
	run := test.Must(s.db.Runs.Find(s.t.Context(), "run-1"))
	run.Outcome = reconcile.Failed
	run.Phase = reconcile.Finishing
	test.OK(s.t, s.db.Journal.Finish(s.t.Context(), s.now, run))
	s.alive = false
}

// What fails is shown and tried again by the next pass. A comment is made once, even if the
// answer of the tracker was lost.
func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		before, after func(s *scene) // the first and the second pass
		comments      int
		says          string
	}{
		"the answer was lost":  {func(s *scene) { s.lost = true }, func(*scene) {}, 1, "make"},
		"it could not be made": {func(s *scene) { s.fails["post"] = broken }, func(*scene) {}, 1, "make"},
		"the marker was lost": {func(s *scene) { s.lost = true }, func(s *scene) {
			s.comments[0].Body, _, _ = strings.Cut(s.comments[0].Body, "\n<!--")
		}, 1, "make"},
		"another has the marker": {func(s *scene) { s.fails["post"] = broken }, func(s *scene) {
			s.comment(eve, marker(reconcile.Request{RunID: "run-1", Number: 1}))
		}, 2, "make"},
		"an agent has the marker": {func(s *scene) { s.fails["post"] = broken }, func(s *scene) {
			made := []reconcile.Created{{
				Kind: "comment",
				ID:   s.comment(own, marker(reconcile.Request{RunID: "run-1", Number: 1})).ID,
			}}
			test.OK(s.t, s.db.Journal.SaveCreated(s.t.Context(), "run-1", "id-7", made, epoch))
		}, 2, "make"},
		"it ended before it was made": {func(s *scene) { s.fails["post"] = broken }, finish, 0, ""},
		"it ended after it was made":  {func(s *scene) { s.lost = true }, finish, 1, "**Ended**"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.ask(command("make"))
			c.before(s)
			if errs := s.exchange.Pass(t.Context()); len(errs) != 1 ||
				!strings.Contains(errs[0].Error(), "symphony's comment on ABC-7: ") {
				t.Errorf("the first pass: %v", errs)
			}
			clear(s.fails)
			c.after(s)
			s.passes(2)
			if n := len(s.comments); n != c.comments ||
				n > 0 && !strings.Contains(s.comments[n-1].Body, c.says) {
				t.Errorf("the comments are %+v, want %d", s.comments, c.comments)
			}
		})
	}
}

// An edit is repeated until it succeeds, but not if the comment or the issue was deleted. A
// comment that a person has deleted is not made again.
func TestEditFails(t *testing.T) {
	s := asked(t, command("make"))
	s.comment(kim, "approve")
	s.fails["edit"] = errors.New("broken")
	for range 2 {
		test.Equal(t, "how many errors a pass has", len(s.exchange.Pass(t.Context())), 1)
		test.Equal(t, "the decision", s.request(1).Decision, reconcile.DecideApprove)
	}
	clear(s.fails)
	s.comments = s.comments[1:]
	s.calls = nil
	s.passes(2)
	test.Equal(t, "the requests after it was deleted", s.calls, []string{"edit"})

	s.fails["post"] = reconcile.ErrGone
	s.ask(command("again"))
	s.calls = nil
	s.passes(2)
	test.Equal(t, "the requests after the issue has vanished", s.calls, []string{"post"})
}

type limited struct{ error }

func (limited) ResetAt() time.Time { return epoch }

// After a rate limit the pass asks nothing more.
func TestRateLimit(t *testing.T) {
	s := newScene(t)
	s.ask(command("one"))
	s.ask(command("two"))
	s.fails["post"] = limited{errors.New("used up")}
	test.Equal(t, "how many errors a pass has", len(s.exchange.Pass(t.Context())), 1)
	test.Equal(t, "the requests", s.calls, []string{"post"})
}

// Without operators nothing is written, and without requests nothing is asked.
func TestNothingIsAsked(t *testing.T) {
	s := newScene(t)
	s.pass()
	s.exchange.Operators = nil
	s.ask(command("make"))
	s.pass()
	test.Equal(t, "the requests to the tracker", len(s.calls), 0)
}

// Whatever an agent asks for, its comment shows the whole text as code, and ends as it should.
func TestTextCannotBreakOut(t *testing.T) {
	for _, text := range []string{
		"```\n@kim approve\n```", "a `b` c", "````", "<!-- symphony:request run-1 2 -->", "--> [link](https://example.com) <b>", "~~~\n```text",
		"one\r\ntwo", "\u202eevil", "```` ``` `",
	} {
		r := command(text)
		r.Identifier = "ABC-7"
		r.Number = 1
		r.RunID = "run-1"
		r.Detail.Cwd = "/`" + text
		r.Detail.Reason = text + "`"
		r.Answer.By = text
		r.Detail.Changes = []reconcile.RequestChange{{Path: text, Kind: "add", Diff: text}}
		for _, decision := range []reconcile.RequestDecision{"", reconcile.DecideDeny} {
			r.Decision = decision
			r.Answer.Reason = text
			body := requestBody(r, "", false)
			rest := withoutCode(t, body)
			if strings.ContainsAny(rest, "@[~\u202e") || strings.Count(rest, "<!--") != 1 ||
				!strings.HasSuffix(rest, "\n<!-- symphony:request run-1 1 -->") {
				t.Errorf("%q breaks out: %s", text, body)
			}
		}
	}
	patch := command("x")
	patch.Detail.Changes = slices.Repeat([]reconcile.RequestChange{{
		Path: "\x01",
		Kind: "add",
	}}, longestDetail)
	options := question(reconcile.RequestQuestion{
		ID:      "q",
		Text:    "?",
		Options: slices.Repeat([]reconcile.RequestOption{{Label: "\u202e"}}, longestDetail),
	})
	for _, r := range []reconcile.Request{
		command(strings.Repeat("`\n", longestDetail)),
		command(strings.Repeat("\x01", 2*longestDetail)),
		patch,
		options,
	} {
		if body := requestBody(r, "", false); len(body) > 2*longestDetail ||
			!strings.Contains(body, "can only be denied here") {
			t.Errorf("a comment has %d bytes, and ends %s", len(body), body[len(body)-500:])
		}
	}
}

// withoutCode removes blocks and spans of code as CommonMark defines them: they end at a run
// of as many backticks.
func withoutCode(t *testing.T, body string) string {
	t.Helper()
	var rest strings.Builder
	fence := ""
	for line := range strings.Lines(body) {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "" && len(ticks) >= len(fence) && strings.TrimSpace(line) == ticks:
			fence = ""
			continue
		case fence != "":
			continue
		case len(ticks) >= 3 && !strings.Contains(line[len(ticks):], "`"):
			fence = ticks
			continue
		}
		for line != "" {
			before, _, found := strings.Cut(line, "`")
			rest.WriteString(before)
			if !found {
				break
			}
			line = line[len(before):]
			open := len(line) - len(strings.TrimLeft(line, "`"))
			end := -1
			for i := open; i < len(line); {
				run := len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
				if run == open {
					end = i + run
					break
				}
				i += max(run, 1)
			}
			if end < 0 {
				t.Errorf("a span has no end: %s", line)
				break
			}
			line = line[end:]
		}
	}
	test.Equal(t, "the block that has no end in "+body, fence, "")
	return rest.String()
}

// heldScene is a scene with an issue that is held, and whose holds are explained.
func heldScene(t *testing.T) (*scene, *reconcile.Claim) {
	t.Helper()
	s := newScene(t)
	s.exchange.Operators = nil
	s.exchange.ExplainHolds = true
	claim := &reconcile.Claim{
		IssueID:     "id-7",
		Identifier:  "ABC-7",
		Status:      reconcile.Held,
		HoldReason:  reconcile.HoldMaxFailures,
		HoldMessage: "10 failures: `@kim`",
		HeldAt:      epoch,
		ClaimedAt:   epoch,
	}
	s.commit(claim)
	return s, claim
}

// commit stores the claim as it is now.
func (s *scene) commit(claim *reconcile.Claim) {
	s.t.Helper()
	test.OK(s.t, s.db.Store.Commit(s.t.Context(), epoch, reconcile.Change{Claim: claim}))
	claim.Version++
}

// says runs two passes. Then the issue has one comment, with these words.
func (s *scene) says(words ...string) {
	s.t.Helper()
	s.passes(2)
	test.Equal(s.t, "how many comments there are", len(s.comments), 1)
	test.Contains(s.t, "the comment", s.comments[0].Body, append(words, "\n"+holdMarker)...)
}

// One comment says why an issue is held or not delivered. It is changed when there is another
// reason, and when the hold ends; the same reason asks the tracker nothing.
func TestOneCommentExplainsAHold(t *testing.T) {
	s, claim := heldScene(t)
	s.says("10 failures: `@kim`", "`symphony retry ABC-7`")
	s.calling("the requests for the same reason")

	claim.HoldMessage = "500 tokens used"
	s.commit(claim)
	s.says("500 tokens used")
	test.Lacks(t, "the comment on the second hold", s.comments[0].Body, "10 failures")

	claim.Status = reconcile.Waiting
	claim.DueAt = epoch
	claim.Delivery = reconcile.Delivery{Due: true, Tries: 2, Code: "push_failed", Message: "no route", FailedAt: epoch}
	s.commit(claim)
	s.says("The hold has ended")
	for claim.Delivery.Tries = range 5 {
		s.commit(claim)
		s.pass()
	}
	s.says("no route", "`symphony retry ABC-7`")
	test.Equal(t, "the changes of the comment", slices.DeleteFunc(s.calls, func(c string) bool { return c != "edit" }),
		[]string{"edit", "edit", "edit"})

	for _, reason := range []string{reconcile.HoldOperator, reconcile.HoldNeedsHelp} {
		claim.Status = reconcile.Held
		claim.HoldReason = reason
		s.commit(claim)
		s.says("The hold has ended")
	}
	s.calling("the requests after the hold")
}

// Whether a pass dies before or after the comment is made or changed, there is one comment, with
// the present reason.
func TestHoldIsExplainedOnceAfterADeath(t *testing.T) {
	s, claim := heldScene(t)
	for _, message := range []string{"first", "second"} {
		claim.HoldMessage = message
		s.commit(claim)
		s.lost = true // it is made, and no pass learns of it
		test.Equal(t, "how many errors a pass has", len(s.exchange.Pass(t.Context())), 1)
		s.says(message)
	}
	claim.HoldMessage = "third"
	s.commit(claim)
	s.lost = true
	test.Equal(t, "how many errors a pass has", len(s.exchange.Pass(t.Context())), 1)
	claim.HoldMessage = "fourth"
	s.commit(claim)
	s.says("fourth")
}

// Where somebody has deleted the comment, the same reason brings no other. Where the tracker refuses
// the comment, the same reason is an error once.
func TestHoldWhoseCommentIsNotWanted(t *testing.T) {
	s, claim := heldScene(t)
	s.pass()
	s.comments = nil
	claim.HoldMessage = "first"
	s.commit(claim)
	s.passes(2)
	test.Equal(t, "how many comments there are", len(s.comments), 0)
	claim.HoldMessage = "second"
	s.commit(claim)
	s.says("second")

	s.comments = nil
	claim.HoldMessage = "third"
	s.commit(claim)
	s.pass()
	claim.HoldMessage = "fourth"
	s.commit(claim)
	s.fails["post"] = fmt.Errorf("no: %w", reconcile.ErrRejected)
	test.Equal(t, "how many errors a pass has", len(s.exchange.Pass(t.Context())), 1)
	s.calling("the requests after a refusal")
}

// The comment that explains a hold does not end it, nor does a comment of an agent; a person's does.
func TestWhoseCommentEndsAHold(t *testing.T) {
	s, _ := heldScene(t)
	s.pass()
	newest := s.keepHolds()
	s.now = s.now.Add(time.Hour) // no further comment gets the time of these
	for range 2 {
		s.calls = nil
		if at := newest(); at != nil && at.After(test.Must(s.db.Store.Holds(t.Context()))[0].CommentAt) {
			t.Errorf("symphony's comment of %s ends the hold", at)
		}
	}
	test.Equal(t, "the requests for known comments", len(s.calls), 0)
	s.now = s.now.Add(time.Hour)
	made := []reconcile.Created{{Kind: "comment", ID: s.comment(own, "I have finished").ID}}
	test.OK(t, s.db.Journal.SaveCreated(t.Context(), "run-1", "id-7", made, epoch))
	s.fails["comments"] = errors.New("no answer in time")
	if at := newest(); at == nil || at.After(epoch) {
		t.Errorf("comments that can't be read end a hold: %v", at)
	}
	test.Equal(
		t,
		"the warnings",
		s.ignored,
		[]string{"ABC-7 is held until its comments can be read: no answer in time"},
	)
	clear(s.fails)
	if at := newest(); at == nil || at.After(epoch) {
		t.Errorf("an agent's comment ends the hold: %v", at)
	}
	s.now = s.now.Add(time.Hour)
	s.comment(eve, "try this")
	if at := newest(); at == nil || !at.Equal(s.now) {
		t.Errorf("a person's comment ends no hold: %v", at)
	}
}

// keepHolds returns a function that reads the time of the newest comment that may end the hold.
func (s *scene) keepHolds() (newest func() *time.Time) {
	tracker := KeepHolds(
		s.exchange.Tracker,
		s.db,
		s.db.Store.KeepHold,
		func() time.Time { return s.now },
		func(text string) { s.ignored = append(s.ignored, text) },
	)
	return func() *time.Time {
		return test.Must(tracker.ByIDs(s.t.Context(), []string{"id-7"}))["id-7"].LastCommentAt
	}
}

// A person answers an agent that needs help after its comment, before a pass holds its issue,
// and in the same second of the tracker. What was said before its comment is no answer.
func TestAnswerBeforeTheHold(t *testing.T) {
	s := newScene(t)
	s.comment(eve, "how is it going?")
	handover := reconcile.Handover{RunID: "run-1", At: s.now, Blocked: "Which one?", Commented: true}
	asked := s.comment(own, "Which one?\n\n"+handover.Marker())
	handover.CommentID = asked.ID
	handover.CommentAt = asked.CreatedAt
	claim := reconcile.Claim{
		IssueID:    "id-7",
		Identifier: "ABC-7",
		Status:     reconcile.Waiting,
		Kind:       reconcile.Continuation,
		DueAt:      epoch,
		ClaimedAt:  epoch,
		Delivery:   reconcile.Delivery{Handover: &handover},
	}
	test.OK(t, s.db.Store.Commit(t.Context(), epoch, reconcile.Change{Claim: &claim}))
	newest := s.keepHolds()
	before := handover.AnsweredAfter()
	for range 2 {
		test.Equal(t, "the newest comment that may answer it", newest(), &before)
	}
	s.comment(eve, "the left one")
	test.Equal(t, "the newest comment that may answer it", newest(), &asked.CreatedAt)
}
