package text

import (
	"errors"
	"io"
	"sort"
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
	return line, explain(strings.TrimRight(lines[line], "\r\n"), message)
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

// UnresolvedConflict is what YAMLFault says of lines that git writes where two changes conflict, and
// ResolveConflict what to do then.
const (
	UnresolvedConflict = "a conflict of git is not resolved"
	ResolveConflict    = "choose one of its sides, and remove the lines <<<<<<<, ======= and >>>>>>>"
)

// explain says what is wrong with a line. For most mistakes that is the message of the library.
func explain(line, message string) string {
	blanks := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case strings.Contains(blanks, "\t"):
		return "the line is indented with a tab; YAML allows only spaces"
	case conflictMark().MatchString(line):
		return UnresolvedConflict
	case message == "found unexpected end of stream":
		return "a quote is not closed"
	}
	return message
}

var conflictMark = Pattern(`^(?:<{7}|={7}|>{7})(?: |$)`)
