package compat

import (
	"slices"
	"strings"
)

const (
	appServer = "app-server"
	// outVar holds the folder for the schema. A variable can stand in a command whatever quotes are around it.
	outVar = "SYMPHONY_SCHEMA_OUT"
)

// asking is command with every app-server in it told to print its schema instead of serving: the words go to the end of
// the simple command that app-server is an argument of, before what a shell reads as something else. A command that
// names no app-server, such as a wrapper, gets them at its very end, where it hands its arguments on.
func asking(command, words string) string {
	at := map[int]bool{} // where words go, and whether that is within double quotes
	for _, w := range split(command) {
		if w.text == appServer {
			at[w.end] = w.double
		}
	}
	if len(at) == 0 {
		return strings.TrimRight(command, " \t\r\n") + " " + words
	}
	places := make([]int, 0, len(at))
	for i := range at {
		places = append(places, i)
	}
	slices.Sort(places)
	var b strings.Builder
	last := 0
	for _, i := range places {
		part := words
		if at[i] { // the shell that reads what is quoted gets the quotes and the variable's name
			part = strings.NewReplacer(`"`, `\"`, "$", `\$`).Replace(words)
		}
		b.WriteString(command[last:i] + " " + part)
		last = i
	}
	return b.String() + command[last:]
}

// word is one word of a command.
type word struct {
	text   string // as it stands there, with its quotes
	end    int    // where the simple command that it belongs to ends
	double bool   // it stands within double quotes
}

// split reads a command's words, those within quotes too: sh -c 'codex app-server' has an inner command.
func split(command string) []word {
	s := &scanner{text: command}
	s.commands(quotes{})
	return s.words
}

type scanner struct {
	text  string
	at    int
	words []word
}

// quotes are those that are open: the innermost (0 for none), how many, and whether one of them is double.
type quotes struct {
	inner  byte
	depth  int
	double bool
}

func (q quotes) closedBy(c byte) bool { return q.inner != 0 && c == q.inner }

func (q quotes) within(c byte) quotes { return quotes{c, q.depth + 1, q.double || c == '"'} }

// deepestQuote is how far quotes in quotes are followed.
const deepestQuote = 2

// commands reads simple commands until the quote that encloses them ends, or the text.
func (s *scanner) commands(q quotes) {
	for s.at < len(s.text) && !q.closedBy(s.text[s.at]) {
		first := len(s.words)
		end := s.simple(q)
		for i := first; i < len(s.words); i++ {
			if s.words[i].end < 0 { // else it is one of a command in quotes
				s.words[i].end = end
			}
		}
	}
}

// simple reads one simple command with what ends it, and returns where it ended.
func (s *scanner) simple(q quotes) (end int) {
	end = s.at
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case q.closedBy(c):
			return end
		case blank(c):
			s.at++
		case c == '#' && s.atStart():
			s.toLineEnd(q)
			return end
		case s.ends(c):
			s.at++
			return end
		default:
			s.word(q)
			end = s.at
		}
	}
	return end
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// ends reports an operator after which another command begins; & is none within a redirection.
func (s *scanner) ends(c byte) bool {
	if c == '&' {
		before := s.at > 0 && strings.IndexByte("<>", s.text[s.at-1]) >= 0
		after := s.at+1 < len(s.text) && s.text[s.at+1] == '>'
		return !before && !after
	}
	return strings.IndexByte("|;\n()", c) >= 0
}

func (s *scanner) atStart() bool {
	return s.at == 0 || strings.IndexByte(" \t\r\n;|&(", s.text[s.at-1]) >= 0
}

func (s *scanner) toLineEnd(q quotes) {
	for s.at < len(s.text) && s.text[s.at] != '\n' && !q.closedBy(s.text[s.at]) {
		s.at++
	}
}

// word reads one word. What stands in quotes within it is read as commands of its own, too.
func (s *scanner) word(q quotes) {
	began, place := s.at, len(s.words)
	for s.at < len(s.text) {
		c := s.text[s.at]
		if q.closedBy(c) || blank(c) || s.ends(c) {
			break
		}
		switch {
		case c == '\\' && q.inner != '\'':
			s.at = min(s.at+2, len(s.text))
		case (c == '\'' || c == '"') && q.depth < deepestQuote:
			s.at++
			s.commands(q.within(c))
			s.at = min(s.at+1, len(s.text)) // the quote that closes it
		default:
			s.at++
		}
	}
	s.words = slices.Insert(s.words, place, word{text: s.text[began:s.at], end: -1, double: q.double})
}

// namable are the words by which a command may name programs, in the order in which they stand: plain ones, with
// variables and a home that the shell puts in their place. The first of them, as many as before says, stand before
// app-server.
func namable(command string) (names []string, before int) {
	before = -1
	for _, w := range split(command) {
		if w.text == appServer && before < 0 {
			before = len(names)
		}
		if isNamable(w.text) && !slices.Contains(names, w.text) && len(names) < mostNames {
			names = append(names, w.text)
		}
	}
	if before < 0 {
		before = len(names)
	}
	return names, before
}

// mostNames bounds the programs that are looked for.
const mostNames = 24

func isNamable(w string) bool {
	plain := strings.TrimPrefix(strings.TrimSuffix(w, `"`), `"`)
	if plain == "" || plain[0] == '-' || strings.Count(w, `"`)%2 != 0 {
		return false
	}
	return strings.IndexFunc(plain, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("_-+@%./~$", r)
	}) < 0
}

// local reports a command that names a program by its place in the workspace, where a check does not run.
func local(command string) bool {
	return slices.ContainsFunc(split(command), func(w word) bool {
		return isNamable(w.text) && strings.Contains(w.text, "/") && strings.IndexByte(`/~$"`, w.text[0]) < 0
	})
}
