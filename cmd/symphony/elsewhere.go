package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// withPlace adds to an error of a command that has looked in the wrong place where it should
// look: in the project that has the issue or the request, or in one of the account's projects.
func withPlace(
	ctx context.Context, w *term.Env, app *cli.App, c *cli.Command, args []string, err error,
) error {
	failed, isKnown := errors.AsType[*reconcile.Error](err)
	if !isKnown || flagOf(c, "workflow") == nil || c.Hidden {
		return err
	}
	words := wordsOf(app, args)
	hint := ""
	switch {
	case failed.Code == "issue_not_found":
		if takesRequest(c) {
			hint = ownerHint(ctx, w, args, words[:min(len(words), 1)], "is open in", asks)
		}
		hint = cmp.Or(hint, ownerHint(ctx, w, args, words, "is an issue of", knows))
	case failed.Code == "request_not_found":
		hint = ownerHint(ctx, w, args, words, "is open in", asks)
	case failed.Code == "missing_workflow_file" && errors.Is(err, fs.ErrNotExist) && !namesWorkflow(w, args):
		hint = cmp.Or(
			ownerHint(ctx, w, args, words, "is an issue of", knows),
			projectsHint(ctx, w, c, args),
		)
	}
	if hint == "" {
		return err
	}
	placed := *failed
	placed.Hint = hint
	return &placed
}

// wordsOf returns the arguments of the command on a command line, without its flags.
func wordsOf(app *cli.App, args []string) []string {
	arranged, err := arrange(app, args)
	at := slices.Index(arranged, "--")
	if err != nil || at < 0 {
		return nil
	}
	return arranged[at+1:]
}

// ownerHint names the other projects of the account that have the first issue, or request, that
// the project has not in which the command has looked; empty if none has it.
func ownerHint(
	ctx context.Context,
	w *term.Env,
	args, words []string,
	verb string,
	has func(ctx context.Context, p view.Named, ref string) bool,
) string {
	looked, others := accountProjects(ctx, w, args)
	for _, word := range words {
		hasIt := func(p view.Named) bool { return has(ctx, p, word) }
		if slices.ContainsFunc(looked, hasIt) {
			continue
		}
		owners := text.Filter(others, hasIt)
		switch {
		case len(owners) == 0 || text.IsNumber(word): // 7 may be an issue of every project
			return ""
		case len(owners) == 1:
			place := text.ShellQuote(owners[0].Path)
			return fmt.Sprintf("%s %s the project %s: add -w %s", word, verb, owners[0].Name, place)
		}
		return fmt.Sprintf("%s %s the projects %s: add the right -w", word, verb, placesText(owners))
	}
	return ""
}

// placeText names a project, and its workflow.
func placeText(p view.Named) string { return p.Name + " (-w " + text.ShellQuote(p.Path) + ")" }

// placesText names projects, and their workflows.
func placesText(projects []view.Named) string {
	return strings.Join(text.Map(projects, placeText), " and ")
}

// accountProjects returns the projects of the account in which the command has looked, and the
// others. There are none if they can't be read: the command's own error is the one to read.
func accountProjects(ctx context.Context, w *term.Env, args []string) (looked, others []view.Named) {
	projects, err := wiring.AllProjects(w.Environment())
	if err != nil {
		return nil, nil
	}
	places := placesOf(w, args)
	for _, p := range view.Name(ctx, projects) {
		if slices.Contains(places, p.StateDir) {
			looked = append(looked, p)
		} else {
			others = append(others, p)
		}
	}
	return looked, others
}

// namesWorkflow reports whether the command line, or the environment, names the workflow.
func namesWorkflow(w *term.Env, args []string) bool {
	names := func(arg string) bool {
		flag, _, _ := strings.Cut(arg, "=")
		return slices.Contains([]string{"-w", "--workflow", "-workflow"}, flag) || strings.HasSuffix(arg, ".md")
	}
	return w.Getenv("SYMPHONY_WORKFLOW") != "" || slices.ContainsFunc(args, names)
}

// makeOne tells a user without a WORKFLOW.md how to make one.
const makeOne = "; symphony init writes a WORKFLOW.md here"

// projectsHint names the projects of the account to a command that has found none; empty if there
// are none.
func projectsHint(ctx context.Context, w *term.Env, c *cli.Command, args []string) string {
	looked, others := accountProjects(ctx, w, args)
	all := slices.Concat(looked, others)
	switch {
	case len(all) == 0:
		return ""
	case len(all) == 1:
		return "the only project of this account: -w " + text.ShellQuote(all[0].Path) + makeOne
	case flagOf(c, allProjects) == nil:
		const hint = "name one of the %d projects of this account with -w FILE; symphony projects lists them"
		return fmt.Sprintf(hint+makeOne, len(all))
	}
	const hint = "--project all is about each of the %d projects of this account, -w FILE about one; " +
		"symphony projects lists them"
	return fmt.Sprintf(hint+makeOne, len(all))
}

// placesOf returns the state directories in which a command may have looked: of each file that
// its line names, and of the workflow around the working directory.
func placesOf(w *term.Env, args []string) (dirs []string) {
	paths := []string{w.Getenv("SYMPHONY_WORKFLOW"), wiring.FindWorkflow(w.Environment())}
	for _, arg := range args {
		flag, value, isFlag := strings.Cut(arg, "=")
		if isFlag && strings.HasPrefix(flag, "-") {
			arg = value
		}
		paths = append(paths, arg)
	}
	stateDir := w.Getenv("SYMPHONY_STATE_DIR")
	for _, path := range paths {
		dirs = append(dirs, w.Absolute(path)) // it may be the value of --state-dir
		if path != "" && isFile(w.Absolute(path)) {
			dirs = append(dirs, wiring.NewProject(w.Environment(), path, stateDir).StateDir)
		}
	}
	return append(dirs, stateDir)
}

// knows reports whether the state of a project has an issue of that name.
func knows(ctx context.Context, p view.Named, ref string) bool {
	db, err := wiring.OpenForReading(ctx, p.Project)
	if err != nil {
		return false // the project can't be read, which its own commands report
	}
	defer db.Close()
	_, _, known, err := db.Views.FindIssue(ctx, ref)
	return err == nil && known
}

// asks reports whether a running agent of a project waits for an answer to a request.
func asks(ctx context.Context, p view.Named, ref string) bool {
	asked, err := hasAsked(ctx, p.Project, ref)
	return err == nil && asked
}
