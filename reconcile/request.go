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
