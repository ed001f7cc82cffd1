package repository

import (
	"cmp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	maxOutput  = 2 << 10 // bytes of git's output
	maxReason  = 400     // bytes of the reason in it
	maxBullets = 3       // items of a remote's list that belong to the reason
)

// complaint is the output of git, ssh and the remote about a failure.
type complaint struct {
	remote   []string // the lines of the remote, without "remote:"
	local    []string // the other lines
	rejected string   // why the remote refused a reference, such as "pre-receive hook declined"
	status   string   // with which an HTTP server refused the request, such as "HTTP 403"
	lines    []string // all of them
}

// complaintOf reads the output. hide removes a password from a line.
func complaintOf(output string, hide func(string) string) complaint {
	var c complaint
	output = strings.ReplaceAll(strings.ToValidUTF8(output, "\uFFFD"), "\r", "\n")
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(hide(line))
		if line == "" || line == "remote:" {
			continue
		}
		c.lines = append(c.lines, line)
		said, remote := strings.CutPrefix(line, "remote:")
		rejection := rejectedRef().FindStringSubmatch(line)
		status := httpStatus().FindStringSubmatch(line)
		switch {
		case remote:
			c.remote = append(c.remote, strings.TrimSpace(said))
		case rejection != nil:
			c.rejected = rejection[1]
		default:
			c.local = append(c.local, line)
		}
		if status != nil && !remote {
			c.status = "HTTP " + status[1]
		}
	}
	return c
}

// rejectedRef matches git's line for a reference that was not updated, as " ! [remote
// rejected] main -> main (hook declined)".
var rejectedRef = text.Pattern(`^! \[(?:remote )?rejected\].* -> \S+ \((.*)\)$`)

// httpStatus matches git's line for an answer of an HTTP server, of which the lines of the
// remote are the text.
var httpStatus = text.Pattern(`^fatal: unable to access .*: The requested URL returned error: (\d+)`)

// all returns everything on a single line.
func (c complaint) all() string { return text.Short(strings.Join(c.lines, "; "), maxOutput) }

// reason returns a sentence: why the remote refused the push or the request, otherwise why git
// or ssh failed.
func (c complaint) reason() string {
	said := reasonOfRemote(c.remote)
	refused := cmp.Or(c.rejected, c.status)
	switch {
	case said != "" && refused != "":
		said = "remote: " + said + " (" + refused + ")"
	case said != "":
		said = "remote: " + said
	case c.rejected != "":
		said = "the remote refused the push: " + c.rejected
	default:
		said = reasonOfGit(c.local)
	}
	return text.Short(said, maxReason)
}

// reasonOfRemote returns the first error of a remote, with the first items of the list below
// it: GitHub names the rule there that a push broke.
func reasonOfRemote(lines []string) string {
	reason := ""
	isError := false
	var items []string
	for _, line := range lines {
		said := errorLabel().ReplaceAllString(line, "")
		item, listed := strings.CutPrefix(said, "- ")
		switch {
		case !wordInLine().MatchString(said), startsWithAny(said, adviceOfRemotes):
		case listed && reason != "" && len(items) < maxBullets:
			items = append(items, item)
		case reason == "" || said != line && !isError:
			reason = said
			isError = said != line
		}
	}
	if len(items) > 0 {
		reason += " " + strings.Join(items, "; ")
	}
	return reason
}

var (
	errorLabel = text.Pattern(`^(?i:error|fatal): `)
	wordInLine = text.Pattern(`[\pL\pN]`) // lines without a word are frames
)

// adviceOfRemotes are the beginnings of lines that do not say why something was refused.
var adviceOfRemotes = []string{"Trace: ", "See ", "hint: ", "Resolving deltas", "warning: "}

// reasonOfGit returns the first error of git. An error that only says that ssh failed is
// explained by the line before it.
func reasonOfGit(lines []string) string {
	isNoise := func(line string) bool { return startsWithAny(line, noise) }
	lines = slices.DeleteFunc(slices.Clone(lines), isNoise)
	first := slices.IndexFunc(lines, func(line string) bool { return errorLabel().MatchString(line) })
	switch {
	case first > 0 && startsWithAny(lines[first], consequences):
		return lines[first-1]
	case first >= 0:
		return lines[first]
	case len(lines) > 0:
		return lines[len(lines)-1]
	}
	return ""
}

// consequences are the beginnings of errors that only follow another error.
var consequences = []string{"fatal: Could not read from remote repository", "fatal: the remote end hung up"}

// noise are the beginnings of lines that do not explain the cause of an error.
var noise = []string{
	"hint:", "To ", "From ", "warning: ", "Warning: Permanently added ", "error: failed to push some refs to ",
	"Please make sure you have the correct access rights", "and the repository exists.",
}

func startsWithAny(line string, starts []string) bool {
	return slices.ContainsFunc(starts, func(start string) bool { return strings.HasPrefix(line, start) })
}
