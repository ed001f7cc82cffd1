package host

import (
	"errors"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
)

// GitError is the error of a git command.
type GitError struct {
	Command string // such as git push
	// Lines are all that git, ssh and the remote printed on stderr, but for frames and blank lines.
	Lines []string
	Err   error // of the process
}

// NewGitError returns the error of a command that printed a complaint.
func NewGitError(command string, complaint []byte, err error) GitError {
	said := GitError{Command: command, Err: err}
	printed := strings.ReplaceAll(strings.ToValidUTF8(string(complaint), "\uFFFD"), "\r", "\n")
	for line := range strings.Lines(printed) {
		line = strings.TrimSpace(line)
		if wordInLine().MatchString(strings.TrimPrefix(line, "remote:")) {
			said.Lines = append(said.Lines, line)
		}
	}
	return said
}

// wordInLine matches all lines but blank ones and frames.
var wordInLine = text.Pattern(`[\pL\pN]`)

const (
	mostLines = 3       // of the complaint that belong to the message
	maxLine   = 200     // bytes of each
	maxOutput = 2 << 10 // bytes of the whole complaint
)

// Error says what git was to do, and the last lines of its complaint that are no advice.
func (e GitError) Error() string {
	lines := slices.DeleteFunc(slices.Clone(e.Lines), isAdvice)
	lines = lines[max(0, len(lines)-mostLines):]
	if len(lines) == 0 {
		return e.Command + ": " + e.Err.Error()
	}
	shorten := func(line string) string { return text.Short(line, maxLine) }
	return e.Command + ": " + strings.Join(text.Map(lines, shorten), "; ")
}

func (e GitError) Unwrap() error { return e.Err }

// Output is the complaint on a single line, for the log.
func (e GitError) Output() string { return text.Short(strings.Join(e.Lines, "; "), maxOutput) }

// advice are the beginnings of lines that git and ssh print whatever the reason is.
var advice = []string{
	"hint:", "To ", "error: failed to push some refs to ",
	"Please make sure you have the correct access rights", "and the repository exists.",
}

func isAdvice(line string) bool {
	return slices.ContainsFunc(advice, func(start string) bool { return strings.HasPrefix(line, start) })
}

// RefusesCommits is in the message of an error with the code delivery_refused, after who refuses them: the
// remote, or repository.check. The last lines that it has printed follow.
const RefusesCommits = " refuses the commits: "

// GitOutput returns the output of the GitError in err, and the text of another error; empty for
// nil.
func GitOutput(err error) string {
	said, ok := errors.AsType[GitError](err)
	if ok && len(said.Lines) > 0 {
		return said.Output()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// GitHint is the next step after a git command that failed for a known reason, such as a missing
// login or a repository of another account; empty for other output of git. It is part of the
// message, because the hint of a code is the same for all reasons.
func GitHint(output string) string {
	chown := regain(output)
	lock := lockLeft().FindStringSubmatch(output)
	switch {
	case strings.Contains(output, "could not read Username"), strings.Contains(output, "could not read Password"):
		return "git has no password for it: run git config --global credential.helper store, and git push by hand " +
			"(for GitHub gh auth setup-git), or use an ssh address"
	case strings.Contains(output, "Permission denied (publickey"):
		return "give the server the public key of this account, with an ssh-agent for a passphrase, or use an https address"
	case strings.Contains(output, "Host key verification failed"):
		return "run git ls-remote with the address in a terminal, and confirm the key of the server"
	case chown != "":
		return chown
	case lock != nil:
		return "if no git works there now, remove " + lock[1]
	case strings.Contains(output, "unpacker error"):
		return "see whether its disk has room, and whether this account may write there"
	}
	refused := dubious().FindStringSubmatch(output)
	if refused == nil {
		return ""
	}
	return "the repository belongs to another account: give it to this one with chown -R, or run git config " +
		"--global --add safe.directory " + text.ShellQuote(refused[1])
}

// denied matches a file that git may not write, such as the lock of a reference.
var denied = text.Pattern(`'(/[^']+)': Permission denied`)

// regain says how the file that git may not write becomes this account's; empty if git names none.
func regain(output string) string {
	found := denied().FindStringSubmatch(output)
	if found == nil {
		return ""
	}
	return paths.Regain(found[1])
}

// lockLeft matches a lock that another git has, or has left.
var lockLeft = text.Pattern(`'([^']+\.lock)': File exists`)

var dubious = text.Pattern(`detected dubious ownership in repository at '([^']+)'`)
