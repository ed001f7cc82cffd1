package local

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
)

// launchers are programs that decide by files in the working directory, or by a cache, which
// program they start.
var launchers = strings.Fields(
	`npx npm pnpm pnpx yarn yarnpkg corepack bun bunx deno volta fnm nvm nodenv mise rtx asdf proto pyenv
	rbenv uv uvx pipx poetry pipenv hatch rye pixi direnv devbox nix nix-shell make gmake just task cargo go`,
)

// obeyed are patterns for the names of files that launchers obey.
var obeyed = strings.Fields(
	`node_modules package.json package.json5 package.yaml .npmrc .yarn* .pnp.* .pnpmfile.* pnpm-workspace.yaml
	bunfig.toml .bunfig.toml deno.json* .env* .tool-versions mise* .mise* .rtx* .nvmrc .*-version .prototools
	.volta pyproject.toml uv.toml .venv venv Pipfile pixi.toml [Mm]akefile GNUmakefile [Jj]ustfile .justfile
	[Tt]askfile* flake.nix shell.nix default.nix devbox.json Cargo.toml .cargo go.mod go.work`,
)

const (
	maxScript  = 64 << 10 // larger files are taken for programs, not for scripts
	maxWrapped = 4        // scripts that start each other
)

// launch describes how a shell command is looked up.
type launch struct {
	host.LaunchRequest
	// limit is the error of a system that had no further descriptor to look a program up.
	limit error
}

// find returns the launcher that a shell command starts, and the files in the workspace that
// it would obey. Of several it is the first that obeys a file, or else the first. It reads the
// words of the command and of the scripts that they name: it does not understand shell, and
// takes too many programs for launchers rather than too few.
func (l *launch) find(command string, depth int) host.Launcher {
	r := reader{depth: depth, inWorkspace: true, start: true}
	var first host.Launcher
	for _, word := range shellWords(command) {
		var found host.Launcher
		switch r.meaningOf(word) {
		case newCommand:
			r.start = true
		case newSubshell:
			r.start = true
			r.outside = append(r.outside, r.inWorkspace)
		case endOfSubshell:
			r.start = true
			r.leaveSubshell()
		case leavesWorkspace:
			r.inWorkspace = false
		case nameOfLauncher:
			found = host.Launcher{Program: word, Files: l.obeyed()}
			r.start = false
		case fileOfWorkspace:
			found = host.Launcher{Program: word, Files: l.existing(word)}
			r.start = false
		case nameOfProgram:
			var exists bool
			found, exists = l.program(word, depth, r.inWorkspace)
			r.start = !exists // such as the value of an option
		case nothing:
		}
		if len(found.Files) > 0 {
			return found
		}
		if first.Program == "" {
			first = found
		}
		r.last = word
	}
	return first
}

// reader is a place in a shell command, between two words.
type reader struct {
	depth       int    // how many scripts led to the command
	inWorkspace bool   // the working directory is in the workspace
	start       bool   // the next word may be the name of a program
	last        string // the word before; empty at the beginning
	outside     []bool // inWorkspace of each shell around the subshell that is read
}

// leaveSubshell goes on where the subshell began: a cd in it says nothing about the commands
// after it. A parenthesis that closes none may be anywhere, also in the workspace.
func (r *reader) leaveSubshell() {
	last := len(r.outside) - 1
	if last < 0 {
		r.inWorkspace = true
		return
	}
	r.inWorkspace = r.outside[last]
	r.outside = r.outside[:last]
}

// meaning is what a word of a shell command says about the program that is started.
type meaning int

const (
	nothing meaning = iota
	newCommand
	newSubshell
	endOfSubshell
	leavesWorkspace
	nameOfLauncher
	fileOfWorkspace
	nameOfProgram
)

// meaningOf returns the meaning of the next word.
func (r reader) meaningOf(word string) meaning {
	switch {
	case word == ";", dashC().MatchString(word):
		return newCommand
	case word == "(":
		return newSubshell
	case word == ")":
		return endOfSubshell
	}
	if r.last == "cd" && strings.ContainsAny(word[:1], "/~$") {
		return leavesWorkspace
	}
	isLauncher := slices.Contains(launchers, filepath.Base(word))
	if slices.Contains(anywhere, word) || r.start && isLauncher {
		return nameOfLauncher
	}
	if r.inWorkspace && r.isFile(word) {
		return fileOfWorkspace
	}
	if r.start && mayBeProgram(word) {
		return nameOfProgram
	}
	return nothing
}

// isFile reports whether the next word starts a file of the working directory. A path such as
// ./run does so where a program may begin. In the command of the workflow itself any word may
// do so, such as an argument of sudo.
func (r reader) isFile(word string) bool {
	if localTools().MatchString(word) {
		return true
	}
	return relative().MatchString(word) && (r.start || r.depth == 0)
}

// mayBeProgram reports whether a word of a shell command can be the name of a program: it is
// no assignment, pattern, option, or word before the name of a program.
func mayBeProgram(word string) bool {
	return !strings.ContainsAny(word, "=$*?[") && !strings.HasPrefix(word, "-") &&
		!prefix().MatchString(filepath.Base(word))
}

var (
	// anywhere are launchers that are recognized also where they do not look like the name of
	// a program.
	anywhere = strings.Fields("npx npm pnpm pnpx yarn bunx mise asdf uvx")
	dashC    = text.Pattern(`^-[a-z]*c$`) // bash -lc
	// prefix matches words before the name of a program.
	prefix = text.Pattern(`^(?:exec|env|command|builtin|nohup|nice|time|timeout|setsid|stdbuf|sudo|` +
		`if|then|else|do|while|until|!|[0-9.]+[smhd]?)$`)
	relative   = text.Pattern(`^\.\.?/`)
	localTools = text.Pattern(`^(?:\./)?(?:node_modules|\.?venv)/`)
)

// separators separates what stands between commands from the words of these. "$(" and "("
// both begin a subshell.
var separators = strings.NewReplacer(
	"$(", " ( ", "(", " ( ", ")", " ) ",
	";", " ; ", "&", " ; ", "|", " ; ", "{", " ; ", "}", " ; ", "\n", " ; ", "`", " ; ",
)

// shellWords splits a shell command into words, with ";" between commands, and parentheses
// around those of a subshell. Quotes are removed.
func shellWords(command string) []string {
	command = separators.Replace(command)
	return strings.Fields(strings.Map(func(r rune) rune {
		if r == '"' || r == '\'' || r == '\\' {
			return -1
		}
		return r
	}, command))
}

// program examines the program that a shell finds by a name.
func (l *launch) program(name string, depth int, inWorkspace bool) (found host.Launcher, exists bool) {
	if rest, home := strings.CutPrefix(name, "~/"); home {
		name = filepath.Join(l.Home, rest)
	}
	if filepath.IsAbs(name) {
		return l.file(name, depth), true
	}
	if strings.Contains(name, "/") {
		if inWorkspace {
			found = host.Launcher{Program: name, Files: l.existing(name)}
		}
		return found, true
	}
	for _, dir := range filepath.SplitList(l.Path) {
		full := filepath.Join(dir, name)
		if filepath.IsAbs(dir) && isProgram(full) {
			return l.file(full, depth), true
		}
	}
	return found, false
}

// isProgram reports whether a path leads to a file that may be executed.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// file examines a program.
func (l *launch) file(name string, depth int) host.Launcher {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return host.Launcher{} // the shell will report it
	}
	if slices.ContainsFunc(l.Writable, func(dir string) bool { return l.reaches(dir, name) }) {
		return host.Launcher{Program: name, Files: []string{real}}
	}
	if isLauncher(name, real) {
		return host.Launcher{Program: name, Files: l.obeyed()}
	}
	if depth >= maxWrapped {
		return host.Launcher{}
	}
	interpreter, body := readScript(real)
	found := l.find(interpreter, depth+1)
	if len(found.Files) == 0 && shellName().MatchString(interpreter) {
		inBody := l.find(comment().ReplaceAllString(body, ""), depth+1)
		if found.Program == "" || len(inBody.Files) > 0 {
			found = inBody
		}
	}
	if found.Program != "" && found.Program != name {
		found.Program = name + ", which starts " + found.Program
	}
	return found
}

// isLauncher reports whether a program is a launcher, by its name or that of the file to which
// it leads: /home/me/.pyenv/shims/agent is.
func isLauncher(name, real string) bool {
	return slices.Contains(launchers, filepath.Base(real)) ||
		strings.Contains(name, "/shims/") ||
		strings.Contains(name, "/.volta/bin/")
}

var (
	shellName = text.Pattern(`\b(ba|da|z|k)?sh\b`)
	comment   = text.Pattern(`(?m)^\s*#.*$`)
)

// readScript returns the command that runs a script, by its first line, and the rest of the
// script; both are empty for another file.
func readScript(path string) (interpreter, body string) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxScript {
		return "", ""
	}
	script, _ := os.ReadFile(path) // a script that can't be read can't be run either
	line, body, _ := strings.Cut(string(script), "\n")
	interpreter, isScript := strings.CutPrefix(line, "#!")
	if !isScript {
		return "", ""
	}
	return interpreter, body
}

// reaches reports whether an account that can write a directory decides which file a program's
// name leads to. doctor passes no root, and then names no directory.
func (l *launch) reaches(dir, name string) bool {
	if dir == "" {
		return false
	}
	reaches, err := paths.Reach(dir, name)
	if paths.LimitReached(err) {
		l.limit = fmt.Errorf("look up %s: %w", name, err)
		return false
	}
	return reaches || err != nil
}

// existing returns a path in the workspace if something is there.
func (l *launch) existing(name string) []string {
	if l.Dir == "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(l.Dir, name)); err != nil && os.IsNotExist(err) {
		return nil
	}
	return []string{name}
}

// obeyed returns the names of the files in the workspace that launchers obey.
func (l *launch) obeyed() (names []string) {
	if l.Dir == "" {
		return nil
	}
	for dir, patterns := range map[string][]string{"": obeyed, ".config": {"mise*", "nix*"}} {
		entries, err := os.ReadDir(filepath.Join(l.Dir, dir))
		if paths.LimitReached(err) {
			l.limit = fmt.Errorf("list the files that launchers obey: %w", err)
			return nil
		}
		// an agent can hide files in a directory that can be entered but not listed
		if err != nil && !os.IsNotExist(err) {
			names = append(names, filepath.Join(".", dir)+" (it can't be listed)")
		}
		for _, e := range entries {
			matches := func(p string) bool { ok, _ := path.Match(p, e.Name()); return ok }
			if slices.ContainsFunc(patterns, matches) {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	slices.Sort(names)
	return names
}
