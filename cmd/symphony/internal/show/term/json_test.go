package term

import (
	"fmt"
	"strings"
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

// Selected fields are in the order in which they were asked for. A member that an element lacks
// is null. Control characters of a document never reach the output.
func TestJSONFields(t *testing.T) {
	for lines, want := range map[bool]string{
		false: "[\n  {\n    \"url\": \"https://example.com/9?a=\\u009c\",\n    \"id\": \"WEB-9\"\n  }," +
			"\n  {\n    \"url\": null,\n    \"id\": \"WEB-10\"\n  }\n]\n",
		true: `[{"url":"https://example.com/9?a=\u009c","id":"WEB-9"},{"url":null,"id":"WEB-10"}]` + "\n",
	} {
		var stdout strings.Builder
		w := &Env{Stdout: &stdout, JSONLines: lines, JSONFields: []string{"url", "id"}}
		w.PrintJSON(testRows)
		test.Equal(t, fmt.Sprint("in lines: ", lines), stdout.String(), want)
	}
}
