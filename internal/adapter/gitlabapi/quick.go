package gitlabapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// Plain returns a text in which no line is a quick action: GitLab carries out a line of a comment
// or a description that begins with a slash, such as "/close", with the rights of whoever sends
// it, and agents write such texts. A space before the slash makes it a text. The lines are those
// that GitLab sees, which removes each carriage return first.
func Plain(s string) string {
	if !strings.Contains(s, "/") {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.ReplaceAll(line, "\r", ""), "/") {
			lines[i] = " " + line
		}
	}
	return strings.Join(lines, "\n")
}

// names are the keys of requests whose values are names: GitLab looks for no quick action there.
var names = map[string]bool{
	"labels":        true,
	"add_labels":    true,
	"remove_labels": true,
	"title":         true,
	"source_branch": true,
	"target_branch": true,
}

// Harmless returns the body of a request with every text made Plain that is not a name.
func Harmless(body any) any {
	decoder := json.NewDecoder(bytes.NewReader(text.JSON(body)))
	decoder.UseNumber()
	var v any
	err := decoder.Decode(&v)
	if err != nil {
		panic(err) // it was made just before
	}
	return harmless(v)
}

func harmless(v any) any {
	switch v := v.(type) {
	case string:
		return Plain(v)
	case []any:
		for i := range v {
			v[i] = harmless(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if !names[key] {
				v[key] = harmless(value)
			}
		}
	}
	return v
}
