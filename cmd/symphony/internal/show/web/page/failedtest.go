package page

import (
	"regexp"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/text"
)

// goTest matches the line with which go test names a test that failed.
var goTest = text.Pattern(`^\s*--- FAIL: (\S+)`)

// failedTests match lines with which common runners name a test that failed. The first group is
// the name.
var failedTests = []func() *regexp.Regexp{
	goTest,
	text.Pattern(`^(?:FAILED|ERROR) (\S+\.py\S*)`),                       // pytest, in its summary
	text.Pattern(`^(\S+\.py::\S+) (?:FAILED|ERROR)`),                     // pytest -v
	text.Pattern(`^(?:FAIL|ERROR): (\w+ \([\w.]+\))`),                    // unittest of Python
	text.Pattern(`^\s*● (.+ › .+|Test suite failed to run)$`),            // jest
	text.Pattern(`^\s*[✕×] (.+?)(?: \(?[\d.]+ ?m?s\)?)?$`),               // jest and vitest, test by test
	text.Pattern(`^\s*FAIL\s+(\S+\.[cm]?[jt]sx? > .+)$`),                 // vitest
	text.Pattern(`^test (\S+) \.\.\. FAILED`),                            // cargo test
	text.Pattern(`^\s*FAIL \[\s*[\d.]+s\] (?:\([^)]*\) )?(.+)$`),         // cargo nextest
	text.Pattern(`^\[ERROR\]\s+(\S*[\w)]).* <<< (?:FAILURE|ERROR)!\s*$`), // maven
	text.Pattern(`^(\S+ > \S.*) FAILED$`),                                // gradle
}

// failedAtAll matches a runner that names no test, such as go test where a package does not
// compile.
var failedAtAll = text.Pattern(`^FAIL:?\s+(\S+)`)

// ansi matches the colours of a terminal.
var ansi = text.Pattern("\x1b\\[[0-9;]*[A-Za-z]")

// testCommand matches commands whose output may show a failed test although they succeed, as
// "go test ./... | tail" does.
var testCommand = text.Pattern(`(?i)test|\b(jest|vitest|tox|nox|mvn|gradlew?|make)\b`)

// longestOutput is how many bytes of a line of output are searched.
const longestOutput = 1000

// failedTest returns the first failed test that the output of a command names, and the number of
// its line; empty without one.
func failedTest(l eventlog.Line) (name string, at int) {
	if l.Kind != eventlog.Command || l.Status != eventlog.Failed && !testCommand().MatchString(l.Text) {
		return "", 0
	}
	for n, line := range l.Detail {
		line = outputLine(line)
		if line == "" {
			continue
		}
		for _, p := range failedTests {
			m := p().FindStringSubmatch(line)
			if m != nil && m[1] != "Tests" { // a sum of maven
				return subtest(m[1], l.Detail[n+1:]), n
			}
		}
	}
	for n, line := range l.Detail {
		if m := failedAtAll().FindStringSubmatch(outputLine(line)); m != nil {
			return m[1], n
		}
	}
	return "", 0
}

// outputLine is a line of output without colours; empty if it can't name a failed test.
func outputLine(line string) string {
	if len(line) > longestOutput {
		line = text.Within(line, longestOutput)
	}
	for _, sign := range []string{"FAIL", "ERROR", "●", "✕", "×"} {
		if strings.Contains(line, sign) {
			return ansi().ReplaceAllString(line, "")
		}
	}
	return ""
}

// subtest returns the first subtest of a test of Go that failed, or the test itself.
func subtest(name string, after []string) string {
	for _, line := range after {
		m := goTest().FindStringSubmatch(outputLine(line))
		if m != nil && strings.HasPrefix(m[1], name+"/") {
			return m[1]
		}
	}
	return name
}
