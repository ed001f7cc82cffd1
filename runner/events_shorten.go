package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"
)

// shorten gives a JSON value that has at most limit bytes: long strings keep their beginning and their end, long lists
// and objects their beginning, and what was left out is said where it was. So the rendition of a large event tells the
// same as the event: what was run, where, and how it ended. Secrets do not survive in the middle of a cut.
//
// It reads the value once for each degree of shortening, copies nothing that it leaves out, and gives up a degree as soon
// as that has become too long: a line of megabytes costs no more memory than its rendition.
func shorten(value json.RawMessage, limit int, s secrets) json.RawMessage {
	if len(value) <= limit {
		return value
	}
	for _, d := range []degree{
		{limit * 3 / 4, 4096}, {limit / 4, 1024}, {limit / 16, 256}, {limit / 64, 64}, {limit / 256, 16}, {64, 4},
	} {
		c := &cutter{in: value, limit: limit, degree: d, secrets: s}
		// The cutter takes for JSON what only looks like it.
		if c.value() == nil && c.next() == 0 && json.Valid(c.out) {
			return c.out
		}
	}
	// No JSON, or one that is all structure.
	head, tail := ends(value, limit/8, s)
	return json.RawMessage(quoted(withCut(head, tail, len(value))))
}

// degree is how much is left: bytes of a string, entries of a list or an object.
type degree struct{ text, entries int }

// cutter copies one value.
type cutter struct {
	in      []byte
	at      int
	out     []byte
	depth   int
	skipped bool // what is read is left out
	limit   int
	degree
	secrets secrets
}

var (
	errTooLong = errors.New("still too long")
	errNoJSON  = errors.New("no JSON")
)

// deepest is how far values may be nested, as for encoding/json: whatever is deeper would use up the stack.
const deepest = 10000

func (c *cutter) write(data []byte) error {
	if c.skipped {
		return nil
	}
	if len(c.out)+len(data) > c.limit {
		return errTooLong
	}
	c.out = append(c.out, data...)
	return nil
}

func (c *cutter) next() byte {
	for c.at < len(c.in) {
		switch b := c.in[c.at]; b {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return b
		}
	}
	return 0
}

func (c *cutter) value() error {
	switch c.next() {
	case 0:
		return errNoJSON
	case '"':
		return c.text()
	case '{':
		return c.entries('}', true)
	case '[':
		return c.entries(']', false)
	}
	return c.word()
}

// word is a number, true, false or null.
func (c *cutter) word() error {
	const longestNumber = 64
	end := c.at
	for end < len(c.in) && bytes.IndexByte([]byte(",]} \t\r\n"), c.in[end]) < 0 {
		end++
	}
	word := c.in[c.at:end]
	if c.at = end; len(word) == 0 {
		return errNoJSON
	}
	if len(word) > longestNumber {
		word = []byte(`"` + ellipsis + `"`)
	}
	return c.write(word)
}

// entries is a list or an object, from its first bracket to its last.
func (c *cutter) entries(last byte, named bool) error {
	if err := c.write(c.in[c.at : c.at+1]); err != nil {
		return err
	}
	c.at++
	if c.depth++; c.depth > deepest {
		return errNoJSON
	}
	outside := c.skipped
	for n := 0; ; n++ {
		if c.next() == last {
			c.at++
			c.depth--
			c.skipped = outside
			return c.end(last, named, n-c.degree.entries)
		}
		c.skipped = outside || n >= c.degree.entries
		if n > 0 {
			if c.next() != ',' {
				return errNoJSON
			}
			c.at++
			if err := c.write([]byte(",")); err != nil {
				return err
			}
		}
		if err := c.entry(named); err != nil {
			return err
		}
	}
}

func (c *cutter) entry(named bool) error {
	if named {
		if c.next() != '"' {
			return errNoJSON
		}
		if err := c.text(); err != nil {
			return err
		}
		if c.next() != ':' {
			return errNoJSON
		}
		c.at++
		if err := c.write([]byte(":")); err != nil {
			return err
		}
	}
	return c.value()
}

// end closes a list or an object, and says how many entries were left out.
func (c *cutter) end(last byte, named bool, more int) error {
	text := ""
	if more > 0 {
		text = "," + quoted([]byte(ellipsis+" "+strconv.Itoa(more)+" more"))
		if named {
			text += ":null"
		}
	}
	return c.write(append([]byte(text), last))
}

func quoted(text []byte) string {
	b, err := json.Marshal(string(text))
	if err != nil {
		return `""` // a string always encodes
	}
	return string(b)
}

// text is a string.
func (c *cutter) text() error {
	start := c.at + 1
	end := start
	for {
		i := bytes.IndexByte(c.in[end:], '"')
		if i < 0 {
			return errNoJSON
		}
		end += i
		if !escaped(c.in[start:end]) {
			break
		}
		end++
	}
	c.at = end + 1
	content := c.in[start:end]
	if c.skipped || len(content) <= c.degree.text {
		return c.write(c.in[start-1 : end+1])
	}
	head, tail := ends(content, c.degree.text, c.secrets)
	text := slices.Concat([]byte{'"'}, withCut(head, tail, len(content)), []byte{'"'})
	if !json.Valid(text) {
		text = []byte(quoted(text[1 : len(text)-1])) // a secret went, and half an escape with it
	}
	return c.write(text)
}

// withCut says between the ends how much is missing there.
func withCut(head, tail []byte, of int) []byte {
	mark := ellipsis + "[" + strconv.Itoa(of-len(head)-len(tail)) + " bytes cut]" + ellipsis
	return slices.Concat(head, []byte(mark), tail)
}

// escapeLength is more than the letters of the longest escape.
const escapeLength = 16

// ends are the beginning and the end of a text, keep bytes in all, without secrets. What is scrubbed is more than what is
// kept, by the length of the longest secret: none is missed because only a part of it was looked at.
func ends(text []byte, keep int, s secrets) (head, tail []byte) {
	more := s.longest() + escapeLength
	headRoom, tailRoom := keep-keep/4, keep/4

	head = s.scrubWhole(text[:min(len(text), headRoom+more)])
	at, _ := escapeAround(head, min(headRoom, max(0, len(head)-more)))
	head = head[:at]
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRune(head); r == utf8.RuneError && size == 1 {
			head = head[:len(head)-1]
		}
	}

	from := max(0, len(text)-tailRoom-more)
	from -= s.openToken(text[:from]) // what announces a token belongs to it
	tail = s.scrubWhole(text[from:])
	_, at = escapeAround(tail, min(len(tail), max(more, len(tail)-tailRoom)))
	tail = tail[at:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head, tail
}

// escapeAround is the escape of JSON that the place lies in, or the place itself.
func escapeAround(text []byte, at int) (start, end int) {
	for p := at - 1; p >= 0 && p >= at-5; p-- {
		if text[p] != '\\' || escaped(text[:p]) {
			continue
		}
		length := len(`\n`)
		if p+1 < len(text) && text[p+1] == 'u' {
			length = len(`\u0000`)
		}
		if p+length > at {
			return p, min(p+length, len(text))
		}
	}
	return at, at
}

// escaped reports whether what follows the text belongs to an escape: an odd number of backslashes is before it.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
