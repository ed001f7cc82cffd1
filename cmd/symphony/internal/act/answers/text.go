package answers

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	longestDetail = 30_000 // bytes of a request in a comment: less than any tracker accepts
	longestSpan   = 1000   // bytes of a text within a line
	markup        = 25     // bytes around the text of a file or an option
)

// holdMarker is the last line of the comment on a hold, of which an issue has one at most.
const holdMarker = reconcile.CommentMarker + "hold -->"

// holdKey is the key of the comment that explains why an issue is held.
func holdKey(c reconcile.Claim) string { return "hold:" + c.IssueID }

// marker is the last line of the comment on a request. Trackers do not show it. It contains no
// text of agents.
func marker(r reconcile.Request) string {
	return fmt.Sprintf("%srequest %s %d -->", reconcile.CommentMarker, r.RunID, r.Number)
}

func hashOf(body string) string {
	h := sha256.Sum256([]byte(strings.TrimSpace(body)))
	return fmt.Sprintf("%x", h[:8])
}

// code encloses a text of others so that the tracker shows it and interprets nothing of it: no
// markup, mention or link.
func code(s string, ticks int) string {
	run := 0
	for _, c := range s {
		run++
		if c != '`' {
			run = 0
		}
		ticks = max(ticks, run+1)
	}
	return strings.Repeat("`", ticks)
}

// block shows a text as lines of code, cut to the number of bytes that are left of room.
func block(s string, room *int) string {
	s = strings.ReplaceAll(strings.TrimRight(s, "\n"), "\r\n", "\n")
	s = text.VisibleLines(s)
	short := text.Within(s, max(*room, 0))
	*room -= len(s)
	fence := code(short, 3)
	return fence + "text\n" + short + "\n" + fence + "\n"
}

// span shows a text within a line.
func span(s string) string {
	short := text.Visible(text.Short(s, longestSpan))
	ticks := code(short, 1)
	if strings.Trim(short, " ") == "" || strings.HasPrefix(short, "`") || strings.HasSuffix(short, "`") {
		short = " " + short + " "
	}
	return ticks + short + ticks
}

// heading is the first line of the comment on a request.
func heading(r reconcile.Request) string {
	what := map[reconcile.RequestKind]string{
		reconcile.CommandRequest:     "asks to run a command",
		reconcile.FileChangeRequest:  "asks to change files",
		reconcile.PermissionsRequest: "asks for permissions",
		reconcile.QuestionRequest:    "has a question",
		reconcile.DirectoryRequest:   "asks where it may work",
	}[r.Kind]
	if r.Outside {
		what += ", **outside the sandbox**"
	}
	return "The agent " + what + " (" + span(r.ID()) + ")"
}

// detail returns the subject of the request, and whether the text is complete.
func detail(r reconcile.Request) (body string, whole bool) {
	d := r.Detail
	room := longestDetail
	var b strings.Builder
	line := func(what, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- %s: %s\n", what, span(value))
			room -= max(0, len(value)-longestSpan) * longestDetail // a line that was cut
		}
	}
	if r.Kind != reconcile.QuestionRequest &&
		strings.Join(strings.Fields(r.Summary), " ") != strings.Join(strings.Fields(d.Command), " ") {
		// more than the command: the network, permissions, input
		b.WriteString(block(r.Summary, &room))
	}
	if d.Command != "" {
		b.WriteString(block(d.Command, &room))
	}
	if len(d.Permissions) > 0 {
		b.WriteString(block(string(d.Permissions), &room))
	}
	line("Directory", d.Cwd)
	line("Below", d.GrantRoot)
	line("Asked by", d.Server)
	line("Reason", d.Reason)
	for _, c := range d.Changes {
		if room < 0 {
			break
		}
		room -= len(c.Path) + markup
		line(c.Kind, c.Path)
		b.WriteString(block(c.Diff, &room))
	}
	for i, q := range d.Questions {
		if q.Secret || room < 0 {
			continue
		}
		if len(d.Questions) > 1 {
			fmt.Fprintf(&b, "Question %d:\n", i+1)
		}
		b.WriteString(block(strings.TrimSpace(q.Header+"\n"+q.Text), &room))
		for n, o := range q.Options {
			if room < 0 {
				break
			}
			fmt.Fprintf(&b, "- %d: %s\n", n+1, span(strings.TrimSuffix(o.Label+": "+o.Description, ": ")))
			room -= len(o.Label) + len(o.Description) + markup
		}
	}
	return b.String(), room >= 0 && d.Cut == 0
}

// howToAnswer lists the replies that decide the request.
func howToAnswer(r reconcile.Request, whole bool) string {
	here := "on the machine of symphony, run `symphony tell` or `symphony approve` for " + span(r.ID())
	var lines []string
	switch {
	case r.Secret():
		lines = append(lines, "The answer is a secret. Do not write it here: "+here)
	case !whole:
		lines = append(lines, "The request is too long to be shown here, and can only be denied here: "+here)
	case r.Kind == reconcile.QuestionRequest && len(r.Detail.Questions) > 1:
		lines = append(lines, "the answers, one line for each question")
	case r.Kind == reconcile.QuestionRequest && len(r.Detail.Questions[0].Options) > 0:
		lines = append(lines, "the number of an option, or the answer")
	case r.Kind == reconcile.QuestionRequest:
		lines = append(lines, "the answer")
	default:
		lines = append(lines, "`approve`", "`approve for session`, so that the agent does not ask for the same again")
	}
	lines = append(lines, "`deny`, or `deny: ` and the reason")
	return "- " + strings.Join(lines, "\n- ") + "\n"
}

// requestBody is the comment on a request, as it is now. problem is about a reply that was no
// answer; empty for none. needsID: a reply must name the request.
func requestBody(r reconcile.Request, problem string, needsID bool) string {
	about, whole := detail(r)
	var b strings.Builder
	b.WriteString(heading(r) + "\n\n" + about + "\n")
	if end := verdict(r); end != "" {
		b.WriteString(end)
	} else {
		until := r.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC")
		fmt.Fprintf(&b, "An operator can answer until %s with a new comment:\n\n%s", until, howToAnswer(r, whole))
		when := "If several requests are open, write the id before the answer"
		if needsID {
			when = "Write the id before the answer, because the agent has asked for something else in the last day"
		}
		fmt.Fprintf(&b, "\n%s: %s\n", when, span(r.ID()+": …"))
		if problem != "" {
			b.WriteString("\n" + problem + "\n")
		}
	}
	return b.String() + "\n" + marker(r)
}

// verdict is the sentence on how a request ended and who decided it; empty if it is open.
func verdict(r reconcile.Request) string {
	by := "by a command of symphony"
	if r.Answer.By != "" {
		by = "by " + span(r.Answer.By)
	}
	end := map[reconcile.RequestDecision]string{
		reconcile.DecideApprove:    "**Approved** " + by + ".",
		reconcile.DecideForSession: "**Approved for the session** " + by + ".",
		reconcile.DecideDeny:       "**Denied** " + by + ".",
		reconcile.DecideAnswer:     "**Answered** " + by + ".",
	}[r.Decision]
	if r.Decision == "" {
		end = map[reconcile.RequestFate]string{
			reconcile.RequestExpired:   "**Expired**: it was not answered in time, and the agent was refused.",
			reconcile.RequestWithdrawn: "**Withdrawn**: the agent no longer needs an answer.",
			reconcile.RequestRunEnded:  "**Ended**: the run ended before there was an answer.",
		}[r.Fate]
	}
	if r.Answer.Reason != "" {
		end += " Reason: " + span(r.Answer.Reason)
	}
	for _, q := range r.Detail.Questions {
		if given := r.Answer.Answers[q.ID]; len(given) > 0 && !q.Secret {
			end += " " + span(strings.Join(given, ", "))
		}
	}
	if r.Decision == reconcile.DecideAnswer && r.Fate == reconcile.RequestRunEnded && !r.Secret() {
		end += "\n\nThe run that asked has ended; the next one gets the answer."
	}
	if end != "" {
		end += "\n"
	}
	return end
}

// noHoldBody is the comment on a hold that has ended.
var noHoldBody = "symphony held this issue. The hold has ended.\n\n" + holdMarker

// holdBody explains why no agent goes on with an issue: it is held, or its work can't be
// delivered. It is empty if that is not so, or known to those who read the issue: an operator
// holds it, or an agent has said there that it needs help.
func holdBody(c reconcile.Claim) string {
	_, fails := reconcile.DeliveryAttention(c)
	switch {
	case c.Status == reconcile.Held && slices.Contains(explained, c.HoldReason):
		return ""
	case c.Status == reconcile.Held:
		return heldBody(c)
	case fails:
		return deliveryBody(c)
	}
	return ""
}

// explained are the holds that need no comment.
var explained = []string{reconcile.HoldOperator, reconcile.HoldNeedsHelp}

// heldBody has no output of verify: the tracker may be public.
func heldBody(c reconcile.Claim) string {
	room := longestDetail
	body := "symphony holds this issue: it gets no further run.\n\n"
	if c.HoldMessage != "" {
		body += block(c.HoldMessage, &room) + "\n"
	}
	switch {
	case c.Delivery.Code != "":
		body += "Its work is not delivered (" + span(c.Delivery.Code) + ")\n\n"
		body += block(c.Delivery.Message, &room) + "\n"
	case c.Delivery.Due:
		body += "If its last run has made commits, they are not delivered.\n\n"
	}
	retry := "symphony retry " + c.Identifier
	return body + strings.Replace(c.HoldEnds(), retry, span(retry), 1) + ".\n\n" + holdMarker
}

// deliveryBody explains why the work on an issue is not delivered. It does not count the tries:
// only another reason changes the comment.
func deliveryBody(c reconcile.Claim) string {
	room := longestDetail
	return "The work on this issue can't be delivered (" + span(c.Delivery.Code) + ")\n\n" +
		block(c.Delivery.Message, &room) +
		"\nsymphony keeps trying; to try now, run " + span("symphony retry "+c.Identifier) + ".\n\n" +
		holdMarker
}
