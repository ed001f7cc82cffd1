package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RequestKind is the kind of an agent's request.
type RequestKind string

const (
	CommandRequest     RequestKind = "command"
	FileChangeRequest  RequestKind = "file_change"
	PermissionsRequest RequestKind = "permissions"
	QuestionRequest    RequestKind = "question"
	// DirectoryRequest asks, for a program that starts an agent, whether it may work in a
	// directory.
	DirectoryRequest RequestKind = "directory"
)

// RequestFate is how a request ended, empty while it can be answered.
type RequestFate string

const (
	RequestAnswered  RequestFate = "answered"
	RequestExpired   RequestFate = "expired"   // not answered in time
	RequestWithdrawn RequestFate = "withdrawn" // the agent no longer needs an answer
	RequestRunEnded  RequestFate = "run_ended" // the run ended, or its worker died
)

// RequestDecision is the answer of an operator.
type RequestDecision string

// The decisions. DecideAnswer is for questions, the others are for approvals.
const (
	DecideApprove    RequestDecision = "approve"
	DecideForSession RequestDecision = "approve_for_session"
	DecideDeny       RequestDecision = "deny"
	DecideAnswer     RequestDecision = "answer"
)

// Request is a question of an agent to the operators.
type Request struct {
	IssueID, Identifier string
	Number              int // of the issue's requests, from 1
	RunID, ThreadID     string
	Kind                RequestKind
	Summary             string
	Detail              RequestDetail
	Outside             bool // if approved, the command runs outside the sandbox
	AskedAt             time.Time
	ExpiresAt           time.Time // for display; Deadline is decisive
	Deadline            Instant

	Decision  RequestDecision // empty until it is answered
	Answer    RequestAnswer
	DecidedAt time.Time

	Fate    RequestFate
	EndedAt time.Time
	// the later run that received the answer, if it came too late for the run that asked
	ToldRun string
}

// ID returns the name of the request for people: ABC-7.3.
func (r Request) ID() string { return fmt.Sprintf("%s.%d", r.Identifier, r.Number) }

// Open reports whether the request can still be answered.
func (r Request) Open() bool { return r.Fate == "" && r.Decision == "" }

// Left returns how long the request can still be answered. If the deadline is of another boot,
// in another container for instance, the wall clock is used.
func (r Request) Left(now time.Time, at Instant) time.Duration {
	if at.Boot == r.Deadline.Boot {
		return r.Deadline.Mono - at.Mono
	}
	return r.ExpiresAt.Sub(now)
}

// Attention returns the notification of the request.
func (r Request) Attention() Attention {
	text := fmt.Sprintf("%s asks: %s", r.Identifier, r.Summary)
	if r.Outside {
		text += " (runs outside the sandbox)"
	}
	return Attention{
		Key:        fmt.Sprintf("request:%s:%d", r.RunID, r.Number),
		Kind:       AttentionRequest,
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		Ref:        r.ID(),
		Text:       text,
		At:         r.AskedAt,
	}
}

// Secret reports whether any of the request's questions asks for a secret.
func (r Request) Secret() bool {
	return slices.ContainsFunc(r.Detail.Questions, func(q RequestQuestion) bool { return q.Secret })
}

// RequestRef parses the name of a request, ABC-7.3, or of an issue, ABC-7, which gives number
// 0.
func RequestRef(ref string) (identifier string, number int) {
	if dot := strings.LastIndexByte(ref, '.'); dot > 0 {
		if n, err := strconv.Atoi(ref[dot+1:]); err == nil && n > 0 && strconv.Itoa(n) == ref[dot+1:] {
			return ref[:dot], n
		}
	}
	return ref, 0
}

// LeadsTo follows, in the summary of a request, a path with symlinks, and precedes the path
// without them.
const LeadsTo = " (leads to "

// RequestDetail is the whole request, cut to a bounded size.
type RequestDetail struct {
	Reason      string            `json:"reason,omitempty"`
	Command     string            `json:"command,omitempty"`
	Cwd         string            `json:"cwd,omitempty"`
	Changes     []RequestChange   `json:"changes,omitempty"`
	GrantRoot   string            `json:"grant_root,omitempty"`
	Permissions json.RawMessage   `json:"permissions,omitempty"`
	Server      string            `json:"server,omitempty"` // the name of the MCP server that asks
	Questions   []RequestQuestion `json:"questions,omitempty"`
	// the agent's id of the command or the change
	CallID string `json:"call_id,omitempty"`
	Cut    int    `json:"cut,omitempty"` // how many bytes were omitted
	// the public key to encrypt answers for the worker
	SealKey []byte `json:"seal_key,omitempty"`
}

// RequestChange is a file of a patch.
type RequestChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // add, update, delete
	Diff string `json:"diff"`
}

// RequestQuestion is a question of a request.
type RequestQuestion struct {
	ID      string          `json:"id"`
	Header  string          `json:"header,omitempty"`
	Text    string          `json:"text"`
	Options []RequestOption `json:"options,omitempty"` // without options any text is accepted
	// other text than the options is accepted, too
	Other    bool `json:"other,omitempty"`
	Secret   bool `json:"secret,omitempty"`   // the answer must not be shown
	Optional bool `json:"optional,omitempty"` // an answer is not required
	Several  bool `json:"several,omitempty"`  // several options may be chosen
	// the type of a text: "integer", "number", or empty for any
	Type string `json:"type,omitempty"`
}

// RequestOption is an offered answer.
type RequestOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// RequestAnswer is the text of an operator's answer, in addition to the decision.
type RequestAnswer struct {
	Reason string `json:"reason,omitempty"` // why the operator denied the request
	// Answers are the answers by question id; Sealed is the same map, encrypted for the
	// worker.
	Answers map[string][]string `json:"answers,omitempty"`
	Sealed  []byte              `json:"sealed,omitempty"`
	// By is who answered in the tracker, and Reply the id of the comment; empty for an answer
	// by a command.
	By    string `json:"by,omitempty"`
	Reply string `json:"reply,omitempty"`
}

// CommentMarker is how the marker of a comment that symphony or an agent made begins: a line
// that trackers do not show.
const CommentMarker = "<!-- symphony:"

// Marked reports whether a comment contains a marker. A marker that a person quoted does not
// count.
func Marked(body string) bool {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(strings.TrimSpace(line), CommentMarker) {
			return true
		}
	}
	return false
}

// AttentionKind is the subject of a notification.
type AttentionKind string

const (
	AttentionRequest AttentionKind = "request" // an agent asks for something
	AttentionHold    AttentionKind = "hold"    // an issue is held
	// an agent needs a person, and handed its issue over
	AttentionHelp    AttentionKind = "needs_help"
	AttentionBlocked AttentionKind = "blocked" // no run can start
	// the workspace of a finished issue contains work that exists nowhere else
	AttentionKept     AttentionKind = "kept"
	AttentionDelivery AttentionKind = "delivery" // commits could not be pushed several times
	AttentionReady    AttentionKind = "ready"    // an agent handed its issue over to a person
)

// Attention is a notification, sent once by hooks.on_attention.
type Attention struct {
	Key string // identifies the notification, so that it is sent once
	// keys of equivalent notifications: if any of them was sent, this notification is not
	Like                []string
	Kind                AttentionKind
	IssueID, Identifier string // empty for a blocked project
	Ref                 string // the id of the request to answer; empty for other notifications
	Text                string
	At                  time.Time
}

const (
	// outagePatience is how long a fault of the tracker must last before an operator is
	// notified. Most faults are shorter.
	outagePatience = 5 * time.Minute
	// attentionTries is how many deliveries in a row fail before an operator is notified.
	attentionTries = 3
)

// issueAttention is about the state of an issue since then.
func issueAttention(kind AttentionKind, issueID, identifier string, since time.Time, text string) Attention {
	return Attention{
		Key:        fmt.Sprintf("%s:%s:%d", kind, issueID, since.UnixMilli()),
		Kind:       kind,
		IssueID:    issueID,
		Identifier: identifier,
		Text:       text,
	}
}

// HoldAttention returns the notification of a held claim.
func HoldAttention(c Claim) Attention {
	kind := AttentionHold
	text := c.Identifier + " is held: " + c.HoldText()
	switch c.HoldReason {
	case HoldOperator: // its text begins with "held by an operator"
		text = c.Identifier + " is " + c.HoldText()
	case HoldNeedsHelp:
		kind = AttentionHelp
		text = c.Identifier + " needs help: " + c.HoldText()
	}
	a := issueAttention(kind, c.IssueID, c.Identifier, c.HeldAt, text)
	a.At = c.HeldAt
	return a
}

// BlockAttention returns the notification of a block by the agent or this machine. A block
// with another code is notified again.
func BlockAttention(b Block) Attention { return blocked(b.Code, b.Since, b) }

// KeptAttention returns the notification of a finished issue's workspace that is kept because
// of unsaved work. Its storage time begins now, however long the workspace was kept before.
func KeptAttention(w Workspace) Attention {
	text := fmt.Sprintf("the workspace of %s is %s", w.Identifier, w.KeptText())
	return issueAttention(AttentionKept, w.IssueID, w.Identifier, w.KeptSince, text)
}

// DeliveryAttention returns the notification of a delivery that fails again and again; false
// before the third failure.
func DeliveryAttention(c Claim) (Attention, bool) {
	d := c.Delivery
	text := fmt.Sprintf(
		"the work on %s was not delivered after %d tries: %s: %s; symphony deliver %s tries again now",
		c.Identifier,
		d.Tries,
		d.Code,
		d.Message,
		c.Identifier,
	)
	return issueAttention(AttentionDelivery, c.IssueID, c.Identifier, d.FailedAt, text), d.Due &&
		d.Tries >= attentionTries
}

// ReadyAttention returns the notification of an issue that was handed over in a state that is
// not terminal; false for other releases.
func ReadyAttention(c Claim, release Release, now time.Time) (Attention, bool) {
	text := fmt.Sprintf(
		"%s was handed over: it is in %s; symphony show %s has the details",
		c.Identifier,
		release.State,
		c.Identifier,
	)
	return issueAttention(AttentionReady, c.IssueID, c.Identifier, now, text), release.Reason == StopInactive
}

// OutageAttention returns the notification of a fault of the tracker, whatever its code; false
// before it lasted 5 minutes.
func OutageAttention(b Block, now time.Time) (Attention, bool) {
	a := blocked("tracker", b.Since, b)
	a.At = now
	return a, now.Sub(b.Since) >= outagePatience
}

// LimitAttention returns the notification of an allowance that is used up. The end that codex
// reports for an allowance varies by some minutes, so limits whose ends are less than half an
// hour apart count as the same limit and are notified once.
func LimitAttention(l Limit, home string, now time.Time) Attention {
	endsAbout := func(t time.Time) Attention {
		return blocked(CodeAgentQuota, t.Round(time.Hour), Block{
			Code:    CodeAgentQuota,
			Message: l.Text(home, now),
			Since:   now,
		})
	}
	a := endsAbout(l.Until)
	a.Like = []string{
		endsAbout(l.Until.Add(-30 * time.Minute)).Key,
		endsAbout(l.Until.Add(30 * time.Minute)).Key,
	}
	return a
}

// blocked returns the notification of a block, with a key made of the name and the time.
func blocked(name string, at time.Time, b Block) Attention {
	return Attention{
		Key:  fmt.Sprintf("blocked:%s:%d", name, at.UnixMilli()),
		Kind: AttentionBlocked,
		Text: fmt.Sprintf("nothing is started: %s: %s", b.Code, b.Message),
		At:   b.Since,
	}
}
