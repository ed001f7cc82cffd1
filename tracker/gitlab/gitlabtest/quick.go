package gitlabtest

import (
	"regexp"
	"strings"
)

// quickAction matches a line that GitLab carries out. This server knows neither the exceptions
// for code and quotations nor all commands, so it finds more than GitLab does.
var quickAction = regexp.MustCompile(`(?im)^/([a-z_]+)(?: ([^\n]*))?(?:\s*\n|$)`)

// extract returns a text without its quick actions, and these: a command, and what follows it.
func extract(body string) (rest string, commands [][2]string) {
	rest = quickAction.ReplaceAllStringFunc(strings.ReplaceAll(body, "\r", ""), func(line string) string {
		m := quickAction.FindStringSubmatch(line)
		commands = append(commands, [2]string{strings.ToLower(m[1]), strings.TrimSpace(m[2])})
		return ""
	})
	if len(commands) == 0 {
		return body, nil
	}
	return strings.TrimRight(rest, "\n "), commands
}

// carryOut carries out quick actions on an issue, and returns what they changed.
func (c *call) carryOut(i *Issue, commands [][2]string) object {
	changes := object{}
	for _, command := range commands {
		switch command[0] {
		case "close":
			i.setState(closed, c.now())
			changes["state_event"] = "close"
		case "reopen":
			i.setState(opened, c.now())
			changes["state_event"] = "reopen"
		case "label":
			c.relabel(c.project, i, []string{strings.Trim(command[1], `~"`)}, nil)
			changes["add_label_ids"] = []int{1}
		default:
			changes[command[0]] = command[1]
		}
	}
	return changes
}
