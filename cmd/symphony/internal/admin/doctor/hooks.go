package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// startedFile finds the files that a script starts by a path without variables, and a shell
// that reads the file instead.
var startedFile = text.Pattern(
	`(?m)(?:^|[;&|({!]|\b(?:then|do|else|exec)\s)[ \t]*((?:(?:ba|da|z)?sh|source|\.)\s+)?` +
		`((?:~?/|[\w@+.-]+/)[\w@+./-]+)(?:[\s;&|)]|$)`,
)

// checkHooks compares scripts of the workflow with the files that they start: in the clone
// around WORKFLOW.md if it is a clone of repository.url, and otherwise only files with an
// absolute path.
func checkHooks(ctx context.Context, e *environment) (list []finding) {
	h := e.config.Hooks
	for _, hook := range [][2]string{
		{"hooks.after_create", h.AfterCreate},
		{"hooks.before_run", h.BeforeRun},
		{"hooks.after_run", h.AfterRun},
		{"hooks.before_remove", h.BeforeRemove},
		{"hooks.on_attention", h.OnAttention},
		{"verify.command", e.config.Verify.Command},
	} {
		script := strings.ReplaceAll(hook[1], "\\\n", " ")
		list = append(list, e.programMissing(ctx, hook[0], script)...)
		for _, found := range startedFile().FindAllStringSubmatch(script, -1) {
			file := startedFrom{name: found[2], readByShell: found[1] != ""}
			if hook[0] == "hooks.on_attention" {
				file.dir = e.p.Env.Home
			}
			tested := slices.ContainsFunc(
				[]string{"-e ", "-f ", "-x "},
				func(test string) bool { return strings.Contains(script, test+file.name) },
			)
			// it may be elsewhere
			if tested || strings.Contains(script, "cd ") && !filepath.IsAbs(file.name) {
				continue
			}
			problem := e.fileProblem(ctx, file)
			if problem != "" {
				list = append(
					list,
					warn(
						hook[0]+" starts "+file.name+", which "+problem,
						"add it, chmod +x it and commit it, or correct the hook",
					)...)
			}
		}
	}
	return list
}

var (
	commandEnds = text.Pattern(`\n|&&|;`)
	// a comment, a setting of the shell or a variable
	preparation = text.Pattern(`^(?:#.*|(?:set|export|unset|cd|umask)\b.*|\w+=\S*|)$`)
	programName = text.Pattern(`^[A-Za-z][\w.+-]*$`)
)

// firstProgram returns the name of the program, or the word of the shell, with which a script
// begins; empty for anything else. Later programs may be installed by the script itself.
func firstProgram(script string) string {
	for _, part := range commandEnds().Split(script, -1) {
		part = strings.TrimSpace(part)
		if preparation().MatchString(part) {
			continue
		}
		name, _, _ := strings.Cut(part, " ")
		if programName().MatchString(name) {
			return name
		}
		return ""
	}
	return ""
}

// programMissing warns if a script begins with a program that the login shell does not find.
func (e *environment) programMissing(ctx context.Context, key, script string) []finding {
	name := firstProgram(script)
	// checkGit and checkGh report these
	if name == "" || name == "git" || name == "gh" || !e.lacks(ctx, name) {
		return nil
	}
	return warn(key+" starts "+name+", which bash -lc does not find", e.hintForProgram(ctx, name))
}

// startedFrom is a file that a script starts, such as ./build.sh.
type startedFrom struct {
	name        string
	readByShell bool   // as in sh ./build.sh: it need not be executable
	dir         string // where the script runs; empty for a workspace
}

// fileProblem returns the reason why a file can't be started, empty if it can or that is not
// known.
func (e *environment) fileProblem(ctx context.Context, started startedFrom) string {
	path := strings.Replace(started.name, "~/", e.p.Env.Home+"/", 1)
	if started.dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(started.dir, path)
	}
	if filepath.IsAbs(path) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return "does not exist"
		case !started.readByShell && info.Mode().Perm()&0o111 == 0:
			return "is not executable"
		}
		return ""
	}
	dir := e.cloneHere(ctx)
	if dir == "" {
		return ""
	}
	// An ignored file may be installed or built before.
	file := text.ShellQuote(filepath.Clean(started.name))
	mode, err := e.shell(
		ctx,
		"cd "+text.ShellQuote(dir)+" && cd \"$(git rev-parse --show-cdup)\" && ! git check-ignore -q "+file+
			" && mode=$(git ls-tree --full-tree HEAD "+file+`) && echo "mode ${mode%% *}"`,
	)
	switch {
	case err != nil:
		return ""
	case mode == "mode ":
		return "is not in the repository"
	case mode == "mode 100644" && !started.readByShell:
		return "is not executable in the repository"
	}
	return ""
}

// cloneHere returns a directory with the repository, or with a clone of it around WORKFLOW.md;
// empty if there is none.
func (e *environment) cloneHere(ctx context.Context) string {
	repository := strings.TrimPrefix(e.config.Repository.URL, "file://")
	if filepath.IsAbs(repository) {
		return repository
	}
	dir := filepath.Dir(e.p.Path)
	origin, err := e.shell(ctx, "git -C "+text.ShellQuote(dir)+" remote get-url origin")
	if err != nil || !sameRepository(origin, e.config.Repository.URL) {
		return ""
	}
	return dir
}

// sameRepository reports whether two addresses lead to the same repository.
func sameRepository(a, b string) bool {
	bare := func(address string) string { return strings.TrimSuffix(strings.TrimRight(address, "/"), ".git") }
	return b != "" && (bare(a) == bare(b) || workflow.SameRepository(a, b))
}
