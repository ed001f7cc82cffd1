package codex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Code classifies an Error. The first group are the categories of 10.6, the
// second faults of the machine or the account, which an issue can't be blamed
// for (design, section 9).
type Code string

const (
	CodeResponseTimeout   Code = "response_timeout"
	CodeTurnTimeout       Code = "turn_timeout"
	CodeStalled           Code = "stalled"
	CodePortExit          Code = "port_exit"
	CodeResponseError     Code = "response_error"
	CodeTurnFailed        Code = "turn_failed"
	CodeTurnCancelled     Code = "turn_cancelled"
	CodeTurnInputRequired Code = "turn_input_required"
	CodeApprovalRequired  Code = "approval_required"
	CodeIncompatible      Code = "codex_incompatible"

	CodeAgentAuth  Code = "agent_auth"
	CodeAgentQuota Code = "agent_quota"
	CodeNetwork    Code = "network"
)

// What thread/resume answers where a caller goes on differently; test with
// errors.Is.
var (
	// ErrNoRollout: codex has nothing stored for the thread; start a new one.
	ErrNoRollout = errors.New("codex has no rollout for the thread")
	// ErrActiveWriter: another live process has the thread.
	ErrActiveWriter = errors.New("another process has the thread")
)

// Error is every failure of a session that is not the caller's own context.
type Error struct {
	Code    Code
	Message string // one line, cut to a readable length
	// Info is codexErrorInfo as it came, a string or an object of one key;
	// nil where codex gave none.
	Info json.RawMessage
	// Cause is set for a stall that followed notices of retries: the class of
	// the last notice (network, agent_quota, agent_auth), else "".
	Cause Code
	// ResetsAt is when a used-up quota comes back, as far as the rate limits
	// said; else zero.
	ResetsAt time.Time

	err error // sentinel, for errors.Is
}

func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	if e.Code == CodeStalled {
		// The text is shown as it is, and begins with "stalled for".
		return e.Message
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap gives the sentinel, nil for most errors.
func (e *Error) Unwrap() error { return e.err }

func portExit(err error) *Error {
	if err == nil || errors.Is(err, io.EOF) {
		return &Error{Code: CodePortExit, Message: "agent ended: its stdout was closed"}
	}
	return &Error{Code: CodePortExit, Message: oneLine("agent's stdout: "+err.Error(), errorLength)}
}

// errorLength is where messages in errors are cut, in characters: an unknown
// method is answered with a list of all methods, five kilobytes.
const errorLength = 400

// wireError is the error object of a response.
type wireError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// responseError maps the error answer to a request. Everything is final for
// the attempt; only the handshake tells a codex of another age apart from a
// refusal.
func responseError(method string, e wireError, handshake bool) *Error {
	out := &Error{Code: CodeResponseError, Message: oneLine(method+": "+e.Message, errorLength)}
	switch {
	case strings.Contains(e.Message, "no rollout found"), strings.Contains(e.Message, "invalid session id"):
		out.err = ErrNoRollout
	case strings.Contains(e.Message, "already has an active writer"):
		out.err = ErrActiveWriter
	case handshake && (e.Code == codeMethodNotFound || refusesProtocol(e.Message)):
		out.Code = CodeIncompatible
	default:
		if class, ok := classify(nil, e.Message); ok {
			out.Code = class
		}
	}
	return out
}

// refusesProtocol reports whether codex refused a request because it does not know what the request says.
func refusesProtocol(message string) bool {
	return strings.HasPrefix(message, "Invalid request") || strings.Contains(message, "unknown variant") ||
		strings.Contains(message, "requires experimentalApi")
}

func incompatible(method, what string) *Error {
	return &Error{Code: CodeIncompatible, Message: fmt.Sprintf("%s: %s", method, what)}
}

// oneLine folds white space and control characters to single blanks and cuts
// at n characters.
func oneLine(text string, n int) string {
	// Nothing behind four bytes per character can be shown.
	if len(text) > 4*n+4 {
		text = strings.ToValidUTF8(text[:4*n+4], "")
	}
	fields := strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' })
	r := []rune(strings.Join(fields, " "))
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return string(r)
}
