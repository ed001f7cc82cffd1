package text

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// YAMLFault returns the line of a text, from 0, that an error of the YAML library is about,
// and what is wrong there. The library's number may be of an enclosing part, too small by 1,
// or missing. But the library reads from the start, so that the shortest beginning of the text
// with the same error ends on the faulty line.
func YAMLFault(text []byte, err error) (line int, message string) {
	message = YAMLMessage(err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	line = sort.Search(len(lines)-1, func(n int) bool {
		e := readAll(strings.Join(lines[:n+1], ""))
		return e != nil && YAMLMessage(e) == message
	})
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], "\r\n")
	}
	return explain(lines, line, message)
}

// readAll reads the documents of a text, and returns the first error.
func readAll(text string) error {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// YAMLMessage returns the message of an error of the YAML library without the library's name
// and the line.
func YAMLMessage(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if _, message, ok := strings.Cut(rest, ": "); ok {
			return message
		}
	}
	return text
}

// The messages of the YAML library that have several causes.
// UnresolvedConflict is what YAMLFault says of lines that git writes where two changes conflict, and
// ResolveConflict what to do then.
const (
	UnresolvedConflict = "a conflict of git is not resolved"
	ResolveConflict    = "choose one of its sides, and remove the lines <<<<<<<, ======= and >>>>>>>"
)

// ForeignExpression says of ${{ secrets.NPM_TOKEN }} what to write.
const ForeignExpression = "${{ … }} is of GitHub Actions and means nothing here; $NAME is the value of a variable"

const (
	noMapping  = "mapping values are not allowed in this context"
	noColon    = "could not find expected ':'"
	noKey      = "did not find expected key"
	noDocument = "did not find expected <document start>"
)

// explain returns the line at which a mistake is, and says in plain words what it is. For a
// mistake that it does not know it returns the line and the message of the library.
func explain(lines []string, line int, message string) (at int, explained string) {
	if blanks := leading(lines[line]); strings.Contains(blanks, "\t") {
		return line, "the line is indented with a tab; YAML allows only spaces"
	}
	for at := line; at >= max(0, line-1); at-- {
		if found := foreignBlank().FindStringSubmatch(lines[at]); found != nil {
			return at, fmt.Sprintf("the line contains the blank %U, which is none for YAML: type a space instead",
				[]rune(found[1])[0])
		}
	}
	if conflictMark().MatchString(lines[line]) {
		return line, UnresolvedConflict
	}
	switch message {
	case noMapping, noColon, noKey, noDocument:
		return explainStructure(lines, line, message)
	case "did not find expected '-' indicator":
		if explained := explainIndent(lines, line); explained != "" {
			return line, explained
		}
		return line, "the lines above are a list, because they begin with -, and this line does not"
	case "block sequence entries are not allowed in this context":
		return line, "a list can't begin behind a colon: remove the -, or write each item in a line of its own"
	case "did not find expected ',' or ']'":
		for at := line; at >= max(0, line-2); at-- {
			if found := commentInside().FindStringSubmatch(lines[at]); found != nil {
				return at, "a [ is not closed, because # begins a comment: write " + strconv.Quote(found[1])
			}
		}
		return line, "a [ is not closed, or a comma is missing behind it"
	case "did not find expected ',' or '}'":
		if strings.Contains(lines[line], "${{") {
			return line, ForeignExpression
		}
		return line, "a { is not closed, or a comma is missing behind it"
	case "found unexpected end of stream":
		return line, "a quote is not closed"
	case "found unknown escape character":
		return line, `in double quotes \ begins an escape such as \n: write \\, or use single quotes`
	}
	if value := specialValue(lines[line]); value != "" && isAboutValue(message) {
		return line, fmt.Sprintf("a value that begins with %s needs quotes: %s", value[:1], singleQuoted(value))
	}
	return line, message
}

// specialValue returns the value of a line, or else the first one between brackets, that begins
// with a character with which no plain value can begin, such as @ann; empty if there is none.
func specialValue(line string) string {
	for _, pattern := range []func() *regexp.Regexp{special, specialInside} {
		found := pattern().FindStringSubmatch(line)
		if found != nil {
			return found[1]
		}
	}
	return ""
}

// singleQuoted returns a value in single quotes, as YAML reads them.
func singleQuoted(value string) string {
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}

// isAboutValue reports whether the YAML library says so if it can't read the beginning of a value.
func isAboutValue(message string) bool {
	return message == "found character that cannot start any token" ||
		message == "did not find expected alphabetic or numeric character" ||
		strings.HasPrefix(message, "unknown anchor ")
}

var (
	// a blank that looks like a space, where YAML would have to see one
	foreignBlank  = Pattern(`(?:^\s*|:)([\x{00a0}\x{2000}-\x{200b}\x{202f}\x{205f}\x{3000}])`)
	conflictMark  = Pattern(`^(?:<{7}|={7}|>{7})(?: |$)`)
	special       = Pattern("^\\s*(?:- +)*(?:[A-Za-z_][\\w-]*:\\s+)?([@`%*&!|>].*?)(?:\\s+#.*)?\\s*$")
	specialInside = Pattern("[\\[{,:]\\s*([@`%*&!|>][^,\\]}]*?)\\s*(?:[,\\]}]|$)")
	// a line such as `labels: [#agent]`, of which YAML reads only `labels: [`
	commentInside = Pattern(`\[(?:[^\]]*\s)?(#[\w-]+)`)
	// a line such as `kind file` or `kind:file`, of which YAML reads a text that goes on
	colonForgotten = Pattern(`^\s*([A-Za-z_][\w-]*)(?:\s+|:)([^\s:#].*?)\s*$`)
	equalSign      = Pattern(`^\s*([A-Za-z_][\w-]*)\s*=\s*(\S.*?)\s*$`)
	bareWord       = Pattern(`^\s*([A-Za-z_][\w-]*)\s*$`)
	// a line such as `before_run: echo: yes`
	colonInValue = Pattern(`^\s*(?:- )?[A-Za-z_][\w-]*:\s+([^\s"'|>{\[].*:(?:\s.*)?)$`)
	longText     = Pattern(`^\s*(?:- )?([A-Za-z_][\w-]*:\s+[|>])[-+0-9]*\s*$`)
	noDashBlank  = Pattern(`^\s*-([^\s-].*)$`)
	// a line such as `title: [WIP] fix`, whose value ends for YAML before the line does
	textBehind = Pattern(`^\s*(?:- )?[A-Za-z_][\w-]*:\s+((\[[^\]]*\]|\{[^}]*\}|"[^"]*"|'[^']*')\s*[^\s#,\]}'].*?)\s*$`)
)

// explainStructure explains an error about a line that does not fit to the lines above it.
func explainStructure(lines []string, line int, message string) (at int, explained string) {
	text := lines[line]
	if value := colonInValue().FindStringSubmatch(text); value != nil && message == noMapping {
		return line, fmt.Sprintf("a value with a colon and a blank needs quotes: '%s'", strings.TrimSpace(value[1]))
	}
	if value := textBehind().FindStringSubmatch(text); value != nil {
		return line, quoteAll(value[1], value[2])
	}
	if before := textBefore(lines, line); before != nil {
		return line, fmt.Sprintf("the text of %q has to be indented more than its key", before[1])
	}
	if found := noDashBlank().FindStringSubmatch(text); found != nil {
		return line, fmt.Sprintf("%q has no blank after its -: write - %s", strings.TrimSpace(text), found[1])
	}
	if message == noKey && strings.HasPrefix(strings.TrimSpace(text), "- ") {
		return line, "the line begins with -, as an item of a list does, and the lines above do not: remove the -"
	}
	if message == noMapping || message == noColon {
		// YAML reads `kind file` and `kind:file` as a text, so the library names the line after it.
		for at = line; at >= max(0, line-1); at-- {
			if explained := ColonFault(lines[at]); explained != "" {
				return at, explained
			}
		}
	}
	if close := unopened(text); close != "" {
		return line, fmt.Sprintf("a %s has nothing that it closes", close)
	}
	if explained := explainIndent(lines, line); explained != "" {
		return line, explained
	}
	return line, message
}

// quoteAll says how to write a value of which YAML reads only the first part, such as [WIP].
func quoteAll(value, first string) string {
	opening := value[:1]
	closing := first[len(first)-1:]
	quoted := singleQuoted(value)
	if opening == "'" && strings.HasSuffix(value, "'") { // such as 'don't'
		quoted = strconv.Quote(value[1 : len(value)-1])
	}
	return fmt.Sprintf("a value that begins with %s ends at its %s: put all of it in quotes: %s",
		opening, closing, quoted)
}

// textBefore matches the line before a line, if a text such as `command: |` was to begin there.
// It is nil if the line belongs to no such text.
func textBefore(lines []string, line int) []string {
	for at := line - 1; at >= 0; at-- {
		if strings.TrimSpace(lines[at]) == "" {
			continue
		}
		if len(leading(lines[line])) > len(leading(lines[at])) {
			return nil
		}
		return longText().FindStringSubmatch(lines[at])
	}
	return nil
}

// ColonFault says what is wrong with the colon of a line such as `kind:file`, which YAML reads as
// a text; empty if it is not a key with a value.
func ColonFault(line string) string {
	written := strings.TrimSpace(line)
	found := equalSign().FindStringSubmatch(line)
	if found != nil {
		return fmt.Sprintf("%q has = in the place of a colon: write %s: %s", written, found[1], found[2])
	}
	found = bareWord().FindStringSubmatch(line)
	if found != nil {
		return fmt.Sprintf("%q has no colon: if it is a key, write %[1]s:", found[1])
	}
	found = colonForgotten().FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	if strings.HasPrefix(written[len(found[1]):], ":") {
		return fmt.Sprintf("%q has no blank after its colon: write %s: %s", written, found[1], found[2])
	}
	return fmt.Sprintf("%q has no colon: if it is a key, write %s: %s", written, found[1], found[2])
}

// unopened returns the ] or } in a line that has no [ or { before it; empty if there is none.
func unopened(line string) string {
	for _, pair := range []string{"[]", "{}"} {
		if strings.Count(line, pair[1:]) > strings.Count(line, pair[:1]) {
			return pair[1:]
		}
	}
	return ""
}

// explainIndent says that a line is indented as no line above it is to which it could belong;
// empty if one is.
func explainIndent(lines []string, line int) string {
	var columns []int // of the lines in which the line may be
	for _, l := range lines[:line] {
		text := strings.TrimLeft(l, " ")
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		column := len(l) - len(text)
		columns = slices.DeleteFunc(columns, func(c int) bool { return c >= column })
		columns = append(columns, column)
		if strings.HasPrefix(text, "- ") { // the keys of an item are below its first one
			columns = append(columns, column+2)
		}
	}
	own := len(leading(lines[line]))
	if len(columns) == 0 || slices.Contains(columns, own) {
		return ""
	}
	numbers := make([]string, len(columns))
	for i, c := range columns {
		numbers[i] = strconv.Itoa(c)
	}
	return fmt.Sprintf("the line is indented by %s; to fit the lines above it needs %s",
		Plural(own, "blank"), strings.Join(numbers, " or "))
}

// leading returns the blanks at the beginning of a line.
func leading(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
