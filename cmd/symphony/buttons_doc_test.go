package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// The table of docs/api.md has the buttons of each form of the pages, the address to which it
// is sent, and a command. Each address that changes something has a button.
// TestDocumentedCommandLines tries the commands.
func TestDocumentedButtons(t *testing.T) {
	forms := map[string]string{} // the texts of forms by address
	form := regexp.MustCompile(
		`(?s)action="(?:\{\{\.(Action|Address) "|/api/v1/)([a-z-]+)(?:"\}\})?"[^>]*>(.*?)</form>`,
	)
	for _, path := range test.Must(filepath.Glob("internal/show/web/page/*.html")) {
		for _, m := range form.FindAllStringSubmatch(string(test.Must(os.ReadFile(path))), -1) {
			address := "/api/v1/" + m[2]
			if m[1] == "Address" {
				address = "/api/v1/ISSUE/" + m[2]
			}
			forms[address] += regexp.MustCompile(`\{\{.*?\}\}`).ReplaceAllString(m[3], "")
		}
	}
	var api struct {
		Paths map[string]struct{ Post struct{ Tags []string } }
	}
	test.OK(t, json.Unmarshal(test.Must(os.ReadFile("internal/show/web/openapi.json")), &api))
	routes := map[string]bool{}
	for path, operations := range api.Paths {
		if tags := operations.Post.Tags; len(tags) > 0 && tags[0] == "acting" {
			routes[strings.Replace(path, "{identifier}", "ISSUE", 1)] = true
		}
	}
	for _, cells := range rows(between(t, document(t, "docs/api.md"), "### Buttons, addresses and "+
		"commands", "## Errors"))[1:] {
		address := codeSpans(cells[1])[0]
		for label := range strings.SplitSeq(strings.TrimSuffix(cells[0], ", for what is marked"), ", ") {
			test.Contains(t, "the form of "+address, forms[address], label)
		}
		verb := filepath.Base(address)
		if command := strings.Fields(codeSpans(cells[2])[0])[1]; command != verb &&
			(verb != "refresh" || command != "tick") &&
			(verb != "hold" || command != "stop") &&
			verb != "several" {
			t.Errorf("%s is not the command of %s", command, address)
		}
		test.Equal(t, "the API has "+address, routes[address], true)
		delete(forms, address)
		delete(routes, address)
	}
	for address := range forms {
		t.Errorf("docs/api.md lacks the button of %s", address)
	}
	for address := range routes {
		t.Errorf("%s has no button", address)
	}
}
