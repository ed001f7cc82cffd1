package page

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// language says how to tell comments, strings and words of a language.
type language struct {
	files   string  // the extensions of its files, with blanks between them
	comment string  // begins a comment that ends with its line
	blocks  []block // comments and strings that may have several lines
	// quotes are the signs around strings that end with their line at the latest; a backslash
	// escapes them.
	quotes string
	// an apostrophe begins no string, but may be part of a word or of the name of a lifetime:
	// &'a str. The character '"' is a string nevertheless.
	apostrophes bool
	words       string // the coloured words, with blanks between them; of languageOf around each
	upperCase   bool   // words may be written in lower case, too
}

// block is a kind of comment or string that goes on until its end, in a later line perhaps.
type block struct{ class, begin, end string }

var (
	commentOfC   = block{"comment", "/*", "*/"}
	commentHTML  = block{"comment", "<!--", "-->"}
	backquoted   = block{"string", "`", "`"}
	tripleQuoted = block{"string", `"""`, `"""`}
	tripleSingle = block{"string", "'''", "'''"}
	singleQuoted = block{"string", "'", "'"}
)

const wordsOfC = "break case catch class const continue default do else enum extern false final finally " +
	"for if import interface new null package private protected public return static struct super switch " +
	"this throw throws true try void while"

// languages are the languages whose files have colours.
var languages = []language{
	{
		files:   ".go",
		comment: "//",
		blocks:  []block{commentOfC, backquoted},
		quotes:  `"'`,
		words: "break case chan const continue default defer else fallthrough false for func go goto if " +
			"import interface map nil package range return select struct switch true type var",
	},
	{
		files:   ".js .jsx .mjs .cjs .ts .tsx",
		comment: "//",
		blocks:  []block{commentOfC, backquoted},
		quotes:  `"'`,
		words: wordsOfC + " as async await export extends from function in instanceof let of type typeof " +
			"undefined var yield",
	},
	{
		files:   ".java .kt .kts .scala .groovy .gradle .cs .dart .swift .php",
		comment: "//",
		blocks:  []block{commentOfC, tripleQuoted},
		quotes:  `"'`,
		words: wordsOfC + " as async await echo extends fun func function implements in instanceof is let " +
			"override throws using val var when",
	},
	{
		files:   ".c .h .cc .cpp .hpp .m .proto",
		comment: "//",
		blocks:  []block{commentOfC},
		quotes:  `"'`,
		words: wordsOfC + " auto char delete double float inline int long namespace nullptr short signed " +
			"sizeof template typedef union unsigned using virtual",
	},
	{
		files:       ".rs",
		comment:     "//",
		blocks:      []block{commentOfC},
		quotes:      `"`,
		apostrophes: true,
		words: "as async await break const continue crate dyn else enum false fn for if impl in let loop " +
			"match mod move mut pub ref return self Self static struct super trait true type unsafe use " +
			"where while",
	},
	{files: ".css", blocks: []block{commentOfC}, quotes: `"'`},
	{files: ".scss .less", comment: "//", blocks: []block{commentOfC}, quotes: `"'`},
	{files: ".json", quotes: `"`, words: "true false null"},
	{
		files:     ".sql",
		comment:   "--",
		blocks:    []block{commentOfC},
		quotes:    `"'`,
		upperCase: true,
		words: "ALTER AND AS BY CREATE DELETE DROP FROM GROUP INDEX INSERT INTO JOIN LIMIT NOT NULL ON OR " +
			"ORDER SELECT SET TABLE UPDATE VALUES WHERE",
	},
	{files: ".html .xml .svg .vue .md", blocks: []block{commentHTML}},
	{
		files:   ".py",
		comment: "#",
		blocks:  []block{tripleQuoted, tripleSingle},
		quotes:  `"'`,
		words: "and as assert async await break class continue def del elif else except False finally for " +
			"from global if import in is lambda None nonlocal not or pass raise return self True try while " +
			"with yield",
	},
	{
		files:   ".rb",
		comment: "#",
		quotes:  `"'`,
		words: "and begin break case class def do else elsif end ensure false if in module next nil not or " +
			"require rescue return self super then true unless until when while yield",
	},
	{
		files:   ".sh .bash .zsh",
		comment: "#",
		blocks:  []block{singleQuoted},
		quotes:  `"`,
		words:   "case do done elif else esac exit export fi for function if in local return then until while",
	},
	{
		files:       ".yml .yaml .toml .ini .cfg .tf",
		comment:     "#",
		quotes:      `"`,
		apostrophes: true,
		words:       "true false null",
	},
}

// languageOf returns the language of a file by its name; ok is false if it is not known.
func languageOf(name string) (l language, ok bool) {
	for _, known := range languages {
		if slices.Contains(strings.Fields(known.files), path.Ext(name)) {
			l = known
			l.words = " " + l.words + " "
			return l, true
		}
	}
	return language{}, false
}

// colour is the end of a part of a line, and the class of its colour: comment, string, number,
// word, or empty for none.
type colour struct {
	class string
	end   int
}

// mostParts is how many parts of a line have colours.
const mostParts = 300

// scanner finds the colours of the lines of a side of a diff, line by line, in a time that
// grows with their length.
type scanner struct {
	language
	open block // in which the next line begins; zero if it begins in none
}

// line returns the colours of the next line.
func (s *scanner) line(text string) []colour {
	var colours []colour
	for at := 0; at < len(text) && len(colours) < mostParts; {
		class, length := s.part(text, at)
		at += length
		last := len(colours) - 1
		if last >= 0 && colours[last].class == class {
			colours[last].end = at
			continue
		}
		colours = append(colours, colour{class: class, end: at})
	}
	return colours
}

// part returns the class and the length of the part that begins at a place of a line.
func (s *scanner) part(line string, at int) (class string, length int) {
	text := line[at:]
	if s.open.end != "" {
		return s.inBlock(text, 0)
	}
	if s.beginsComment(line, at) {
		return "comment", len(text)
	}
	for _, b := range s.blocks {
		if strings.HasPrefix(text, b.begin) {
			s.open = b
			return s.inBlock(text, len(b.begin))
		}
	}
	length = s.quoted(text)
	if length > 0 {
		return "string", length
	}
	return s.plain(text)
}

// quoted returns the length of the string with which a text begins; 0 if it begins with none.
func (s *scanner) quoted(text string) int {
	const aQuote = `'"'`
	switch {
	case s.apostrophes && strings.HasPrefix(text, aQuote):
		return len(aQuote)
	case strings.IndexByte(s.quotes, text[0]) >= 0:
		return quotedLength(text)
	}
	return 0
}

// plain returns the class and the length of the word, number or sign with which a text begins.
func (s *scanner) plain(text string) (class string, length int) {
	first, size := utf8.DecodeRuneInString(text)
	if first == '\\' && len(text) > size { // of a shell: the next sign is itself
		_, next := utf8.DecodeRuneInString(text[size:])
		return "", size + next
	}
	if !wordSign(first) {
		return "", size
	}
	length = strings.IndexFunc(text, func(r rune) bool { return !wordSign(r) })
	if length < 0 {
		length = len(text)
	}
	if unicode.IsDigit(first) {
		return "number", length
	}
	word := text[:length]
	if s.upperCase {
		word = strings.ToUpper(word)
	}
	if strings.Contains(s.words, " "+word+" ") {
		return "word", length
	}
	return "", length
}

// beginsComment reports whether a comment that ends with the line begins at a place. A #
// begins a comment only after a blank.
func (s *scanner) beginsComment(line string, at int) bool {
	if s.comment == "" || !strings.HasPrefix(line[at:], s.comment) {
		return false
	}
	return s.comment != "#" || at == 0 || line[at-1] == ' ' || line[at-1] == '\t'
}

// inBlock returns the class and length of the rest of the open comment or string, whose end is
// sought from a place on.
func (s *scanner) inBlock(text string, from int) (class string, length int) {
	class = s.open.class
	at := strings.Index(text[from:], s.open.end)
	if at < 0 {
		return class, len(text)
	}
	length = from + at + len(s.open.end)
	s.open = block{}
	return class, length
}

// quotedLength returns the length of the string with which a text begins.
func quotedLength(text string) int {
	for at := 1; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case text[0]:
			return at + 1
		}
	}
	return len(text)
}

func wordSign(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
