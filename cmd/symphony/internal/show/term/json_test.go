package term

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

type row struct {
	ID    string    `json:"id"`
	Title string    `json:"title"`
	N     int       `json:"n"`
	Cost  float64   `json:"cost"`
	URL   string    `json:"url,omitempty"`
	At    time.Time `json:"at"`
}

var testRows = []row{
	{
		ID:    "WEB-9",
		Title: "日本語 <b>",
		N:     12345678,
		Cost:  0.5,
		URL:   "https://example.com/9?a=\u009c",
		At:    time.Date(2026, 2, 24, 20, 0, 0, 0, time.UTC),
	},
	{
		ID:    "WEB-10",
		Title: "bad \x1b[31m\ntwo\tlines",
		N:     3,
		Cost:  12,
		At:    time.Date(2026, 2, 24, 20, 9, 0, 0, time.UTC),
	},
}

// printed returns what a command prints of testRows, and its errors.
func printed(t *testing.T, w *Env, fields, jq string) (out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	w.Stdout = &stdout
	w.Stderr = &stderr
	w.Now = func() time.Time { return time.Date(2026, 2, 24, 20, 10, 0, 0, time.UTC) }
	var names []string
	if fields != "" {
		names = strings.Split(fields, ",")
	}
	var err error
	w.Query, err = w.NewJSONQuery(names, jq)
	if err != nil {
		return "", err.Error()
	}
	w.PrintJSON(testRows)
	test.Equal(t, "OutputFailed", w.OutputFailed, stderr.Len() > 0)
	return stdout.String(), stderr.String()
}

// Selected fields are in the order in which they were asked for; strings of --jq are raw and
// the numbers exact; control characters of a document never reach the output.
func TestJSONQuery(t *testing.T) {
	for name, c := range map[string]struct{ fields, jq, want string }{
		"fields": {
			"url,id",
			"",
			"[\n  {\n    \"url\": \"https://example.com/9?a=\\u009c\",\n    \"id\": \"WEB-9\"\n  }," +
				"\n  {\n    \"url\": null,\n    \"id\": \"WEB-10\"\n  }\n]\n",
		},
		"jq": {
			"",
			".[] | .id, .n, .cost, .url, .at",
			"WEB-9\n12345678\n0.5\nhttps://example.com/9?a=\\x9c\n2026-02-24T20:00:00Z\nWEB-10\n3\n12\n" +
				"\n2026-02-24T20:09:00Z\n",
		},
		"jq of fields": {"id,n", ".[0]", `{"id":"WEB-9","n":12345678}` + "\n"},
		"jq strings": {
			"",
			".[1] | .title, [.id, .n], ([.id, .n] | @tsv)",
			"bad \\x1b[31m\ntwo\tlines\n[\"WEB-10\",3]\nWEB-10\t3\n",
		},
		"jq halts": {"", "1, halt, 2", "1\n"},
	} {
		out, errs := printed(t, &Env{}, c.fields, c.jq)
		test.Equal(t, name, [2]string{out, errs}, [2]string{c.want})
	}
	lines, _ := printed(t, &Env{JSONLines: true}, "id", "")
	test.Equal(t, "one line", lines, `[{"id":"WEB-9"},{"id":"WEB-10"}]`+"\n")
}

func TestJSONQueryErrors(t *testing.T) {
	for _, c := range []struct{ jq, want string }{
		{".[", `--jq: unexpected EOF`},
		{"nosuch", `--jq: function not defined: nosuch/0`},
		{
			".x",
			"symphony: output_failed: the command is done, but its answer can't be printed: --jq: " +
				"expected an object but got: array",
		},
	} {
		out, errs := printed(t, &Env{}, "", c.jq)
		test.Equal(t, "the output of "+c.jq, out, "")
		test.Contains(t, "the error of "+c.jq, errs, c.want)
	}
}

// Ctrl-C ends an expression that has no end.
func TestJSONQueryInterrupted(t *testing.T) {
	_, stop := signal.NotifyContext(context.Background(), os.Interrupt) // which the test survives
	defer stop()
	ended := make(chan string)
	go func() {
		_, errs := printed(t, &Env{}, "", "last(repeat(1))")
		ended <- errs
	}()
	for {
		select {
		case errs := <-ended:
			test.Contains(t, "the error", errs, "--jq: context canceled")
			return
		case <-time.After(10 * time.Millisecond):
			test.OK(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
		}
	}
}
