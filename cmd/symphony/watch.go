package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// watchStep is how often ps --watch looks, and counts the seconds on.
const watchStep = time.Second

// watch repeats ps until a signal, or on a terminal until a key says so.
func watch(ctx context.Context, p *project.Project, o viewOptions) error {
	if out, ok := p.Env.Stdout.(*os.File); ok && p.Env.Width > 0 && !p.Env.JSON && p.Env.Getenv("TERM") != "dumb" {
		return watchScreen(ctx, p, o, out)
	}
	for {
		v, err := readViewFor(ctx, p, o)
		if err != nil {
			return err
		}
		showView(p.Env, v)
		if !project.Sleep(ctx, watchStep) {
			return nil
		}
	}
}

// watchScreen paints the view on a screen of its own. What makes the very first look fail is said on the old one.
func watchScreen(ctx context.Context, p *project.Project, o viewOptions, out *os.File) (err error) {
	l := newLooker(p, o)
	defer func() { err = errors.Join(err, l.close()) }()
	v, err := l.refresh(ctx)
	if err != nil {
		return err
	}
	s := newScreen(p.Env.Stdin, out)
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave() // also after a panic, whose report is to be read
	tick := time.NewTicker(watchStep)
	defer tick.Stop()
	var fault error
	for {
		columns, rows := s.size()
		if err := s.paint(watchFrame(p.Env, v, fault, columns, rows), columns, rows); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case key, open := <-s.keys:
			if !open || ends(key) {
				return nil
			}
			if err := s.pressed(key); err != nil {
				return err
			}
		case sig := <-s.signals:
			if over, err := s.signalled(sig); over || err != nil {
				return err
			}
		case <-tick.C:
			v, fault = l.refresh(ctx)
			if ctx.Err() != nil {
				return nil
			}
		}
	}
}

// frame is the view as lines that fit the terminal.
func watchFrame(w *term.Env, v view, fault error, columns, rows int) []string {
	resized := *w
	resized.Width = columns
	top := []string{watchTitle(&resized, v)}
	if fault != nil {
		e := exit.From(fault)
		top = append(top, resized.Red(term.Visible(fmt.Sprintf("ERROR    %s: %s; what follows is the last that could be read", e.Code, e.Message))))
	}
	top = append(top, obstacleLines(&resized, v)...)
	sections := sections(&resized, v)
	if len(v.Requests) > 0 {
		sections = append([]section{{"REQUESTS", askedTable(&resized, v)}}, sections...)
	}
	lines := fitRows(&resized, top, sections, closingLines(&resized, v), rows)
	for i := range lines {
		lines[i] = term.CutCells(lines[i], columns)
	}
	return lines
}

// title says what is watched and that it is alive.
func watchTitle(w *term.Env, v view) string {
	name := filepath.Base(filepath.Dir(v.Project.WorkflowPath))
	return w.Dim(term.Visible(fmt.Sprintf("symphony ps  %s  %s  q ends it", name, v.GeneratedAt.Local().Format(time.TimeOnly))))
}

// asked are the requests, a line for each: ps and approve show them in full.
func askedTable(w *term.Env, v view) term.Table {
	t := term.Table{Head: []string{"REQUEST", "KIND", "ASKED", "LEFT", "SUMMARY"}, State: 1}
	for _, r := range v.Requests {
		summary := r.Summary
		if r.Outside {
			summary = "outside the sandbox: " + summary
		}
		t.AddIn(term.ColourWaits, r.ID, r.Kind, term.AgoText(w, v.GeneratedAt, r.AskedAt), term.Duration(r.ExpiresAt.Sub(v.GeneratedAt)), summary)
	}
	return t
}
