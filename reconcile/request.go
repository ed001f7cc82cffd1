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

// The kinds of request.
const (
	CommandRequest     RequestKind = "command"
	FileChangeRequest  RequestKind = "file_change"
	PermissionsRequest RequestKind = "permissions"
	QuestionRequest    RequestKind = "question"
)

// RequestFate is how a request ended, empty while it can be answered.
type RequestFate string

// The fates of a request.
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
	// ExpiresAt is for display: Deadline counts.
	ExpiresAt time.Time
	Deadline  Instant

	Decision  RequestDecision // empty until it is answered
	Answer    RequestAnswer
	DecidedAt time.Time

	Fate    RequestFate
	EndedAt time.Time
	// ToldRun is the run that was told an answer that came too late for its own run.
	ToldRun string
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
	// Cut is how many bytes were left out.
	Cut int `json:"cut,omitempty"`
	// SealKey is the public key that a secret answer is sealed with, so that only the worker can read it.
	SealKey []byte `json:"seal_key,omitempty"`
}

// RequestChange is one file of a patch.
type RequestChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // add, update, delete
	Diff string `json:"diff"`
}

// RequestQuestion is one of the questions of a request.
type RequestQuestion struct {
	ID      string          `json:"id"`
	Header  string          `json:"header,omitempty"`
	Text    string          `json:"text"`
	Options []RequestOption `json:"options,omitempty"` // none: any text
	// Other: text beside the options is welcome; Secret: the answer is not to be shown.
	Other  bool `json:"other,omitempty"`
	Secret bool `json:"secret,omitempty"`
	// Optional: it may be left without an answer; Several: more than one option may be chosen; Type: what a text must be,
	// "integer" or "number".
	Optional bool   `json:"optional,omitempty"`
	Several  bool   `json:"several,omitempty"`
	Type     string `json:"type,omitempty"`
}

// RequestOption is one answer that is offered.
type RequestOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// RequestAnswer is the text of an answer, beside the decision.
type RequestAnswer struct {
	// Reason of a refusal.
	Reason string `json:"reason,omitempty"`
	// Answers are by the ids of the questions; Sealed is the same, encrypted for the worker.
	Answers map[string][]string `json:"answers,omitempty"`
	Sealed  []byte              `json:"sealed,omitempty"`
}
