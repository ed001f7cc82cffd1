package codex

import (
	"cmp"
	"slices"
	"strings"
)

// serveQuestions answers item/tool/requestUserInput.
func (s *Session) serveQuestions(m *message, p *params, e Event) {
	nothing := object{"answers": object{}}
	if s.o.OnQuestion != QuestionAsk {
		e.Name = EventTurnInputRequired
		s.reply(m, e, nothing)
		s.fail(&Error{Code: CodeTurnInputRequired, Message: oneLine("the agent asks a person: "+e.Message, errorLength)})
		return
	}
	a := p.ask(AskQuestion, describeQuestions(p))
	for _, q := range p.Questions {
		a.Questions = append(a.Questions, q.question())
	}
	if len(a.Questions) == 0 {
		e.Name, e.Message = EventQuestionDeclined, "a request without questions was answered with nothing"
		s.reply(m, e, nothing)
		return
	}
	e.Name, e.Message = EventQuestionAsked, oneLine(a.questionsText(), messageLength)
	s.askPerson(m, e, a, func(d Decision) (name, message string, answer object) {
		if name, message, ok := a.unanswered(d); ok {
			return name, message, nothing
		}
		answers := object{}
		for _, q := range a.Questions {
			if texts := d.Answers[q.ID]; len(texts) > 0 {
				answers[q.ID] = object{"answers": texts}
			}
		}
		return EventQuestionAnswered, a.answeredText(d), object{"answers": answers}
	})
}

func (q *wireQuestion) question() Question {
	out := Question{ID: q.ID, Header: q.Header, Text: cmp.Or(q.Question, q.Header), Other: q.IsOther, Secret: q.IsSecret}
	for _, o := range q.Options {
		out.Options = append(out.Options, Option{Label: o.Label, Description: o.Description})
	}
	return out
}

// unanswered is the event for a decision that answers none of the questions.
func (a *Ask) unanswered(d Decision) (name, message string, ok bool) {
	switch {
	case d.Expired:
		return EventRequestExpired, "nobody answered in time: " + a.Summary, true
	case !slices.ContainsFunc(a.Questions, func(q Question) bool { return len(d.Answers[q.ID]) > 0 }):
		return EventQuestionDeclined, join("not answered"+by(d)+": "+a.Summary, d.Reason), true
	}
	return "", "", false
}

// questionsText is what is asked, with the answers on offer.
func (a *Ask) questionsText() string {
	parts := make([]string, 0, len(a.Questions))
	for _, q := range a.Questions {
		text := q.Text
		if len(q.Options) > 0 {
			labels := make([]string, 0, len(q.Options))
			for _, o := range q.Options {
				labels = append(labels, o.Label)
			}
			text += " (" + strings.Join(labels, " | ") + ")"
		}
		parts = append(parts, text)
	}
	lead := "asks a person"
	if a.Server != "" {
		lead = "MCP server " + a.Server + " asks a person"
	}
	return join(join(lead, a.Reason), strings.Join(parts, " / "))
}

// answeredText is what was asked and answered; secrets are left out.
func (a *Ask) answeredText(d Decision) string {
	parts := make([]string, 0, len(a.Questions))
	for _, q := range a.Questions {
		texts := d.Answers[q.ID]
		switch {
		case len(texts) == 0:
		case q.Secret:
			parts = append(parts, q.Text+" → (not shown)")
		default:
			parts = append(parts, q.Text+" → "+strings.Join(texts, ", "))
		}
	}
	return "answered" + by(d) + ": " + strings.Join(parts, " / ")
}
