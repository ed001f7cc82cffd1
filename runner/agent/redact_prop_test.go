package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/internal/test"
)

// written maps names to forms in which a program may write a secret.
var written = map[string]func(secret, before, after string) string{
	"plain":    func(s, _, _ string) string { return s },
	"in JSON":  func(s, _, _ string) string { return quote(s) },
	"for HTML": func(s, _, _ string) string { return quoteHTML(s) },
	"in a URL": func(s, _, _ string) string { return url.QueryEscape(s) },
	"base64":   func(s, _, _ string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"a login":  func(s, b, a string) string { return base64.StdEncoding.EncodeToString([]byte(b + s + a)) },
	"for URLs": func(s, b, a string) string { return base64.RawURLEncoding.EncodeToString([]byte(b + s + a)) },
	"in lines": func(s, b, a string) string {
		lines := base64.StdEncoding.EncodeToString([]byte(b + s + a))
		for at := 5 + len(b); at < len(lines); at += 21 {
			lines = lines[:at] + "\n" + lines[at:]
		}
		return lines
	},
	"a bearer": func(s, _, _ string) string {
		return "Authorization: Bearer " + base64.RawURLEncoding.EncodeToString([]byte(s))
	},
}

// Secrets and other texts use different letters, so that no part of a secret occurs by chance.
var (
	secretLetters = rapid.SampledFrom([]rune(`ABCDEFGHIJKLMNOPQRSTUVWXYZ!"<&>\/+%$'é` + "\n\t"))
	otherLetters  = rapid.StringMatching(`[a-z {}\[\]:,\\"…ü\n]{0,40}`)
)

// Nothing that a run writes contains a secret or a part of it, in any form or context,
// whatever the size of an event and the pieces in which output arrives.
func TestNoSecretSurvives(t *testing.T) {
	test.Expensive(t)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringOfN(secretLetters, 8, 60, -1).
			Filter(func(s string) bool { return len(strings.TrimSpace(s)) >= 8 }).
			Draw(t, "secret")
		form := rapid.SampledFrom(slices.Sorted(maps.Keys(written))).Draw(t, "form")
		hidden := written[form](
			secret,
			rapid.StringMatching(`[a-z:]{0,9}`).Draw(t, "user"),
			rapid.StringMatching(`[a-z:]{0,9}`).Draw(t, "rest"),
		)
		text := otherLetters.Draw(t, "before") + " " + hidden + " " + otherLetters.Draw(t, "after")
		known := []string{secret, "OTHER" + secret}
		if form == "a bearer" {
			known = []string{"UNKNOWN-TOKEN"} // a bearer token need not be known
		}
		r := NewRedactor(known)
		dir := test.Must(os.MkdirTemp(dir, ""))

		// An event up to the limit or much larger, with the secret anywhere in it.
		fill := rapid.SampledFrom([]int{0, 100, maxPayload / 2, maxPayload, 3 * maxPayload}).Draw(t, "fill")
		at := rapid.IntRange(0, fill).Draw(t, "at")
		long := strings.Repeat("x", at) + " " + text + " " + strings.Repeat("y", fill-at)
		raw := test.Must(json.Marshal(map[string]any{"item": map[string]any{
			"output": long,
			"list":   []string{text, long},
		}}))
		path := filepath.Join(dir, "events.jsonl")
		l := test.Must(OpenEventLog(path, r))
		test.OK(t, l.Append(Event{Name: "notification", At: time.Now(), Message: text, Raw: raw}))
		test.OK(t, l.Close())
		line := test.Must(os.ReadFile(path))
		var e Event
		test.OK(t, json.Unmarshal(line, &e))
		nothingOf(t, secret, string(line), e.Message, unquoted(t, e.Raw))

		// A stream, in pieces.
		path = filepath.Join(dir, "tail")
		tail := test.Must(OpenTailFile(path, 1<<10, r))
		for rest := text; rest != ""; {
			cut := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			test.Must(tail.Write([]byte(rest[:cut])))
			rest = rest[cut:]
		}
		nothingOf(t, secret, tail.Tail(1<<10))
		test.OK(t, tail.Close())
		nothingOf(t, secret, string(test.Must(os.ReadFile(path))))

		// A record of the log, and a text for the database.
		var log bytes.Buffer
		test.Must(Writer{&log, r}.Write([]byte(text)))
		nothingOf(t, secret, log.String(), r.Text(text))
	})
}

// unquoted joins all strings of a JSON value.
func unquoted(t *rapid.T, value json.RawMessage) string {
	var v any
	test.OK(t, json.Unmarshal(value, &v))
	var all strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			all.WriteString(v + "\n")
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return all.String()
}

var codedRuns = regexp.MustCompile(`[A-Za-z0-9+/_-]{6,}`)

// partKept is how many consecutive letters of a secret count as a leak.
const partKept = 8

func nothingOf(t *rapid.T, secret string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		seen := []string{text}
		for _, run := range codedRuns.FindAllString(text, -1) {
			run = strings.NewReplacer("-", "+", "_", "/").Replace(run)
			for from := range 4 {
				part := run[from:]
				decoded, _ := base64.RawStdEncoding.DecodeString(part[:len(part)/4*4])
				seen = append(seen, string(decoded))
			}
		}
		for _, s := range seen {
			for i := 0; i+partKept <= len(secret); i++ {
				if strings.Contains(s, secret[i:i+partKept]) {
					t.Fatalf("%q of the secret %q is in %.300q", secret[i:i+partKept], secret, text)
				}
			}
		}
	}
}
