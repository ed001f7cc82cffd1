package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

func approveByHand(ctx context.Context, w *term.Env, r reconcile.Request, d *decision) (bool, error) {
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

func denyByHand(ctx context.Context, w *term.Env, r reconcile.Request, _ *decision) (bool, error) {
	showRequest(w, r)
	answer, err := term.AskLine(ctx, w, "Deny? [y]es, [N]o: ", false)
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
		return false, nothingDecided(w, r, err)
	}
	return true, err
}

// answerByHand asks for what was not given. Given answers are shown the question first.
func answerByHand(ctx context.Context, w *term.Env, r reconcile.Request, d *decision) (bool, error) {
	showRequest(w, r)
	if len(d.texts)+len(d.choices) > 0 {
		answer, err := term.AskLine(ctx, w, "Send your answer? [y]es, [N]o: ", false)
		if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
			return false, nothingDecided(w, r, err)
		}
		return true, err
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
		text, err := askUntilRight(ctx, w, r, q, prompt)
		if err != nil || text == "" && !q.Optional {
			return false, nothingDecided(w, r, err)
		}
		d.texts = append(d.texts, text)
	}
	return true, nil
}

// askUntilRight asks again where the answer is none; an empty line gives up, or leaves an optional question out.
func askUntilRight(ctx context.Context, w *term.Env, r reconcile.Request, q reconcile.RequestQuestion, prompt string) (string, error) {
	for {
		line, err := term.AskLine(ctx, w, prompt, q.Secret)
		line = strings.TrimSpace(line)
		if err != nil || line == "" {
			return "", err
		}
		var text string
		if n, notNumber := strconv.Atoi(line); notNumber == nil && len(q.Options) > 0 {
			text, err = chosen(r, q, n)
		} else {
			text = line
			_, err = written(r, q, line)
		}
		if err == nil {
			return text, nil
		}
		fmt.Fprintln(w.Stderr, term.Visible(exit.From(err).Message))
	}
}

func nothingDecided(w *term.Env, r reconcile.Request, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintln(w.Stderr, "symphony: nothing is decided, "+term.Visible(r.ID())+" waits on")
	return nil
}

// showRequest shows all that is known of a request.
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
