package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RequestKind says what an agent asks for.
type RequestKind string

const (
	CommandRequest     RequestKind = "command"
	FileChangeRequest  RequestKind = "file_change"
	PermissionsRequest RequestKind = "permissions"
	QuestionRequest    RequestKind = "question"
)

// RequestFate is how a request ended, empty while it can be answered.
type RequestFate string

const (
	RequestAnswered  RequestFate = "answered"
	RequestExpired   RequestFate = "expired"   // not answered in time
	RequestWithdrawn RequestFate = "withdrawn" // the agent no longer asks
	RequestRunEnded  RequestFate = "run_ended" // its run has ended, or its worker has died
)

// RequestDecision is the answer of an operator.
type RequestDecision string

// The decisions. Answer is that of a question, the others are not.
const (
	DecideApprove    RequestDecision = "approve"
	DecideForSession RequestDecision = "approve_for_session"
	DecideDeny       RequestDecision = "deny"
	DecideAnswer     RequestDecision = "answer"
)

// Request is a question of an agent to the operators.
type Request struct {
	IssueID, Identifier string
	Number              int // counts the issue's requests from 1
	RunID, ThreadID     string
	Kind                RequestKind
	Summary             string
	Detail              RequestDetail
	Outside             bool // what is approved runs outside the sandbox
	AskedAt             time.Time
	ExpiresAt           time.Time // for display: Deadline counts
	Deadline            Instant

	Decision  RequestDecision // empty until it is answered
	Answer    RequestAnswer
	DecidedAt time.Time

	Fate    RequestFate
	EndedAt time.Time
	ToldRun string // the run that was told an answer that came too late for its own run
}

// ID is the name of the request for people: ABC-7.3.
func (r Request) ID() string { return fmt.Sprintf("%s.%d", r.Identifier, r.Number) }

// Open reports whether the request can still be answered.
func (r Request) Open() bool { return r.Fate == "" && r.Decision == "" }

// Left is how long the request can still be answered. If the deadline belongs to the monotonic clock of another boot, in
// another container for instance, the wall clock counts.
func (r Request) Left(now time.Time, at Instant) time.Duration {
	if at.Boot == r.Deadline.Boot {
		return r.Deadline.Mono - at.Mono
	}
	return r.ExpiresAt.Sub(now)
}

// Attention is the notification of a request.
func (r Request) Attention() Attention {
	text := fmt.Sprintf("%s asks: %s", r.Identifier, r.Summary)
	if r.Outside {
		text += " (runs outside the sandbox)"
	}
	return Attention{
		Key:  fmt.Sprintf("request:%s:%d", r.RunID, r.Number),
		Kind: AttentionRequest, IssueID: r.IssueID, Identifier: r.Identifier, Ref: r.ID(), Text: text, At: r.AskedAt,
	}
}

// Secret reports whether one of its questions asks for a secret.
func (r Request) Secret() bool {
	return slices.ContainsFunc(r.Detail.Questions, func(q RequestQuestion) bool { return q.Secret })
}

// RequestRef parses the name of a request, ABC-7.3, or of an issue, ABC-7, which gives number 0.
func RequestRef(ref string) (identifier string, number int) {
	if dot := strings.LastIndexByte(ref, '.'); dot > 0 {
		if n, err := strconv.Atoi(ref[dot+1:]); err == nil && n > 0 {
			return ref[:dot], n
		}
	}
	return ref, 0
}

// RequestDetail is the whole question, within the bounds of its size.
type RequestDetail struct {
	Reason      string            `json:"reason,omitempty"`
	Command     string            `json:"command,omitempty"`
	Cwd         string            `json:"cwd,omitempty"`
	Changes     []RequestChange   `json:"changes,omitempty"`
	GrantRoot   string            `json:"grant_root,omitempty"`
	Permissions json.RawMessage   `json:"permissions,omitempty"`
	Server      string            `json:"server,omitempty"` // of the MCP server that asks
	Questions   []RequestQuestion `json:"questions,omitempty"`
	Cut         int               `json:"cut,omitempty"`      // how many bytes were left out
	SealKey     []byte            `json:"seal_key,omitempty"` // a public key: what it seals only the worker can read
}

// RequestChange is one file of a patch.
type RequestChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // add, update, delete
	Diff string `json:"diff"`
}

// RequestQuestion is one of the questions of a request.
type RequestQuestion struct {
	ID       string          `json:"id"`
	Header   string          `json:"header,omitempty"`
	Text     string          `json:"text"`
	Options  []RequestOption `json:"options,omitempty"`  // none: any text
	Other    bool            `json:"other,omitempty"`    // text beside the options is welcome
	Secret   bool            `json:"secret,omitempty"`   // the answer is not to be shown
	Optional bool            `json:"optional,omitempty"` // it may be left without an answer
	Several  bool            `json:"several,omitempty"`  // more than one option may be chosen
	Type     string          `json:"type,omitempty"`     // what a text must be: "integer" or "number"
}

// RequestOption is one answer that is offered.
type RequestOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// RequestAnswer is the text of an answer, beside the decision.
type RequestAnswer struct {
	Reason string `json:"reason,omitempty"` // of a refusal
	// Answers are by the ids of the questions; Sealed is the same, encrypted for the worker.
	Answers map[string][]string `json:"answers,omitempty"`
	Sealed  []byte              `json:"sealed,omitempty"`
}

// AttentionKind says what a notification is about.
type AttentionKind string

const (
	AttentionRequest AttentionKind = "request" // an agent asks for something
	AttentionHold    AttentionKind = "hold"    // an issue is held
	AttentionBlocked AttentionKind = "blocked" // nothing can be started
)

// Attention is a notification, sent once by hooks.on_attention.
type Attention struct {
	Key                 string   // identifies it, so that it is sent once
	Like                []string // keys of notifications that say the same; after one of them it is not sent
	Kind                AttentionKind
	IssueID, Identifier string // empty for a blocked project
	Ref                 string // what an answer names: the id of a request, empty for the others
	Text                string
	At                  time.Time
}

// outagePatience is how long a fault of the tracker must last before it is notified: most are shorter.
const outagePatience = 5 * time.Minute

// HoldAttention is the notification of a held claim.
func HoldAttention(c Claim) Attention {
	return Attention{
		Key:  fmt.Sprintf("hold:%s:%d", c.IssueID, c.HeldAt.UnixMilli()),
		Kind: AttentionHold, IssueID: c.IssueID, Identifier: c.Identifier,
		Text: fmt.Sprintf("%s is held (%s): %s", c.Identifier, c.HoldReason, c.HoldText()), At: c.HeldAt,
	}
}

// BlockAttention is the notification of a block by the agent or this machine. A block with another code is another one.
func BlockAttention(b Block) Attention { return blocked(b.Code, b.Since, b) }

// OutageAttention is the notification of a fault of the tracker, whatever its code; false until it has lasted for a while.
func OutageAttention(b Block, now time.Time) (Attention, bool) {
	a := blocked("tracker", b.Since, b)
	a.At = now
	return a, now.Sub(b.Since) >= outagePatience
}

// LimitAttention is the notification of an allowance that is used up. The end that codex reports for one allowance varies by
// some minutes. So limits whose ends are less than half an hour apart count as one, and are notified once.
func LimitAttention(l Limit, home string, now time.Time) Attention {
	endsAbout := func(t time.Time) Attention {
		return blocked(CodeAgentQuota, t.Round(time.Hour), Block{Code: CodeAgentQuota, Message: l.Text(home, now), Since: now})
	}
	a := endsAbout(l.Until)
	a.Like = []string{endsAbout(l.Until.Add(-30 * time.Minute)).Key, endsAbout(l.Until.Add(30 * time.Minute)).Key}
	return a
}

// blocked is the notification of a block. Its key is made of a name and a time.
func blocked(name string, at time.Time, b Block) Attention {
	return Attention{
		Key:  fmt.Sprintf("blocked:%s:%d", name, at.UnixMilli()),
		Kind: AttentionBlocked, Text: fmt.Sprintf("nothing is started: %s: %s", b.Code, b.Message), At: b.Since,
	}
}
