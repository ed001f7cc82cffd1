package file

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The authors of comments that symphony and agents write.
const (
	authorSymphony = "symphony"
	authorAgent    = "symphony agent"
)

// The lines that begin and end Backlog.md's section of comments, after the heading.
const (
	commentsHeading = "## Comments"
	commentsBegin   = "<!-- COMMENTS:BEGIN -->"
	commentsEnd     = "<!-- COMMENTS:END -->"
)

// comment is a comment in a file.
type comment struct {
	id     string
	author string
	at     time.Time
	body   string
	text   span // the lines of the body
	closed bool // a line of --- follows
}

// own reports whether symphony or its agent wrote the comment.
func (c comment) own() bool {
	return strings.EqualFold(c.author, authorSymphony) || strings.EqualFold(c.author, authorAgent)
}

// findComments finds the content of the last section of comments after body, and returns the
// text without that section. Without a section both ends are 0.
func findComments(content []byte, body int) (section span, rest []byte) {
	whole := span{}
	heading := -1
	begun := 0
	at := body
	for line := range bytes.Lines(content[body:]) {
		trimmed := string(bytes.TrimSpace(line))
		switch {
		case begun > 0 && trimmed == commentsEnd:
			section = span{begun, at}
			whole = span{heading, at + len(line)}
			heading = -1
			begun = 0
		case begun > 0:
		case trimmed == commentsHeading:
			heading = at
		case trimmed == commentsBegin && heading >= 0:
			begun = at + len(line)
		case trimmed != "":
			heading = -1
		}
		at += len(line)
	}
	if section.end == 0 {
		return section, content[body:]
	}
	return section, slices.Concat(content[body:whole.start], content[whole.end:])
}

// parseComments reads the comments of an issue, in their order. Backlog.md writes no seconds,
// and people may write no time at all: a comment is at least a millisecond later than the
// comment before it.
func parseComments(content []byte, section span, issue string) (list []comment) {
	var c *comment // the current comment
	created := ""
	seen := map[string]int{}
	at := section.start
	begun := false
	for line := range bytes.Lines(content[section.start:section.end]) {
		trimmed := strings.TrimSpace(string(line))
		key, value, _ := strings.Cut(trimmed, ":")
		at += len(line)
		if c == nil && key != "" {
			c = &comment{at: time.Unix(0, 0).UTC()}
			created = ""
		}
		switch {
		case trimmed == fence && !begun:
			begun = true
			c.text = span{at, at}
		case trimmed == fence && commentEnds(content[at:section.end]):
			c.closed = true
			list = append(list, c.complete(content, list))
			c = nil
			begun = false
		case begun:
			c.text.end = at
		case strings.EqualFold(key, "author"):
			c.author = strings.TrimSpace(value)
		case strings.EqualFold(key, "created"):
			created = strings.TrimSpace(value)
			if t := text.Time(created); t != nil {
				c.at = t.Truncate(time.Millisecond)
			}
		}
		if begun && c.id == "" {
			c.id = issue + " " + created
			seen[created]++
			if seen[created] > 1 {
				c.id += fmt.Sprintf("#%d", seen[created])
			}
		}
	}
	if begun {
		list = append(list, c.complete(content, list))
	}
	return list
}

// commentEnds reports whether the text after a line of --- no longer belongs to the comment.
func commentEnds(rest []byte) bool {
	rest = bytes.TrimSpace(rest)
	return len(rest) == 0 || commentHead().Match(rest)
}

var commentHead = text.Pattern(`^(?i:author|created|index):`)

// complete sets the fields that depend on the whole comment and the comments before it.
func (c *comment) complete(content []byte, before []comment) comment {
	body := strings.ReplaceAll(string(content[c.text.start:c.text.end]), "\r\n", "\n")
	c.body = strings.ToValidUTF8(strings.TrimSpace(body), "?")
	if n := len(before); n > 0 && !c.at.After(before[n-1].at) {
		c.at = before[n-1].at.Add(time.Millisecond)
	}
	return *c
}

func (c comment) public() reconcile.Comment {
	out := reconcile.Comment{
		ID:        c.id,
		Author:    c.author,
		Own:       c.own(),
		Body:      c.body,
		CreatedAt: c.at,
	}
	if name := bare(c.author); name != "" {
		out.AuthorIDs = []string{name, "@" + name}
	}
	return out
}

// addComment returns the file with a comment at the end of its comments.
func addComment(content []byte, before []comment, author, body string, now time.Time) []byte {
	block := fmt.Sprintf(
		"author: %s\ncreated: %s\n---\n%s\n---\n",
		author,
		now.UTC().Format("2006-01-02T15:04:05.000Z"),
		plain(body),
	)
	front, _, _ := split(content)
	section, _ := findComments(content, front.end)
	eol := newline(content)
	if section.end == 0 {
		block = "\n" + commentsHeading + "\n\n" + commentsBegin + "\n" + block + commentsEnd + "\n"
		if !bytes.HasSuffix(content, []byte("\n")) {
			block = "\n" + block
		}
		return slices.Concat(content, lines(block, eol))
	}
	if n := len(before); n > 0 && !before[n-1].closed {
		block = fence + "\n\n" + block
	} else if n > 0 {
		block = "\n" + block
	}
	return slices.Concat(content[:section.end], lines(block, eol), content[section.end:])
}

// newline returns the end of the file's first line.
func newline(content []byte) string {
	if i := bytes.IndexByte(content, '\n'); i > 0 && content[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

func lines(text, eol string) []byte { return []byte(strings.ReplaceAll(text, "\n", eol)) }

var sectionMark = text.Pattern(`(?i)<!--((?:\pZ|\pC)*(?:COMMENTS?|SECTION|AC|DOD)\b)`)

// visible returns a line without spaces and the characters that are not seen. Backlog.md trims
// more of them than Go does.
func visible(line string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || !unicode.IsGraphic(c) {
			return -1
		}
		return c
	}, line)
}

// plain returns a text that neither ends the comment nor is a mark of Backlog.md, so that an
// agent can write nothing else.
func plain(body string) string {
	body = strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return -1
		}
		return c
	}, strings.ToValidUTF8(body, "?"))
	// Backlog.md ends lines at these, too
	body = strings.NewReplacer("\u2028", "\n", "\u2029", "\n").Replace(body)
	list := strings.Split(strings.TrimSpace(body), "\n")
	for i, line := range list {
		if visible(line) == fence {
			list[i] = "- - -"
		}
	}
	return sectionMark().ReplaceAllString(strings.Join(list, "\n"), "&lt;!--$1")
}
