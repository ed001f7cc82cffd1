package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// withPlace adds to an error of a command that has looked in the wrong place where it should
// look: with -w in the project that has the issue, or with --project all in every project.
func withPlace(ctx context.Context, w *term.Env, c *cli.Command, args []string, err error) error {
	failed, isKnown := errors.AsType[*reconcile.Error](err)
	if !isKnown || flagOf(c, "workflow") == nil || c.Hidden {
		return err
	}
	isUnreadable := failed.Code == "missing_workflow_file" && !errors.Is(err, fs.ErrNotExist)
	if isUnreadable {
		return err // it names the file, and what is wrong with it
	}
	if failed.Code == "usage" {
		if hint := projectHint(ctx, w, c, args, failed.Message); hint != "" {
			return reconcile.NewError("usage", failed.Message, hint)
		}
	}
	if hint := nameHint(ctx, w, c, args, failed); hint != "" {
		named := *failed
		named.Message, _, _ = strings.Cut(failed.Message, ", did you mean")
		named.Hint = hint
		return &named
	}
	isMisspelt := failed.Code == "missing_workflow_file" && namesWorkflow(w, args) && c.Name != "init"
	if isMisspelt && strings.HasPrefix(failed.Hint, "write one with symphony init") {
		placed := *failed
		placed.Hint = "check the path: symphony projects lists the workflows of this account; symphony init writes a new one"
		return &placed
	}
	lost := failed.Code == "missing_workflow_file" && !namesWorkflow(w, args)
	// show and send-back are about one issue, and have no flag --project.
	flagged := failed.Code == "usage" && flagOf(c, allProjects) == nil && slices.Contains(args, "--"+allProjects)
	isAll := strings.HasSuffix(failed.Message, `unexpected argument "all": only a workflow file may be given`)
	isUnknown := failed.Code == "issue_not_found" || failed.Code == "request_not_found"
	if !lost && !flagged && !isAll && !isUnknown {
		return err
	}
	hint := cmp.Or(
		allHint(c, failed.Code, args),
		manyHint(c, failed.Message, args),
		statusHint(c, failed.Message, args),
	)
	if hint == "" && failed.Code == "request_not_found" {
		hint = requestHint(ctx, w, c, args, failed.Message)
		if hint == "" {
			return err
		}
	}
	if hint == "" && failed.Code == "issue_not_found" {
		hint = titleHint(ctx, w, c, args)
	}
	if hint == "" {
		named := args
		if failed.Code == "issue_not_found" { // the others of the command line are in their place
			missing, _, _ := strings.Cut(failed.Message, ", did you mean")
			named = text.Filter(args, func(arg string) bool { return strings.Contains(missing, arg) })
		}
		hint = placeHint(ctx, w, c, args, named, lost)
	}
	if hint == "" {
		return err
	}
	placed := *failed
	placed.Hint = hint
	return &placed
}

// projectHint is the command line with -w in place of a flag that names a project of the account,
// such as -p web-shop; empty if the message is not about such a flag.
func projectHint(ctx context.Context, w *term.Env, c *cli.Command, args []string, message string) string {
	at := slices.IndexFunc(args, func(arg string) bool {
		isProject := strings.HasPrefix(arg, "-") && slices.Contains(projectFlags, nameOf(arg))
		return isProject && strings.Contains(message, dashed(nameOf(arg)))
	})
	if at < 0 {
		return ""
	}
	flag := newStrange(args[at], args[at+1:], args[1:at])
	projects, err := wiring.AllProjects(w.Environment())
	if err != nil {
		return ""
	}
	named := text.Filter(view.Name(ctx, projects), func(p view.Named) bool { return p.Name == flag.value })
	if len(named) != 1 {
		return ""
	}
	others := text.Filter(flag.others, func(word string) bool { return word != c.Name })
	if len(others) == 0 && strings.Contains(c.UsageText, "] ISSUE") {
		others = []string{"ISSUE"}
	}
	words := slices.Concat([]string{"symphony", c.Name}, others, []string{"-w", named[0].Path})
	return strings.Join(text.Map(words, text.ShellQuote), " ")
}

// nameHint is the command line with -w in place of the name of a project, which the user wrote as an
// argument, as the FILE of -w or before the issue, as in shop/TASK-1; empty if the error is not about
// such a word.
func nameHint(ctx context.Context, w *term.Env, c *cli.Command, args []string, failed *reconcile.Error) string {
	missing, _, _ := strings.Cut(failed.Message, ", did you mean")
	isAboutWord := strings.Contains(missing, "unexpected argument") || failed.Code == "issue_not_found" ||
		failed.Code == "missing_workflow_file"
	if !isAboutWord {
		return ""
	}
	for i, word := range args {
		if i == 0 || word == "" || word == c.Name || strings.HasPrefix(word, "-") || !strings.Contains(missing, word) {
			continue
		}
		name, issue := nameIn(word)
		if name == "" { // of :8080
			continue
		}
		path := workflowCalled(ctx, w, name)
		if path == "" {
			continue
		}
		if issue == "" && failed.Code == "issue_not_found" && c.Name != "ps" {
			return name + " is a project, and no issue: symphony ps -w " + text.ShellQuote(path) + " lists its issues"
		}
		typed := slices.Clone(args)
		typed[i] = issue
		return typedFor(c, typed, path)
	}
	return ""
}

// typedFor is the command line with the workflow of another project. Words of args that are empty
// are left out.
func typedFor(c *cli.Command, args []string, path string) string {
	words := []string{"symphony", c.Name}
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "-w", "--workflow":
			i++ // its FILE
		case "", c.Name:
		default:
			words = append(words, args[i])
		}
	}
	words = append(words, "-w", path)
	return strings.Join(text.Map(words, text.ShellQuote), " ")
}

// requestHint names the other project of the account with the open request that the message is
// about, and the command line that decides it there; empty if there is none.
func requestHint(ctx context.Context, w *term.Env, c *cli.Command, args []string, message string) string {
	isMissing := func(arg string) bool { return strings.Contains(message, "there is no request "+arg+" in") }
	at := slices.IndexFunc(args, isMissing)
	if at < 0 {
		return ""
	}
	ref := args[at]
	_, elsewhere := otherProjects(ctx, w, args)
	owners := text.Filter(elsewhere, func(p view.Named) bool {
		asked, err := hasAsked(ctx, p.Project, ref)
		return err == nil && asked
	})
	switch len(owners) {
	case 0:
		return ""
	case 1:
		line := "symphony " + c.Name + " " + ref + " -w " + text.ShellQuote(owners[0].Path)
		if c.Name == "answer" { // about a single request, with the words of the answer
			line = typedFor(c, args, owners[0].Path)
		}
		return ref + " is open in the project " + owners[0].Name + ": " + line
	}
	return ref + " is open in the projects " + placesText(owners) + ": add the right -w"
}

// placeText names a project, and its workflow.
func placeText(p view.Named) string { return p.Name + " (-w " + text.ShellQuote(p.Path) + ")" }

// placesText names projects, and their workflows.
func placesText(projects []view.Named) string {
	return strings.Join(text.Map(projects, placeText), " and ")
}

// otherProjects returns all projects of the account, and those in which the command has not looked.
// There are none if they can't be read: the command's own error is the one to read.
func otherProjects(ctx context.Context, w *term.Env, args []string) (all, elsewhere []view.Named) {
	projects, err := wiring.AllProjects(w.Environment())
	if err != nil {
		return nil, nil
	}
	all = view.Name(ctx, projects)
	looked := placesOf(w, args)
	elsewhere = text.Filter(all, func(p view.Named) bool { return !slices.Contains(looked, p.StateDir) })
	return all, elsewhere
}

// nameIn is the word that may be the name of a project, and the issue behind it.
func nameIn(word string) (name, issue string) {
	folder, isFile := strings.CutSuffix(word, "/WORKFLOW.md")
	if isFile {
		return filepath.Base(folder), ""
	}
	for _, between := range []string{"/", ":", "#"} {
		name, issue, isBoth := strings.Cut(word, between)
		if isBoth && isIssueName(issue) {
			return name, issue
		}
	}
	return strings.TrimSuffix(word, "/"), ""
}

// namesWorkflow reports whether the command line, or the environment, names the workflow.
func namesWorkflow(w *term.Env, args []string) bool {
	names := func(arg string) bool {
		flag, _, _ := strings.Cut(arg, "=")
		return slices.Contains([]string{"-w", "--workflow", "-workflow"}, flag) || strings.HasSuffix(arg, ".md")
	}
	return w.Getenv("SYMPHONY_WORKFLOW") != "" || slices.ContainsFunc(args, names)
}

// allHint names --all to a user who wrote the word all in place of an issue.
func allHint(c *cli.Command, code string, args []string) string {
	at := slices.Index(args, "all")
	if at < 1 || args[at-1] == "--"+allProjects {
		return ""
	}
	if code == "usage" && flagOf(c, allProjects) != nil {
		return "--project all is about every project of your account"
	}
	if code != "issue_not_found" && code != "request_not_found" {
		return ""
	}
	said := rowOf(c, c.Name, "all")
	switch {
	case flagOf(c, "all") != nil && c.Name == "stop":
		return "symphony stop --all ends every run"
	case said != "":
		return said
	case code == "request_not_found" && flagOf(c, "filter") != nil:
		return "--filter chooses several requests, such as --filter status=needs_answer"
	case flagOf(c, "filter") != nil:
		return "--filter chooses several issues, such as --filter status=held"
	}
	return "symphony " + c.Name + " is about one issue; symphony ps --all lists them"
}

// plainWords are the words of a title in small letters, without what is between them.
func plainWords(title string) string {
	isBetween := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), isBetween), " ")
}

// titleHint helps a user who names an issue by its title, or writes a task in place of an issue, as
// for the program of an agent; empty if no argument is a text.
func titleHint(ctx context.Context, w *term.Env, c *cli.Command, args []string) string {
	words := text.Filter(args[1:], func(arg string) bool {
		return arg != c.Name && !strings.HasPrefix(arg, "-") && !strings.HasSuffix(arg, ".md")
	})
	title := strings.Join(words, " ")
	at := slices.IndexFunc(words, isIssueName)
	if c.Name == "run" && len(words) == 2 && at == 0 && strings.Contains(words[1], " ") {
		return "run takes no text: symphony tell " + words[0] + " " + text.ShellQuote(words[1]) +
			" tells its agent, at work or before it starts"
	}
	if !strings.Contains(plainWords(title), " ") || at >= 0 || takesText(c) {
		return ""
	}
	path := wiring.FindWorkflow(w.Environment())
	if at := slices.IndexFunc(args, func(arg string) bool { return arg == "-w" || arg == "--workflow" }); at > 0 {
		path = args[at+1]
	}
	cfg, tracker, err := openTracker(wiring.NewProject(w.Environment(), path, ""))
	if err != nil {
		return ""
	}
	states := slices.Concat(cfg.Policy.ActiveStates, handoffStates(cfg))
	states = text.Filter(states, func(state string) bool { return state != "" })
	issues, err := tracker.Candidates(ctx, states)
	if err != nil {
		return ""
	}
	titled := text.First(issues, func(i reconcile.Issue) bool { return plainWords(i.Title) == plainWords(title) })
	switch {
	case titled.Identifier != "":
		return "that is the title of " + titled.Identifier + ": symphony " + c.Name + " " + titled.Identifier
	case !strings.Contains(title, " "):
		return ""
	case tracker.Create != nil:
		return "an issue is named by its identifier: symphony issues new " + text.ShellQuote(title) +
			" makes one with that title"
	}
	return "an issue is named by its identifier: symphony issues lists them; make a new one in the tracker"
}

// manyHint helps a user who names several issues by one word, such as 3,4 or TASK-*.
func manyHint(c *cli.Command, message string, args []string) string {
	for _, arg := range args[1:] {
		if !strings.Contains(message, arg) {
			continue
		}
		listed := strings.ReplaceAll(arg, "..", ",")
		if rangeOfIssues().MatchString(arg) {
			listed = strings.ReplaceAll(arg, "-", ",")
		}
		names := strings.Split(listed, ",")
		isList := len(names) > 1 && !slices.ContainsFunc(names, func(name string) bool { return !isIssueName(name) })
		switch {
		case strings.Contains(arg, "*") && flagOf(c, "filter") != nil:
			return "there are no patterns: --filter chooses issues, such as --filter status=held or --filter text=WORD"
		case !isList:
		case flagOf(c, "filter") != nil || c.Name == "prune":
			return "each issue is an argument of its own: symphony " + c.Name + " " + strings.Join(names, " ")
		default:
			return "it is about one issue: symphony " + c.Name + " " + names[0]
		}
	}
	return ""
}

// statusHint names the filter to a user who wrote a status in place of an issue, as in ps held.
func statusHint(c *cli.Command, message string, args []string) string {
	for _, arg := range args[1:] {
		isStatus := slices.Contains(view.Statuses, view.Status(arg))
		if isStatus && strings.Contains(message, arg) && flagOf(c, "filter") != nil {
			return "--filter status=" + arg + " chooses the issues with that status"
		}
	}
	return ""
}

// rangeOfIssues matches 3-5, which no tracker has as an identifier.
var rangeOfIssues = text.Pattern(`^\d+-\d+$`)

// makeOne tells a user without a WORKFLOW.md how to make one.
const makeOne = "; symphony init writes a WORKFLOW.md here"

// placeHint names the project that has one of the named issues, which the command line means, or
// else the projects of the account if the command has found none.
func placeHint(ctx context.Context, w *term.Env, c *cli.Command, args, named []string, lost bool) string {
	all, elsewhere := otherProjects(ctx, w, args)
	for _, arg := range named {
		if arg == "" || arg == args[0] || text.IsNumber(arg) || strings.HasPrefix(arg, "-") {
			continue
		}
		owners := text.Filter(elsewhere, func(p view.Named) bool { return knows(ctx, p, arg) })
		if len(owners) > 0 {
			return ownersHint(arg, owners)
		}
	}
	switch {
	case !lost || len(all) == 0:
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

// ownersHint names the projects that have an issue of that name.
func ownersHint(issue string, owners []view.Named) string {
	if len(owners) == 1 {
		owner := owners[0]
		return fmt.Sprintf("%s is an issue of the project %s: add -w %s", issue, owner.Name, text.ShellQuote(owner.Path))
	}
	return issue + " is an issue of the projects " + placesText(owners) + ": add the right -w"
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
