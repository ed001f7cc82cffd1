package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

const (
	// minSecret is the shortest value that is redacted at all: two letters occur in every word.
	minSecret = 3
	// minVariable is the shortest value of an environment variable that counts as a secret.
	minVariable = 8
	// minCoded is the shortest piece of a base64 text that is redacted.
	minCoded = 8
	// minLine is the shortest line of a secret of several lines (a private key) that is redacted by itself.
	minLine = 16
	// minCutOff is the shortest beginning of a secret that is redacted in front of an ellipsis.
	minCutOff = 8
	// maxHeld bounds the part of a stream that Split holds back.
	maxHeld = 64 << 10
)

const ellipsis = "…" // ends a text that was cut

// Redactor replaces secrets in whatever a run writes: each value in every form a program may write it in. A nil Redactor
// knows no secrets. It is safe for concurrent use.
type Redactor struct {
	bearer bool // also replace what follows the word Bearer
	known  atomic.Pointer[forms]
}

// forms are the texts to replace, the longest first.
type forms struct {
	list     []string
	replacer *strings.Replacer
}

// NewRedactor replaces the values and every bearer token.
func NewRedactor(values []string) *Redactor {
	r := &Redactor{bearer: true}
	r.Add(values)
	return r
}

// NewExactRedactor replaces the values only. It is for texts that the agent reads, which should change as little as possible.
func NewExactRedactor(values []string) *Redactor {
	r := &Redactor{}
	r.Add(values)
	return r
}

// Add makes further values known.
func (r *Redactor) Add(values []string) {
	var added []string
	for _, v := range values {
		added = append(added, formsOf(v)...)
	}
	for len(added) > 0 {
		old := r.known.Load()
		list := added
		if old != nil {
			list = slices.Concat(old.list, added)
		}
		slices.SortFunc(list, func(a, b string) int {
			if len(a) != len(b) {
				return len(b) - len(a)
			}
			return strings.Compare(a, b)
		})
		list = slices.Compact(list)
		if old != nil && len(list) == len(old.list) {
			return
		}
		pairs := make([]string, 0, 2*len(list))
		for _, form := range list {
			pairs = append(pairs, form, Redacted)
		}
		if r.known.CompareAndSwap(old, &forms{list, strings.NewReplacer(pairs...)}) {
			return
		}
	}
}

var bearerToken = regexp.MustCompile(`((?:Bearer|bearer|BEARER) +)[A-Za-z0-9._~+/=-]{3,}`)

// Text returns the text without secrets. If a secret was cut off by an ellipsis its beginning is replaced as well.
func (r *Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	if known := r.known.Load(); known != nil {
		text = known.replacer.Replace(text)
	}
	if r.bearer {
		text = bearerToken.ReplaceAllString(text, "${1}"+Redacted)
	}
	for from := 0; ; {
		i := strings.Index(text[from:], ellipsis)
		if i < 0 {
			return text
		}
		at := from + i
		if n := r.started(text[:at]); n >= minCutOff {
			text = text[:at-n] + Redacted + text[at:]
			at += len(Redacted) - n
		}
		from = at + len(ellipsis)
	}
}

// Bytes is Text for bytes.
func (r *Redactor) Bytes(data []byte) []byte { return []byte(r.Text(string(data))) }

// started is the length of the longest end of the text that is the beginning of a secret.
func (r *Redactor) started(text string) int {
	known := r.known.Load()
	if known == nil || text == "" {
		return 0
	}
	longest, last := 0, text[len(text)-1]
	for _, form := range known.list {
		for n := min(len(form)-1, len(text)); n > longest; n-- {
			if n = strings.LastIndexByte(form[:n], last) + 1; n > longest && strings.HasSuffix(text, form[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Split redacts a stream that arrives in pieces. It returns the whole lines without secrets, and what has to be held back
// because a secret in it may go on in the next piece. The caller puts the next piece behind the held one.
func (r *Redactor) Split(data []byte) (clean, held []byte) {
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && len(data) > maxHeld {
		// One endless line: hold back its last two words, which may be "Bearer" and its token.
		end = bytes.LastIndexByte(bytes.TrimRight(data[:bytes.LastIndexByte(data, ' ')+1], " "), ' ') + 1
		if end == 0 {
			end = len(data)
		}
	}
	if r != nil {
		if n := r.started(string(data[:end])); n <= maxHeld {
			end -= n
		}
	}
	return r.Bytes(data[:end]), bytes.Clone(data[end:])
}

// Writer redacts what is written to W, one record per call.
type Writer struct {
	W        io.Writer
	Redactor *Redactor
}

// Write implements io.Writer.
func (w Writer) Write(p []byte) (int, error) {
	if _, err := w.W.Write(w.Redactor.Bytes(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// EnvSecrets returns the values of the variables named *_KEY, *_TOKEN, *_SECRET or *_PASSWORD. The path of an existing file
// is not a secret: SSH_KEY=/home/ann/.ssh/id.
func EnvSecrets(env []string) []string {
	var found []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		named := slices.ContainsFunc([]string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD"}, func(end string) bool { return strings.HasSuffix(name, end) })
		if named && SecretValue(value) {
			found = append(found, value)
		}
	}
	return found
}

// SecretValue reports whether the value of a variable that is named like a secret can be one.
func SecretValue(value string) bool {
	if len(value) < minVariable {
		return false
	}
	if strings.HasPrefix(value, "/") {
		_, err := os.Lstat(value)
		return err != nil
	}
	return true
}

// formsOf lists the ways in which programs write a value: as it is, in JSON, in JSON within JSON, in a URL, in base64.
func formsOf(value string) []string {
	if len(value) < minSecret {
		return nil
	}
	plain := []string{value}
	if bare := strings.TrimSpace(value); bare != value && len(bare) >= minVariable {
		plain = append(plain, bare) // a value read from a file ends with a line break
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				plain = append(plain, line)
			}
		}
	}
	var all []string
	for _, v := range plain {
		inJSON, forHTML := quote(v, false), quote(v, true)
		inASCII, slashes := ascii(inJSON), strings.ReplaceAll(inJSON, "/", `\/`)
		all = append(all, v, inJSON, forHTML, quote(inJSON, false), quote(inJSON, true), quote(forHTML, false),
			url.QueryEscape(v), url.PathEscape(v), inASCII, quote(inASCII, false), slashes, quote(slashes, false))
		all = append(all, base64Forms(v)...)
	}
	return all
}

// quote writes a text as JSON does, without the quotes. Some writers of JSON escape the characters of HTML.
func quote(text string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(text); err != nil {
		return text // a string always encodes
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// ascii escapes all other characters of a JSON string, as some writers of JSON do.
func ascii(quoted string) string {
	var b strings.Builder
	for _, r := range quoted {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// base64Forms lists what base64 makes of a value: alone, and inside a longer text such as the "user:password" of a login.
// Inside a text the first and last letters depend on the neighbours. Those between come in three variants, by the
// position of the value, and a line break may stand anywhere in them; so pieces of eight letters are listed too.
func base64Forms(value string) []string {
	all := []string{base64.StdEncoding.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value))}
	for before := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
		// A letter is six bits: the first that begins in the value, and the last that ends in it.
		first, end := (8*before+5)/6, 8*(before+len(value))/6
		all = append(all, coded[first:end])
		for at := first; at+minCoded <= end; at += minCoded / 2 {
			all = append(all, coded[at:at+minCoded])
		}
	}
	urlLetters := strings.NewReplacer("+", "-", "/", "_")
	for _, form := range slices.Clone(all) {
		all = append(all, urlLetters.Replace(form))
	}
	return slices.DeleteFunc(all, func(form string) bool { return len(form) < minCoded })
}
