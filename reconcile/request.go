package reconcile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RequestKind says what an agent asks of a person.
type RequestKind string

// The kinds of request.
const (
	CommandRequest     RequestKind = "command"
	FileChangeRequest  RequestKind = "file_change"
	PermissionsRequest RequestKind = "permissions"
	QuestionRequest    RequestKind = "question"
)

// RequestFate is what became of a request, empty while somebody may decide it.
type RequestFate string

// The fates of a request.
const (
	RequestAnswered  RequestFate = "answered"
	RequestExpired   RequestFate = "expired"   // nobody decided in time
	RequestWithdrawn RequestFate = "withdrawn" // the agent no longer wants to know
	RequestRunEnded  RequestFate = "run_ended" // its run has ended, or its worker has died
)

// RequestDecision is what a person decided.
type RequestDecision string

// The decisions. Answer is that of a question, the others are not.
const (
	DecideApprove    RequestDecision = "approve"
	DecideForSession RequestDecision = "approve_for_session"
	DecideDeny       RequestDecision = "deny"
	DecideAnswer     RequestDecision = "answer"
)

// Request is what the agent of a run asks of a person (design 9).
type Request struct {
	IssueID    string
	Identifier string
	// Number counts the issue's requests from 1.
	Number   int
	RunID    string
	ThreadID string
	Kind     RequestKind
	Summary  string
	Detail   RequestDetail
	// Outside: what is granted runs outside the sandbox.
	Outside bool
	AskedAt time.Time
	// ExpiresAt is for display: Deadline counts.
	ExpiresAt time.Time
	Deadline  Instant

	Decision  RequestDecision // empty until a person has decided
	Answer    RequestAnswer
	DecidedAt time.Time

	Fate    RequestFate
	EndedAt time.Time
	// ToldRun is the run whose guidance took up an answer that came too late.
	ToldRun string
}

// ID names the request to a person: ABC-7.3.
func (r Request) ID() string { return fmt.Sprintf("%s.%d", r.Identifier, r.Number) }

// Open reports whether somebody may still decide it in time.
func (r Request) Open() bool { return r.Fate == "" && r.Decision == "" }

// Left is how long somebody may still decide it, seen at an instant. Where the clock that counts was another, in another
// container for instance, the wall clock has to do.
func (r Request) Left(now time.Time, at Instant) time.Duration {
	if at.Boot == r.Deadline.Boot {
		return r.Deadline.Mono - at.Mono
	}
	return r.ExpiresAt.Sub(now)
}

// Attention tells of a request.
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

// Secret reports whether one of its questions asks for something that is not to be shown.
func (r Request) Secret() bool {
	for _, q := range r.Detail.Questions {
		if q.Secret {
			return true
		}
	}
	return false
}

// RequestRef reads what a person calls a request: ABC-7.3 is one, ABC-7 the issue's (number 0).
func RequestRef(ref string) (identifier string, number int) {
	if dot := strings.LastIndexByte(ref, '.'); dot > 0 {
		if n, err := strconv.Atoi(ref[dot+1:]); err == nil && n > 0 {
			return ref[:dot], n
		}
	}
	return ref, 0
}

// RequestDetail is what is asked, in full but for what exceeds its bounds.
type RequestDetail struct {
	Reason      string            `json:"reason,omitempty"`
	Command     string            `json:"command,omitempty"`
	Cwd         string            `json:"cwd,omitempty"`
	Changes     []RequestChange   `json:"changes,omitempty"`
	GrantRoot   string            `json:"grant_root,omitempty"`
	Permissions json.RawMessage   `json:"permissions,omitempty"`
	Server      string            `json:"server,omitempty"` // of the MCP server that asks
	Questions   []RequestQuestion `json:"questions,omitempty"`
	// Cut is how many bytes of it are not kept.
	Cut int `json:"cut,omitempty"`
	// SealKey is the public key that a secret answer is sealed with, so that it is nowhere to be read but in the worker.
	SealKey []byte `json:"seal_key,omitempty"`
}

// RequestChange is one file of a patch.
type RequestChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // add, update, delete
	Diff string `json:"diff"`
}

// RequestQuestion is one of those that are asked together.
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

// RequestAnswer is what a person said beside the decision.
type RequestAnswer struct {
	// Reason of a refusal.
	Reason string `json:"reason,omitempty"`
	// Answers by the questions' ids; Sealed is the same for the worker's eyes only.
	Answers map[string][]string `json:"answers,omitempty"`
	Sealed  []byte              `json:"sealed,omitempty"`
}
