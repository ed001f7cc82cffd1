package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

// confirmApproval shows a request and asks whether to approve it.
func confirmApproval(ctx context.Context, w *term.Env, r reconcile.Request, d *decision) (bool, error) {
	showRequest(w, r)
	answer, err := term.AskLine(ctx, w, "Approve? [y]es, for the [s]ession, [N]o: ", false)
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
	case "s", "session":
		d.how = reconcile.DecideForSession
	default:
		return false, nothingDecided(w, r, err)
	}
	return true, err
}

// confirmDenial shows a request and asks whether to deny it.
func confirmDenial(ctx context.Context, w *term.Env, r reconcile.Request, _ *decision) (bool, error) {
	showRequest(w, r)
	return confirm(ctx, w, r, "Deny? [y]es, [N]o: ")
}

// confirm asks a question that yes or no answers.
func confirm(ctx context.Context, w *term.Env, r reconcile.Request, prompt string) (bool, error) {
	answer, err := term.AskLine(ctx, w, prompt, false)
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
		return false, nothingDecided(w, r, err)
	}
	return true, err
}

// askAnswers asks each question. If the answers were given, it shows the request and asks whether to send them.
func askAnswers(ctx context.Context, w *term.Env, r reconcile.Request, d *decision) (bool, error) {
	showRequest(w, r)
	if len(d.texts)+len(d.choices) > 0 {
		return confirm(ctx, w, r, "Send your answer? [y]es, [N]o: ")
	}
	for i, q := range r.Detail.Questions {
		prompt := "Answer: "
		if len(r.Detail.Questions) > 1 {
			prompt = fmt.Sprintf("Answer %d: ", i+1)
		}
		if len(q.Options) > 0 {
			prompt = strings.TrimSuffix(prompt, ": ") + fmt.Sprintf(" (1-%d", len(q.Options))
			if q.Other {
				prompt += ", or a text"
			}
			prompt += "): "
		}
		text, err := askQuestion(ctx, w, r, q, prompt)
		if err != nil || text == "" && !q.Optional {
			return false, nothingDecided(w, r, err)
		}
		d.texts = append(d.texts, text)
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
		var text string
		if n, notNumber := strconv.Atoi(line); notNumber == nil && len(q.Options) > 0 {
			text, err = optionNumber(r, q, n)
		} else {
			text = line
			_, err = parseAnswer(r, q, line)
		}
		if err == nil {
			return text, nil
		}
		fmt.Fprintln(w.Stderr, term.Visible(exit.From(err).Message))
	}
}

// nothingDecided is the end without a decision.
func nothingDecided(w *term.Env, r reconcile.Request, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintln(w.Stderr, "symphony: nothing is decided, "+term.Visible(r.ID())+" waits on")
	return nil
}

// showRequest prints everything that is known about a request.
func showRequest(w *term.Env, r reconcile.Request) {
	out := func(label, text string) {
		for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(w.Stdout, "  %-12s %s\n", label, term.Visible(line))
		}
	}
	some := func(label, text string) {
		if text != "" {
			out(label, text)
		}
	}
	d := r.Detail
	fmt.Fprintln(w.Stdout, w.Bold(term.Visible(r.ID()+"  "+strings.ReplaceAll(string(r.Kind), "_", " "))))
	if r.Outside {
		fmt.Fprintln(w.Stdout, "  "+w.Red("runs outside the sandbox"))
	}
	if r.Kind == reconcile.CommandRequest && strings.Join(strings.Fields(r.Summary), " ") != strings.Join(strings.Fields(d.Command), " ") {
		out("asks", r.Summary) // more than the command: the network, permissions, input
	}
	some("command", d.Command)
	some("directory", d.Cwd)
	some("reason", d.Reason)
	some("below", d.GrantRoot)
	some("permissions", string(d.Permissions))
	some("asked by", d.Server)
	for _, c := range d.Changes {
		out(c.Kind, c.Path)
		some("", c.Diff)
	}
	for _, q := range d.Questions {
		some(strings.ToLower(term.Visible(q.Header)), q.Text)
		for i, o := range q.Options {
			text := fmt.Sprintf("%d) %s", i+1, o.Label)
			if o.Description != "" {
				text += ": " + o.Description
			}
			out("", text)
		}
	}
	if d.Cut > 0 {
		fmt.Fprintln(w.Stdout, "  "+w.Red(render.NotKept(d.Cut)))
	}
}

// answersTo gives each question its answer, in their order. Answers to secret questions are encrypted for the worker.
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
			given[0], err = optionNumber(r, q, choices[i])
		} else {
			given, err = parseAnswer(r, q, texts[i])
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

// howMany says how many answers there are.
func howMany(n int) string {
	if n == 1 {
		return "1 answer is"
	}
	return text.Plural(n, "answer") + " are"
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
