package runner

import (
	"regexp"
	"slices"
	"strings"
)

// lastWords is the last line of an agent's stderr that tells of its end, empty if none does. What codex logs there is
// no such line, not even an error: a healthy agent logs some, too.
func lastWords(text string) string {
	colours := regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")
	logLine := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+\s+(TRACE|DEBUG|INFO|WARN|ERROR)\s`)
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		line = strings.TrimSpace(colours.ReplaceAllString(line, ""))
		if line != "" && !logLine.MatchString(line) {
			return line
		}
	}
	return ""
}
