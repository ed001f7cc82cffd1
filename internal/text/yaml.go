package text

import (
	"bytes"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

// YAMLFault returns the line of a text, from 0, that an error of the YAML library is about, and the error's message without the
// library's name and line. The library's number is that of an enclosing part, or too small by one, or missing. But the library reads
// from the start, so that the shortest beginning of the text with the same error ends on the faulty line.
func YAMLFault(text []byte, err error) (line int, message string) {
	message = YAMLMessage(err)
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	line = sort.Search(len(lines)-1, func(n int) bool {
		var node yaml.Node
		e := yaml.Unmarshal(bytes.Join(lines[:n+1], nil), &node)
		return e != nil && YAMLMessage(e) == message
	})
	if blanks := lines[line][:len(lines[line])-len(bytes.TrimLeft(lines[line], " \t"))]; bytes.Contains(blanks, []byte("\t")) {
		message = "the line is indented with a tab; YAML allows only spaces"
	}
	return line, message
}

// YAMLMessage returns the message of an error of the YAML library without the library's name and the line.
func YAMLMessage(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if _, message, ok := strings.Cut(rest, ": "); ok {
			return message
		}
	}
	return text
}
