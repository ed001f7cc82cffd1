package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// ask asks the operator for the decision, or for the answers that are missing. It returns false if nothing was decided.
func (d *Decision) ask(ctx context.Context, w *term.Env, r reconcile.Request) (bool, error) {
	if d.How == reconcile.DecideAnswer && len(d.Texts)+len(d.Choices) == 0 {
		return d.askAnswers(ctx, w, r)
	}
	prompt := "Approve? [y]es, for the [s]ession, [N]o: "
	switch d.How {
	case reconcile.DecideDeny:
		prompt = "Deny? [y]es, [N]o: "
	case reconcile.DecideAnswer:
		prompt = "Send your answer? [y]es, [N]o: "
	case reconcile.DecideApprove, reconcile.DecideForSession:
	}
	line, err := term.AskLine(ctx, w, prompt, false)
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, err
	case "s", "session":
		if d.How == reconcile.DecideApprove || d.How == reconcile.DecideForSession {
			d.How = reconcile.DecideForSession
			return true, err
		}
	}
	return false, err
}

func (d *Decision) askAnswers(ctx context.Context, w *term.Env, r reconcile.Request) (bool, error) {
	for i, q := range r.Detail.Questions {
		prompt := "Answer"
		if len(r.Detail.Questions) > 1 {
			prompt += fmt.Sprintf(" %d", i+1)
		}
		switch {
		case len(q.Options) > 0 && q.Other:
			prompt += fmt.Sprintf(" (1-%d, or a text)", len(q.Options))
		case len(q.Options) > 0:
			prompt += fmt.Sprintf(" (1-%d)", len(q.Options))
		}
		answer, err := askQuestion(ctx, w, r, q, prompt+": ")
		if err != nil || answer == "" && !q.Optional {
			return false, err
		}
		d.Texts = append(d.Texts, answer)
	}
	return true, nil
}

// askQuestion asks until the answer is allowed. An empty line gives up, or leaves an optional question out.
func askQuestion(ctx context.Context, w *term.Env, r reconcile.Request, q reconcile.RequestQuestion, prompt string) (string, error) {
	for {
		line, err := term.AskLine(ctx, w, prompt, q.Secret)
		line = strings.TrimSpace(line)
		if err != nil || line == "" {
			return "", err
		}
		if n, notNumber := strconv.Atoi(line); notNumber == nil && len(q.Options) > 0 {
			line, err = optionNumber(r, q, n)
		} else {
			_, err = parseAnswer(r, q, line)
		}
		if err == nil {
			return line, nil
		}
		fmt.Fprintln(w.Stderr, term.Visible(exit.From(err).Message))
	}
}

// show prints everything that is known about a request.
func show(w *term.Env, r reconcile.Request) {
	fmt.Fprintln(w.Stdout, w.Bold(term.Visible(r.ID()+"  "+strings.ReplaceAll(string(r.Kind), "_", " "))))
	if r.Outside {
		fmt.Fprintln(w.Stdout, "  "+w.Red("runs outside the sandbox"))
	}
	render.Request(w, r)
}

// answersTo gives each question its answer, in their order. Answers to secret questions are encrypted for the worker.
func answersTo(r reconcile.Request, texts []string, choices []int) (answer reconcile.RequestAnswer, err error) {
	questions := r.Detail.Questions
	if given := max(len(texts), len(choices)); given != len(questions) {
		verb := "are"
		if given == 1 {
			verb = "is"
		}
		return answer, exit.Usage("answer: %s asks %s, and %s %s given: %s",
			r.ID(), text.Plural(len(questions), "question"), text.Plural(given, "answer"), verb, view.HowToAnswer(r))
	}
	answers := map[string][]string{}
	for i, q := range questions {
		given := make([]string, 1)
		if len(choices) > 0 {
			given[0], err = optionNumber(r, q, choices[i])
		} else {
			given, err = parseAnswer(r, q, texts[i])
		}
		if err != nil {
			return answer, err
		}
		if len(given) > 0 {
			answers[q.ID] = append(answers[q.ID], given...) // two questions may have one id
		}
	}
	switch {
	case len(answers) == 0:
		return answer, emptyAnswer(r)
	case r.Detail.SealKey == nil:
		answer.Answers = answers
	default:
		answer.Sealed, err = agent.SealAnswers(r.Detail.SealKey, answers)
	}
	return answer, err
}

// optionNumber returns the label of the nth option.
func optionNumber(r reconcile.Request, q reconcile.RequestQuestion, n int) (string, error) {
	switch {
	case len(q.Options) == 0:
		return "", exit.Usage("answer: %s offers nothing to choose from: %s", r.ID(), view.HowToAnswer(r))
	case n < 1 || n > len(q.Options):
		return "", exit.Usage("answer: --choice %d is none of the options of %s:%s", n, r.ID(), render.Numbered(q))
	}
	return q.Options[n-1].Label, nil
}

// parseAnswer accepts what the question allows: any text, the label of an option, or several labels with commas between.
// An optional question may have no answer.
func parseAnswer(r reconcile.Request, q reconcile.RequestQuestion, text string) ([]string, error) {
	if q.Optional && strings.TrimSpace(text) == "" {
		return nil, nil
	}
	one, err := parseOne(r, q, text)
	if err == nil || !q.Several {
		return []string{one}, err
	}
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		if one, err = parseOne(r, q, part); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func parseOne(r reconcile.Request, q reconcile.RequestQuestion, text string) (string, error) {
	plain := strings.TrimSpace(text)
	for _, o := range q.Options {
		if strings.EqualFold(plain, o.Label) {
			return o.Label, nil
		}
	}
	switch {
	case plain == "":
		return "", emptyAnswer(r)
	case len(q.Options) > 0 && !q.Other:
		return "", exit.Usage("answer: %s takes one of its options:%s", r.ID(), render.Numbered(q))
	}
	if q.Type == "integer" {
		if _, err := strconv.ParseInt(plain, 10, 64); err != nil {
			return "", exit.Usage("answer: %q of %s takes a whole number", q.Text, r.ID())
		}
	}
	if q.Type == "number" {
		if _, err := strconv.ParseFloat(plain, 64); err != nil || !json.Valid([]byte(plain)) { // not NaN
			return "", exit.Usage("answer: %q of %s takes a number such as 0.5", q.Text, r.ID())
		}
	}
	return text, nil
}

func emptyAnswer(r reconcile.Request) error {
	return exit.Usage("answer: an empty text answers nothing; symphony deny %s says that there is no answer", r.ID())
}
