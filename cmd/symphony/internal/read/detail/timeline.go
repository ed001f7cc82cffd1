package detail

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Moment is something that happened to an issue, or that lasts.
type Moment struct {
	At time.Time `json:"at"`
	// of a run, a turn and a request; null for other moments and while it lasts
	Until *time.Time `json:"until"`
	Kind  MomentKind `json:"kind"`
	// RunID is the run of a turn or a request, or the run itself; null for other moments.
	RunID *string `json:"run_id"`
	Name  string  `json:"name"` // such as "turn 2", "WEB-12.1" or "run, attempt 1"
	// Result is how it ended, such as succeeded, failed, approve or expired; empty for other
	// moments and while it lasts.
	Result string `json:"result"`
	// the reason, the request with its answer, or the error; may be empty
	Text string `json:"text"`
}

// MomentKind is the kind of a Moment.
type MomentKind string

// The kinds of moments.
const (
	MomentClaim   MomentKind = "claimed"
	MomentRun     MomentKind = "run"
	MomentTurn    MomentKind = "turn"
	MomentRequest MomentKind = "request"
	// of an operator to the agent; it lasts until the agent gets it
	MomentMessage  MomentKind = "message"
	MomentHold     MomentKind = "held"
	MomentHelp     MomentKind = "needs_help"   // its agent needs a person
	MomentRework   MomentKind = "rework"       // its pull request brought it back
	MomentAsked    MomentKind = "hand_over"    // its agent asked for the handover
	MomentPull     MomentKind = "pull_request" // its checks, or the pull request itself, have ended
	MomentReview   MomentKind = "review"       // of its pull request
	MomentHandover MomentKind = "handed_over"  // released, because its state is no longer active
	MomentReleased MomentKind = "released"     // released for another reason
)

// latestFirst is the order of moments of the same time: a pass claims an issue and starts its
// run at once.
var latestFirst = []MomentKind{
	MomentHandover, MomentRework, MomentReview, MomentPull, MomentReleased, MomentHold, MomentHelp, MomentAsked,
	MomentRequest, MomentMessage, MomentTurn, MomentRun, MomentClaim,
}

const (
	shownMoments = 50  // of each source of a timeline
	shownWords   = 200 // bytes of an agent's words about its handover
)

// timeline returns the events of the issue in the runs that are shown, the newest first.
func (r *issueReader) timeline(ctx context.Context) ([]Moment, error) {
	list := []Moment{}
	if r.DB == nil || r.id == "" {
		return list, nil
	}
	if r.claim != nil {
		list = append(list, Moment{At: r.claim.ClaimedAt, Kind: MomentClaim, Name: "claimed"})
	}
	for _, run := range r.runs {
		moments, err := r.momentsOf(run)
		if err != nil {
			return nil, err
		}
		list = append(list, moments...)
	}
	requests, err := r.DB.Views.RequestsOfIssue(ctx, r.id, shownMoments)
	if err != nil {
		return nil, err
	}
	list = append(list, text.Map(requests, requestMoment)...)
	messages, err := r.DB.Views.Messages(ctx, r.id, shownMoments)
	if err != nil {
		return nil, err
	}
	list = append(list, text.Map(messages, messageMoment)...)
	holds, err := r.holds(ctx)
	if err != nil {
		return nil, err
	}
	list = append(list, text.Map(holds, holdMoment)...)
	watch, _, err := r.DB.Watch(ctx, r.id)
	if err != nil {
		return nil, err
	}
	list = append(list, pullMoments(watch)...)
	for _, release := range r.releases {
		list = append(list,
			releaseMoment(release),
			Moment{At: release.ClaimedAt, Kind: MomentClaim, Name: "claimed"})
	}
	if len(r.runs) == shownRuns { // there may be older runs, which are not shown
		oldest := r.runs[shownRuns-1].StartedAt
		list = slices.DeleteFunc(list, func(m Moment) bool { return m.At.Before(oldest) })
	}
	slices.SortStableFunc(list, func(a, b Moment) int {
		return cmp.Or(
			b.At.Compare(a.At),
			cmp.Compare(slices.Index(latestFirst, a.Kind), slices.Index(latestFirst, b.Kind)),
		)
	})
	return list, nil
}

// momentsOf returns a run with its turns and the handover for which its agent asked.
func (r *issueReader) momentsOf(run reconcile.Run) ([]Moment, error) {
	list := []Moment{runMoment(r.RunRow(run))}
	if run.Kind == reconcile.AgentRun {
		turns, err := eventlog.Turns(r.Project.StateDir, run)
		if err != nil {
			return nil, err
		}
		list = append(list, turnMoments(run, turns)...)
	}
	if h := run.Delivery.Handover; h.Asked() && h.RunID == run.ID {
		list = append(list, Moment{
			At:   h.At,
			Kind: MomentAsked,
			Name: "agent hands over",
			Text: text.Within(text.OneLine(h.Blocked+h.Summary), shownWords),
		})
	}
	return list, nil
}

// holds returns the holds of the issue. A present hold without a notification is added: it was
// made by an operator.
func (r *issueReader) holds(ctx context.Context) ([]reconcile.Attention, error) {
	holds, err := r.DB.Views.HoldsOfIssue(ctx, r.id, shownMoments)
	if err != nil {
		return nil, err
	}
	c := r.claim
	if c == nil || c.Status != reconcile.Held {
		return holds, nil
	}
	isKnown := slices.ContainsFunc(holds, func(h reconcile.Attention) bool { return h.At.Equal(c.HeldAt) })
	if !isKnown {
		holds = append(holds, reconcile.HoldAttention(*c))
	}
	return holds, nil
}

func holdMoment(h reconcile.Attention) Moment {
	if h.Kind == reconcile.AttentionHelp {
		why := strings.TrimPrefix(h.Text, h.Identifier+" needs help: ")
		return Moment{At: h.At, Kind: MomentHelp, Name: "needs help", Text: why}
	}
	why := strings.TrimPrefix(h.Text, h.Identifier+" is ") // "held by an operator"
	why = strings.TrimPrefix(why, "held: ")
	return Moment{At: h.At, Kind: MomentHold, Name: "held", Text: why}
}

func releaseMoment(release state.Release) Moment {
	if release.HandedOver() {
		return Moment{
			At:   release.At,
			Kind: MomentHandover,
			Name: "handed over",
			Text: release.From + " → " + text.OrEmpty(release.To),
		}
	}
	return Moment{
		At:   release.At,
		Kind: MomentReleased,
		Name: "released",
		Text: releaseWords(release),
	}
}

// releaseWords explains the release of an issue that was not handed over.
func releaseWords(release state.Release) string {
	why := words.Releases[release.Reason]
	return cmp.Or(why, "it is in "+release.From+", and no longer among the active issues")
}

func runMoment(r view.RunRow) Moment {
	m := Moment{
		At:     r.StartedAt,
		Until:  r.EndedAt,
		Kind:   MomentRun,
		RunID:  &r.RunID,
		Name:   "run",
		Result: string(text.OrEmpty(r.Outcome)),
	}
	if r.Kind != reconcile.AgentRun {
		m.Name = string(r.Kind)
	}
	parts := []string{r.Why()}
	if v := r.Verification(); v != nil {
		parts = append(parts, v.String())
	}
	if r.Delivery != nil {
		parts = append(parts, deliveryText(*r.Delivery))
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	m.Text = strings.Join(parts, "; ")
	return m
}

// deliveryText describes the delivery of a run's commits; empty if there were none.
func deliveryText(d reconcile.DeliveryResult) string {
	commits := text.Plural(d.Commits, "commit")
	switch {
	case d.Code != "":
		return "not delivered: " + d.Code + ": " + d.Message
	case d.PullRequest != "":
		return commits + " delivered: " + d.PullRequest
	case d.Commits > 0:
		return commits + " delivered to " + d.Branch
	}
	return ""
}

// sights are the names and results of the events of a pull request.
var sights = map[string][2]string{
	reconcile.CheckSuccess: {"checks", "passed"},
	reconcile.CheckFailure: {"checks", "failed"},
	reconcile.PullMerged:   {"", "merged"}, // it has the name of what it is at its forge
	reconcile.PullClosed:   {"", "closed"},
}

// pullMoments are the events of a pull request, and when it brought its issue back.
func pullMoments(w reconcile.Watch) (list []Moment) {
	for _, s := range w.Seen {
		is := sights[s.What]
		list = append(list, Moment{
			At:     s.At,
			Kind:   MomentPull,
			Name:   cmp.Or(is[0], reconcile.PullWordsOf(w.Pull.URL).Name),
			Result: is[1],
			Text:   fmt.Sprintf("%.12s", s.Commit),
		})
	}
	for _, v := range w.Pull.Reviews {
		of := fmt.Sprintf("%s, %.12s", v.Author, v.Commit)
		list = append(list, Moment{
			At:     v.At,
			Kind:   MomentReview,
			Name:   "review",
			Result: v.State,
			Text:   of,
		})
	}
	for _, round := range w.History {
		list = append(list, Moment{
			At:   round.At,
			Kind: MomentRework,
			Name: "came back",
			Text: round.Causes,
		})
	}
	return list
}

func turnMoments(run reconcile.Run, turns []eventlog.Turn) []Moment {
	return text.Map(turns, func(t eventlog.Turn) Moment {
		m := Moment{
			At:     t.At,
			Until:  text.OrNull(t.Until),
			Kind:   MomentTurn,
			RunID:  &run.ID,
			Name:   fmt.Sprintf("turn %d", t.Number),
			Result: t.Result,
			Text:   t.Text,
		}
		if m.Until == nil && !run.EndedAt.IsZero() {
			m.Until = &run.EndedAt
			m.Result = "ended with its run"
		}
		return m
	})
}

func messageMoment(m reconcile.Message) Moment {
	is := Moment{
		At:    m.At,
		Until: text.OrNull(m.ToldAt),
		Kind:  MomentMessage,
		Name:  "message of " + m.By,
		Text:  m.Text,
	}
	if is.Until != nil {
		is.RunID = &m.RunID
		is.Result = "received"
	}
	return is
}

func requestMoment(q reconcile.Request) Moment {
	m := Moment{
		At:    q.AskedAt,
		Until: text.OrNull(q.DecidedAt),
		Kind:  MomentRequest,
		RunID: &q.RunID,
		Name:  q.ID(),
		Text:  q.Summary,
	}
	if m.Until == nil {
		m.Until = text.OrNull(q.EndedAt)
	}
	m.Result = cmp.Or(string(q.Decision), string(q.Fate))
	said := q.Answer.Reason
	for _, question := range q.Detail.Questions { // a secret answer is sealed
		if answers := q.Answer.Answers[question.ID]; len(answers) > 0 {
			said = strings.TrimPrefix(said+"; "+strings.Join(answers, ", "), "; ")
		}
	}
	if said != "" {
		m.Text += " → " + said
	}
	if q.Answer.By != "" {
		m.Text += " (" + q.Answer.By + ")"
	}
	return m
}
