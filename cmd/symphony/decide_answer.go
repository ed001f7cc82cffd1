package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// answersTo gives each question its answer, in their order. What a secret question is answered leaves this program
// sealed.
func answersTo(r reconcile.Request, texts []string, choices []int) (reconcile.RequestAnswer, error) {
	questions := r.Detail.Questions
	if given := max(len(texts), len(choices)); given != len(questions) {
		return reconcile.RequestAnswer{}, exit.Usage("answer: %s asks %s, and %s given: %s",
			r.ID(), text.Plural(len(questions), "question"), howMany(given), view.HowToAnswer(r))
	}
	answers := map[string][]string{}
	for i, q := range questions {
		var given []string
		var err error
		if len(choices) > 0 {
			given = make([]string, 1)
			given[0], err = chosen(r, q, choices[i])
		} else {
			given, err = written(r, q, texts[i])
		}
		if err != nil {
			return reconcile.RequestAnswer{}, err
		}
		if len(given) > 0 {
			answers[q.ID] = append(answers[q.ID], given...) // two questions may have one id
		}
	}
	if len(answers) == 0 {
		return reconcile.RequestAnswer{}, emptyAnswer(r)
	}
	if r.Detail.SealKey == nil {
		return reconcile.RequestAnswer{Answers: answers}, nil
	}
	sealed, err := agent.SealAnswers(r.Detail.SealKey, answers)
	return reconcile.RequestAnswer{Sealed: sealed}, err
}

func howMany(n int) string {
	if n == 1 {
		return "1 answer is"
	}
	return text.Plural(n, "answer") + " are"
}

func chosen(r reconcile.Request, q reconcile.RequestQuestion, n int) (string, error) {
	switch {
	case len(q.Options) == 0:
		return "", exit.Usage("answer: %s offers nothing to choose from: %s", r.ID(), view.HowToAnswer(r))
	case n < 1 || n > len(q.Options):
		return "", exit.Usage("answer: --choice %d is none of the options of %s:%s", n, r.ID(), render.Numbered(q))
	}
	return q.Options[n-1].Label, nil
}

// written takes a text that the question welcomes: any, or the label of an option, or of several with commas between.
// Nothing answers a question that is optional.
func written(r reconcile.Request, q reconcile.RequestQuestion, text string) ([]string, error) {
	if q.Optional && strings.TrimSpace(text) == "" {
		return nil, nil
	}
	one, err := writtenOne(r, q, text)
	if err == nil || !q.Several {
		return []string{one}, err
	}
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		if one, err = writtenOne(r, q, part); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func writtenOne(r reconcile.Request, q reconcile.RequestQuestion, text string) (string, error) {
	for _, o := range q.Options {
		if strings.EqualFold(strings.TrimSpace(text), o.Label) {
			return o.Label, nil
		}
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", emptyAnswer(r)
	case len(q.Options) > 0 && !q.Other:
		return "", exit.Usage("answer: %s takes one of its options:%s", r.ID(), render.Numbered(q))
	}
	var err error
	what := ""
	switch q.Type {
	case "integer":
		what = "a whole number"
		_, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	case "number":
		what = "a number such as 0.5"
		n := json.Number(strings.TrimSpace(text))
		if _, err = n.Float64(); err == nil && !json.Valid([]byte(n)) {
			err = strconv.ErrSyntax // NaN and the like
		}
	}
	if err != nil {
		return "", exit.Usage("answer: %q of %s takes %s", q.Text, r.ID(), what)
	}
	return text, nil
}

func emptyAnswer(r reconcile.Request) error {
	return exit.Usage("answer: an empty text answers nothing; symphony deny %s says that there is no answer", r.ID())
}
