package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
)

// apiCmd starts the server and compares its answers with what the commands print: the state,
// and one issue of each status, whose logs have to be at their addresses. Then it checks the
// answers to HEAD, to a wrong method and to what does not exist.
func apiCmd(ts *testscript.TestScript, neg bool, args []string) {
	serveCmd(ts, false, nil)
	var state view.Overview
	ts.Check(json.Unmarshal(answerLike(ts, "/api/v1/state", "ps", "--all", "--json"), &state))
	seen := map[view.Status]bool{}
	for _, row := range state.Rows {
		if seen[row.Status] {
			continue
		}
		seen[row.Status] = true
		var issue detail.Issue
		path := "/api/v1/" + url.PathEscape(row.Identifier)
		ts.Check(json.Unmarshal(answerLike(ts, path, "show", row.Identifier, "--offline", "--json"), &issue))
		for _, log := range issue.Logs.Sessions {
			if log.URL == nil {
				ts.Fatalf("%s: the log %s has no URL", row.Identifier, log.Label)
			}
			expect(ts, "GET", *log.URL, "200 OK", "Content-Type: text/plain; charset=utf-8")
		}
		expect(ts, "HEAD", path, "200 OK", "Content-Type: application/json; charset=utf-8")
		expect(
			ts,
			"PUT",
			path,
			"405 Method Not Allowed",
			"Allow: GET, HEAD",
			`{"error":{"code":"method_not_allowed"`,
		)
	}
	for _, path := range []string{"/api/v1/state", "/api/v1/events", "/metrics", "/favicon.ico", "/"} {
		expect(ts, "HEAD", path, "200 OK", "Cache-Control: no-store", "X-Content-Type-Options: nosniff")
		expect(
			ts,
			"DELETE",
			path,
			"405 Method Not Allowed",
			"Allow: GET, HEAD",
			`{"error":{"code":"method_not_allowed"`,
		)
	}
	expect(
		ts,
		"GET",
		"/api/v1/refresh",
		"405 Method Not Allowed",
		"Allow: POST",
		`{"error":{"code":"method_not_allowed"`,
	)
	expect(
		ts,
		"POST",
		"/api/v1/refresh",
		"401 Unauthorized",
		"Www-Authenticate: Bearer",
		`{"error":{"code":"unauthorized"`,
	)
	expect(ts, "GET", "/api/v1/NONE-1", "404 Not Found", `{"error":{"code":"issue_not_found"`)
	expect(ts, "GET", "/api/v1/state?project=none", "404 Not Found", `{"error":{"code":"not_found"`)
	expect(ts, "GET", "/api/v2/state", "404 Not Found", `{"error":{"code":"not_found"`)
}

// expect sends a request to the server and returns the answer, which has to contain the texts.
// What reads has the token.
func expect(ts *testscript.TestScript, method, path string, texts ...string) string {
	args := []string{method, path}
	if method != "POST" {
		args = append(args, "Authorization: Bearer "+ts.Getenv("TOKEN"))
	}
	got := strings.ReplaceAll(request(ts, args...), "\r", "")
	for _, text := range texts {
		if !strings.Contains(got, text) {
			ts.Fatalf("%s %s: %.600s\nlacks %s", method, path, got, text)
		}
	}
	return got
}

// answerLike returns the body of an answer, which has to be what a command prints.
func answerLike(ts *testscript.TestScript, path string, command ...string) []byte {
	_, body, _ := strings.Cut(
		expect(ts, "GET", path, "200 OK", "Content-Type: application/json; charset=utf-8"),
		"\n\n",
	)
	ts.Check(ts.Exec("symphony", command...))
	got := comparableLines(ts, body)
	want := comparableLines(ts, ts.ReadFile("stdout"))
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			ts.Fatalf(
				"%s:\n%s\nsymphony %s:\n%s",
				path,
				strings.Join(got[max(i-3, 0):min(i+3, len(got))], "\n"),
				strings.Join(command, " "),
				strings.Join(want[max(i-3, 0):min(i+3, len(want))], "\n"),
			)
		}
	}
	return []byte(body)
}

// changing matches what differs between two reads of the same state: a time with a fraction of
// a second is of the clock that is not stopped. It also matches the addresses of logs, which
// only the server has.
var changing = regexp.MustCompile(
	`"(generated_at|heartbeat_at|expires_at)": ?("[^"]*"|null),|T[\d:]+\.\d+Z|,\s*"url": ?("/issues/[^"]*/log\?[^"]*"|null)`,
)

// comparableLines are the lines of a JSON document without what changes.
func comparableLines(ts *testscript.TestScript, document string) []string {
	var out bytes.Buffer
	ts.Check(json.Indent(&out, []byte(changing.ReplaceAllString(document, "")), "", " "))
	return strings.Split(strings.TrimSpace(out.String())+"\n", "\n")
}
