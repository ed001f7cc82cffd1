package answers

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// reply is the text of a comment without quotes.
type reply struct {
	number int // of the request that it names; 0 for none
	text   string
}

// readReply reads a comment on an issue. The id of a request comes first, or after the verb:
// "ABC-7.3: yes", "deny ABC-7.3: no".
func readReply(body, identifier string) reply {
	var own []string
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(strings.TrimSpace(line), ">") {
			own = append(own, strings.TrimRight(line, "\r\n"))
		}
	}
	said := strings.TrimSpace(strings.Join(own, "\n"))
	if number, rest := cutID(said, identifier); number > 0 {
		return reply{number, strings.TrimLeft(rest, " :,-")}
	}
	for _, verb := range []string{"approve", "deny", "tell"} {
		rest, is := cutWord(said, verb)
		number, rest := cutID(rest, identifier)
		switch {
		case !is || number == 0:
		case verb == "tell":
			return reply{number, strings.TrimLeft(rest, " :,-")}
		default:
			return reply{number, strings.TrimSpace(verb + " " + strings.TrimLeft(rest, " "))}
		}
	}
	return reply{text: said}
}

// cutWord removes a word from the beginning, in any case.
func cutWord(s, word string) (rest string, is bool) {
	if len(s) < len(word) || !strings.EqualFold(s[:len(word)], word) {
		return s, false
	}
	rest = s[len(word):]
	return rest, rest == "" || strings.ContainsAny(rest[:1], " \t\n:,.!")
}

// cutID removes the id of a request of the issue from the beginning; 0 if there is none.
func cutID(s, identifier string) (number int, rest string) {
	named := strings.TrimLeft(s, " `")
	if len(named) <= len(identifier) || !strings.EqualFold(named[:len(identifier)], identifier) ||
		named[len(identifier)] != '.' {
		return 0, s
	}
	digits := named[len(identifier)+1:]
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	number, err := strconv.Atoi(digits[:end])
	if err != nil || number < 1 {
		return 0, s
	}
	return number, strings.TrimLeft(digits[end:], "`")
}

// namesOther matches a reply that names a request of another issue. It decides nothing here.
var namesOther = text.Pattern(`(?i)^(?:approve|deny|tell)\s+` + "`?" + `(\S*-\d+\.\d+)\b`)

// decided returns the request with the decision that a reply makes. The error is for the
// operator, and names the expected replies.
func decided(r reconcile.Request, said string) (reconcile.Request, error) {
	if m := namesOther().FindStringSubmatch(said); m != nil {
		return r, errors.New("there is no open request " + span(m[1]) + " on this issue")
	}
	if reason, denied := denial(r, said); denied {
		r.Decision = reconcile.DecideDeny
		r.Answer = reconcile.RequestAnswer{Reason: reason}
		return r, nil
	}
	if _, whole := detail(r); !whole {
		return r, errors.New("the request is too long to be shown here, and can only be denied here")
	}
	if r.Kind == reconcile.QuestionRequest {
		return answered(r, said)
	}
	first, _, _ := strings.Cut(said, "\n")
	switch strings.TrimRight(strings.ToLower(strings.Join(strings.Fields(first), " ")), ".!") {
	case "approve":
		r.Decision = reconcile.DecideApprove
	case "approve for session", "approve for the session":
		r.Decision = reconcile.DecideForSession
	default:
		return r, errors.New("it must begin with `approve` or `deny`")
	}
	return r, nil
}

// denial returns the reason of a denial. Questions need a colon before it, because their
// answer may begin with the same word.
func denial(r reconcile.Request, said string) (reason string, denied bool) {
	rest, denied := cutWord(said, "deny")
	reason = strings.TrimLeft(rest, " :,.!\t")
	if r.Kind == reconcile.QuestionRequest {
		denied = denied && (strings.TrimSpace(rest) == "" || rest[0] == ':')
		for _, q := range r.Detail.Questions {
			for _, o := range q.Options {
				denied = denied && !strings.EqualFold(o.Label, said)
			}
		}
	}
	return strings.TrimSpace(reason), denied
}

// answered returns the request with the answers to its questions.
func answered(r reconcile.Request, said string) (reconcile.Request, error) {
	questions := r.Detail.Questions
	if r.Secret() {
		return r, errors.New("a secret can't be answered here, where others read it")
	}
	texts := []string{said}
	if len(questions) > 1 {
		isBlank := func(line string) bool { return strings.TrimSpace(line) == "" }
		texts = slices.DeleteFunc(strings.Split(said, "\n"), isBlank)
	}
	if len(texts) != len(questions) {
		lines := text.Plural(len(texts), "line")
		return r, fmt.Errorf("it has %s, and there are %s", lines, text.Plural(len(questions), "question"))
	}
	for i, q := range questions {
		texts[i] = labels(q, strings.TrimSpace(texts[i]))
	}
	answer, err := requests.AnswersTo(r, texts, nil)
	if err != nil {
		return r, errors.New(span(strings.TrimPrefix(exit.From(err).Message, "tell: ")))
	}
	r.Decision = reconcile.DecideAnswer
	r.Answer = answer
	return r, nil
}

// labels replaces the numbers of options by their labels.
func labels(q reconcile.RequestQuestion, said string) string {
	parts := []string{said}
	if q.Several {
		parts = strings.Split(said, ",")
	}
	for i, part := range parts {
		n, err := strconv.Atoi(strings.Trim(part, " .`"))
		if err != nil || n < 1 || n > len(q.Options) {
			return said
		}
		parts[i] = q.Options[n-1].Label
	}
	return strings.Join(parts, ",")
}
