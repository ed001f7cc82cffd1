package term

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

type row struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	URL   string `json:"url,omitempty"`
}

var testRows = []row{
	{ID: "WEB-9", Title: "日本語 <b>", URL: "https://example.com/9?a=\u009c"},
	{ID: "WEB-10", Title: "bad \x1b[31m\ntwo\tlines"},
}

// Control characters of a document never reach the output.
func TestPrintJSON(t *testing.T) {
	for lines, want := range map[bool]string{
		false: "[\n  {\n    \"id\": \"WEB-9\",\n    \"title\": \"日本語 <b>\",\n" +
			"    \"url\": \"https://example.com/9?a=\\u009c\"\n  }," +
			"\n  {\n    \"id\": \"WEB-10\",\n    \"title\": \"bad \\u001b[31m\\ntwo\\tlines\"\n  }\n]\n",
		true: `[{"id":"WEB-9","title":"日本語 <b>","url":"https://example.com/9?a=\u009c"},` +
			`{"id":"WEB-10","title":"bad \u001b[31m\ntwo\tlines"}]` + "\n",
	} {
		var stdout strings.Builder
		w := &Env{Stdout: &stdout, JSONLines: lines}
		w.PrintJSON(testRows)
		test.Equal(t, fmt.Sprint("in lines: ", lines), stdout.String(), want)
	}
}
