package transport

import (
	"cmp"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ErrKey is wrapped by the error of an answer that refuses the key, or something that the key
// does not allow.
var ErrKey = errors.New("the key was refused")

// ErrServer is wrapped by the error of an answer with HTTP 5xx: the tracker may have executed
// the request.
var ErrServer = errors.New("the server failed")

// Fail returns an error about an answer of the tracker.
func (c *Client) Fail(code, message string) *reconcile.Error {
	return reconcile.NewError(code, c.Scrub(message), c.Strange)
}

// Unreadable returns the error of an answer that could not be decoded. The argument "what"
// completes the sentence "the answer is …".
func (c *Client) Unreadable(what string, body []byte, err error) error {
	return reconcile.NewError(c.Prefix+"_unknown_payload", c.Scrub("the answer is "+what+": "+c.Short(body)),
		"check "+c.Setting+"; a proxy or login page may have answered instead").WithCause(err)
}

func (c *Client) requestError(r Request, err error) error {
	e := c.Fail(c.Prefix+"_api_request", err.Error())
	e.Hint = c.networkHint(err)
	e.Err = scrubbed{e.Message, err}
	if u, is := errors.AsType[*url.Error](err); is {
		late := ""
		if u.Timeout() {
			late = "no answer in time: "
		}
		e.Message = c.Scrub(r.Method + " " + c.Endpoint + r.Path + ": " + late + u.Err.Error())
	}
	return e
}

// networkHint is the next step after a request without an answer.
func (c *Client) networkHint(err error) string {
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return "this machine trusts no authority that signed its certificate: tracker.ca_file names a file with yours"
	}
	return "check the network and " + c.Setting
}

// Refusal returns the error of an answer with GraphQL errors, or with an HTTP status that
// means failure. said is the text of a body without errors. ofKey reports whether an error is
// about the key. special completes the error of an answer with a meaning of its own for this
// tracker, and reports whether it did so.
func (c *Client) Refusal(
	a Answer,
	errs []GraphQLError,
	said string,
	ofKey func(GraphQLError) bool,
	special func(*reconcile.Error) bool,
) error {
	said = cmp.Or(Messages(errs), said)
	e := c.Fail(c.Prefix+"_graphql_errors", said)
	if a.Status != http.StatusOK {
		e.Status = a.Status
		e.Code = c.Prefix + "_api_status"
		e.Message = c.Scrub("HTTP " + strconv.Itoa(a.Status) + ": " + said)
	}
	switch {
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || slices.ContainsFunc(errs, ofKey):
		e.Hint = c.CheckKey
		e.Err = ErrKey
	case special(e):
	case a.Status/100 == 3:
		e.Message += "; it leads to " + c.Scrub(a.Header.Get("Location"))
		e.Hint = c.Redirected + ": correct " + c.Setting
	case a.Status >= 500:
		e.Hint = c.Name + " has an internal error; the next pass asks again"
		e.Err = ErrServer
	case a.Status == http.StatusOK || a.Status == http.StatusBadRequest:
		e.Err = reconcile.ErrRejected
	}
	return e
}

// RefusalByStatus is Refusal for a service without GraphQL. said is the message in the body.
func (c *Client) RefusalByStatus(a Answer, said string) error {
	rejected := []int{
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict, http.StatusPreconditionFailed,
		http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusLocked,
	}
	isOfKey := func(GraphQLError) bool { return false }
	return c.Refusal(a, nil, cmp.Or(Brief(said), c.Short(a.Body)), isOfKey, func(e *reconcile.Error) bool {
		switch {
		case a.Status == http.StatusNotFound || a.Status == http.StatusGone:
			e.Err = reconcile.ErrGone
		case slices.Contains(rejected, a.Status):
			e.Err = reconcile.ErrRejected
		}
		return e.Err != nil
	})
}

// RefusedKey reports whether an error means that there is no key, or that it was refused.
func RefusedKey(err error) bool {
	known, ok := errors.AsType[*reconcile.Error](err)
	return errors.Is(err, ErrKey) || ok && known.Code == "missing_tracker_api_key"
}

// RefusedFor reports whether the service did not make a change for a reason that it gave, such as
// "head invalid".
func RefusedFor(err error, reason string) bool {
	return errors.Is(err, reconcile.ErrRejected) && strings.Contains(err.Error(), reason)
}

// Unknown returns the asked names that do not exist, with the nearest of suggest.
func Unknown(asked, existing, known []string) []reconcile.UnknownName {
	missing := text.Filter(asked, func(name string) bool {
		same := func(e string) bool { return reconcile.NormalizeState(e) == reconcile.NormalizeState(name) }
		return !slices.ContainsFunc(existing, same) && name != ""
	})
	return text.Map(missing, func(name string) reconcile.UnknownName {
		return reconcile.UnknownName{Name: name, Nearest: suggest.Near(name, known)}
	})
}

const (
	// shortestSecret is the length of the shortest secret that is removed from text. Real keys
	// and tokens have 40 characters and more; a placeholder such as "x" would match in many
	// words.
	shortestSecret = 8
	// longestQuote is how much of an answer an error quotes, in bytes.
	longestQuote = 300
)

// Scrub removes the key from text that was received. Services do not repeat their keys, but a
// proxy may. The user of Options stays: an address in an issue may be the same, and would be lost
// where the text is written back. JSON may write each character of the key as an escape, such as
// \u003d for =.
func (c *Client) Scrub(s string) string {
	s = c.without(s)
	if !strings.Contains(s, `\u00`) && !strings.Contains(s, `\/`) {
		return s
	}
	plain := unescaped(s)
	clean := c.without(plain)
	if clean != plain {
		return clean
	}
	return s
}

// without removes the key where it is written as it is.
func (c *Client) without(s string) string {
	for _, secret := range c.secrets {
		if len(secret) >= shortestSecret {
			s = strings.ReplaceAll(s, secret, "["+c.Word+"]")
		}
	}
	return s
}

// unescaped returns the same JSON with the characters that need no escape as they are.
func unescaped(s string) string {
	const length = len(`\u0041`)
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		if s[i+1] == '/' {
			b.WriteByte('/')
			i++
			continue
		}
		code, err := strconv.ParseUint(s[min(i+2, len(s)):min(i+length, len(s))], 16, 16)
		needsNone := code >= ' ' && code <= '~' && code != '"' && code != '\\'
		if s[i+1] == 'u' && i+length <= len(s) && err == nil && needsNone {
			b.WriteByte(byte(code))
			i += length - 1
			continue
		}
		b.WriteString(s[i : i+2]) // another escape, of which a backslash may be the second half
		i++
	}
	return b.String()
}

// Short returns the beginning of a body, on a single line.
func (c *Client) Short(body []byte) string {
	s := strings.ToValidUTF8(string(body[:min(len(body), 4*longestQuote)]), "?")
	return cmp.Or(Brief(c.Scrub(s)), "(empty)")
}

// Brief returns the beginning of a text, on a single line.
func Brief(s string) string { return text.Short(text.OneLine(s), longestQuote) }

// scrubbed wraps an error and prints it without the key.
type scrubbed struct {
	text string
	error
}

func (s scrubbed) Error() string { return s.text }

func (s scrubbed) Unwrap() error { return s.error }
