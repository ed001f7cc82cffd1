package main

import (
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// splitLine cuts a command line, as it stands before the cursor, into the words behind the program's name. Quotes,
// backslashes, a leading ~ and plain variables mean what they mean to a shell; nothing is executed. The last word is the
// one at the cursor, empty behind a blank.
func splitLine(line string, w *term.Env) []string {
	s := lineSplitter{w: w}
	for _, r := range line {
		s.next(r)
	}
	words := append(s.words, s.end())
	return words[1:]
}

type lineSplitter struct {
	w       *term.Env
	words   []string
	word    strings.Builder
	begun   bool
	quote   rune // ' or ", 0 outside
	escaped bool
	// literal is set where the word holds a variable's sign that is no variable's.
	literal bool
}

func (s *lineSplitter) next(r rune) {
	switch {
	case s.escaped:
		s.escaped = false
		s.literal = s.literal || r == '$' || r == '~'
		s.word.WriteRune(r)
	case r == '\\' && s.quote != '\'':
		s.escaped, s.begun = true, true
	case s.quote != 0 && r == s.quote:
		s.quote = 0
	case s.quote == 0 && (r == '\'' || r == '"'):
		s.quote, s.begun = r, true
		s.literal = s.literal || r == '\''
	case s.quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
		if s.begun {
			s.words = append(s.words, s.end())
		}
	default:
		s.begun = true
		s.word.WriteRune(r)
	}
}

// end gives the word that is finished. A word with both a variable and something quoted that only looks like one is
// left as it is: it names a file that is not found, and no more.
func (s *lineSplitter) end() string {
	word, literal := s.word.String(), s.literal
	s.word.Reset()
	s.begun, s.literal = false, false
	if literal {
		return word
	}
	return homely(s.w, os.Expand(word, s.w.Getenv))
}

// homely puts the home directory for a leading ~, also behind a flag's =.
func homely(w *term.Env, word string) string {
	flag, value, found := strings.Cut(word, "=")
	if found && strings.HasPrefix(flag, "-") {
		return flag + "=" + homely(w, value)
	}
	if rest, ok := strings.CutPrefix(word, "~/"); ok {
		return w.Home + "/" + rest
	}
	return word
}
