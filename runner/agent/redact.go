package agent

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/text"
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

const (
	// length of the shortest secret that is redacted: two letters occur in every text
	minSecret = 3
	// length of the shortest line of a multi-line secret (a private key) that is redacted by
	// itself
	minLine = 16
	// minPiece is the length of the shortest value of a variable that counts as a secret, and
	// of the shortest piece of base64 and the shortest beginning of a secret before an
	// ellipsis that are redacted.
	minPiece = 8
	maxHeld  = 64 << 10 // most bytes of a stream that Split holds back
)

const ellipsis = "…" // marks the end of a text that was cut

// Redactor replaces secrets in everything that a run writes, in every form in which a program
// may write them. A nil Redactor changes nothing. Its methods may be called from several
// goroutines.
type Redactor struct {
	shapes bool // also replace text with the form of a secret

	mu       sync.RWMutex
	forms    []string // the texts to replace, the longest first; the slice is never modified
	replacer *strings.Replacer
}

// NewRedactor returns a Redactor for the values and for text with the form of a secret: logins
// of HTTP and in URLs, and tokens.
func NewRedactor(values []string) *Redactor {
	r := &Redactor{shapes: true}
	r.Add(values)
	return r
}

// NewExactRedactor returns a Redactor for the values only. It is for texts that the agent
// reads, which should change as little as possible.
func NewExactRedactor(values []string) *Redactor {
	r := &Redactor{}
	r.Add(values)
	return r
}

// Add makes the Redactor, which must not be nil, hide more values.
func (r *Redactor) Add(values []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.forms)
	for _, v := range values {
		all = append(all, formsOf(v)...)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	all = slices.Compact(all)
	if r.replacer != nil && len(all) == len(r.forms) {
		return // nothing is new
	}
	pairs := make([]string, 0, 2*len(all))
	for _, form := range all {
		pairs = append(pairs, form, Redacted)
	}
	r.forms = all
	r.replacer = strings.NewReplacer(pairs...)
}

func (r *Redactor) known() ([]string, *strings.Replacer) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.forms, r.replacer
}

// logins and tokens find secrets by their form. Most of them begin with fixed letters, which
// regexp finds fast.
var (
	logins = text.Map([]string{
		`(Bearer +)[A-Za-z0-9._~+/=-]{3,}`,
		`(bearer +)[A-Za-z0-9._~+/=-]{3,}`,
		`(BEARER +)[A-Za-z0-9._~+/=-]{3,}`,
		`(https?://)[^\s/"'\\]+(@)`,
		`(://)[^\s/"'\\]*:[^\s/"'\\]*(@)`,
		`(?i)([?&][\w.-]*(?:key|token|secret|password|sig|signature)=)[^\s&"'\\=][^\s&"'\\]*`,
	}, text.Pattern)
	basics = text.Map(
		[]string{`(Basic +)[\w+/-]{8,}`, `(basic +)[\w+/-]{8,}`, `(BASIC +)[\w+/-]{8,}`},
		text.Pattern,
	)
	tokens = text.Map([]string{
		`lin_api_[\w-]{8,}`, `gh[pousr]_[\w-]{8,}`, `github_pat_[\w-]{8,}`, `glpat-[\w-]{8,}`,
		`xox[abp]-[\w-]{8,}`, `sk-[\w-]*\w{20,}[\w-]*`,
	}, text.Pattern)
	wordEnd = text.Pattern(`[A-Za-z0-9]$`)
)

// hideShapes replaces text with the form of a secret.
func hideShapes(text string) string {
	isNoImage := func(_, _, after string) bool { return !strings.HasPrefix(after, "sha256:") }
	isBasic := func(_, found, _ string) bool { return isLogin(found) }
	isWord := func(before, _, _ string) bool { return !wordEnd().MatchString(before) } // not its end
	for _, login := range logins {
		text = replaceFound(text, login(), isNoImage)
	}
	for _, basic := range basics {
		text = replaceFound(text, basic(), isBasic)
	}
	for _, token := range tokens {
		text = replaceFound(text, token(), isWord)
	}
	return text
}

// isLogin reports whether the last word of a text, which may be cut, is the login of Basic
// authentication.
func isLogin(text string) bool {
	word := text[strings.LastIndexByte(text, ' ')+1:]
	login, err := base64.RawStdEncoding.DecodeString(word[:len(word)/4*4])
	user, _, found := bytes.Cut(login, []byte(":"))
	return err == nil && found && utf8.Valid(user)
}

// replaceFound replaces each match but its groups: the first one begins it, such as "Bearer ",
// and the second one, the @ of an address, ends it. Either may be missing in the pattern. It
// asks secret first, with the byte before the match, the match, and the text after it.
func replaceFound(text string, pattern *regexp.Regexp, secret func(before, found, after string) bool) string {
	const (
		endOfFirstGroup    = 3 // the indexes in a match of FindAllStringSubmatchIndex
		beginOfSecondGroup = 4
	)
	var out strings.Builder
	done := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
		begin := at[0]
		end := at[1]
		if !secret(text[max(0, begin-1):begin], text[begin:end], text[end:]) {
			continue
		}
		if len(at) > endOfFirstGroup {
			begin = at[endOfFirstGroup]
		}
		if len(at) > beginOfSecondGroup {
			end = at[beginOfSecondGroup]
		}
		out.WriteString(text[done:begin] + Redacted)
		done = end
	}
	return out.String() + text[done:]
}

// Text returns the text without secrets. The beginning of a secret before an ellipsis is
// replaced as well.
func (r *Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	_, replacer := r.known()
	text = replacer.Replace(text)
	if r.shapes {
		text = hideShapes(text)
	}
	parts := strings.Split(text, ellipsis)
	for i, part := range parts[:len(parts)-1] {
		if n := r.unfinished(part); n >= minPiece {
			parts[i] = part[:len(part)-n] + Redacted
		}
	}
	return strings.Join(parts, ellipsis)
}

// Bytes is Text for bytes.
func (r *Redactor) Bytes(data []byte) []byte { return []byte(r.Text(string(data))) }

// unfinished returns how many bytes at the end of the text are the beginning of a secret: 3 for
// "key=abc" and the secret abcdef.
func (r *Redactor) unfinished(text string) int {
	if text == "" {
		return 0
	}
	forms, _ := r.known()
	longest := 0
	last := text[len(text)-1]
	for _, form := range forms {
		for n := min(len(form)-1, len(text)); n > longest; n-- {
			n = strings.LastIndexByte(form[:n], last) + 1
			if n > longest && strings.HasSuffix(text, form[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// beforeSecret returns the end of the last part of the text that ends at or before cut and
// does not end within a secret.
func (r *Redactor) beforeSecret(text string, cut int) int {
	forms, _ := r.known()
	for i := 0; i < len(forms); i++ {
		from := max(0, cut-len(forms[i])+1)
		to := min(len(text), cut+len(forms[i])-1)
		at := strings.Index(text[from:to], forms[i])
		if at >= 0 {
			cut = from + at
			i = -1 // look for all of them again
		}
	}
	return cut
}

// Split redacts a stream that arrives in pieces. It returns whole lines without secrets, and
// the rest, which is held back because a secret at its end may be incomplete. The caller
// appends the next piece to the rest and calls Split again.
func (r *Redactor) Split(data []byte) (clean, held []byte) {
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && len(data) > maxHeld {
		// A very long line: hold back its last two words, which may be "Bearer" and its token.
		end = bytes.LastIndexByte(bytes.TrimRight(data[:bytes.LastIndexByte(data, ' ')+1], " "), ' ') + 1
		end = cmp.Or(end, len(data))
	}
	if r != nil {
		text := string(data[:end])
		if n := r.unfinished(text); n > 0 && n <= maxHeld {
			end = r.beforeSecret(text, end-n)
		}
	}
	return r.Bytes(data[:end]), bytes.Clone(data[end:])
}

// Writer redacts text and writes it to W. Each call of Write must be a complete record.
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

// EnvSecrets returns the values of variables named *_KEY, *_TOKEN, *_PAT, *_SECRET or *_PASSWORD,
// except paths of existing files (SSH_KEY=/home/ann/.ssh/id).
func EnvSecrets(env []string) []string {
	var found []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		endsIn := func(word string) bool { return strings.HasSuffix(strings.ToUpper(name), word) }
		if slices.ContainsFunc([]string{"_KEY", "_TOKEN", "_PAT", "_SECRET", "_PASSWORD"}, endsIn) &&
			SecretValue(value) {
			found = append(found, value)
		}
	}
	return found
}

// SecretValue reports whether the value of a variable with the name of a secret can be a
// secret: it is long enough, and not the path of an existing file.
func SecretValue(value string) bool {
	if !strings.HasPrefix(value, "/") {
		return len(value) >= minPiece
	}
	_, err := os.Lstat(value)
	return err != nil && len(value) >= minPiece
}

// formsOf returns the forms in which programs write a value: plain, in JSON, in JSON within
// JSON, in a URL, in base64.
func formsOf(value string) []string {
	if len(value) < minSecret {
		return nil
	}
	plain := []string{value}
	if bare := strings.TrimSpace(value); len(bare) >= minPiece {
		plain = append(plain, bare) // a value read from a file may end with a line break
	}
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		if len(line) >= minLine && !strings.HasPrefix(line, "-----") {
			plain = append(plain, line)
		}
	}
	var all []string
	for _, v := range plain {
		inJSON := quote(v)
		escapedSlashes := strings.ReplaceAll(inJSON, "/", `\/`)
		for _, once := range []string{inJSON, quoteHTML(v), ascii(inJSON), escapedSlashes} {
			all = append(all, once, quote(once), quoteHTML(once))
		}
		all = append(all, v, url.QueryEscape(v), url.PathEscape(v))
		all = append(all, base64Forms(v)...)
	}
	return all
}

// quote encodes a text as JSON without the quotes.
func quote(value string) string { return withoutQuotes(text.JSON(value)) }

// quoteHTML does so and escapes the characters of HTML, as some JSON encoders do.
func quoteHTML(value string) string {
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, text.JSON(value))
	return withoutQuotes(escaped.Bytes())
}

// withoutQuotes returns the text between the quotes.
func withoutQuotes(quoted []byte) string { return string(quoted[1 : len(quoted)-1]) }

// ascii escapes the characters of a JSON string that are not ASCII, as some JSON encoders do.
func ascii(quoted string) string {
	return text.EscapeJSON(quoted, func(r rune) bool { return r >= utf8.RuneSelf })
}

// base64Forms returns the base64 forms of a value: alone, and within a longer text such as
// "user:password". Within a text the first and last letters depend on the neighbours. The
// letters between have three variants, depending on the position of the value. Because there
// may be line breaks between them, pieces of eight letters are returned too.
func base64Forms(value string) []string {
	all := []string{
		base64.StdEncoding.EncodeToString([]byte(value)),
		base64.RawStdEncoding.EncodeToString([]byte(value)),
	}
	for before := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
		// A letter stands for six bits. These are the first letter that begins within the
		// value, and the end of the last.
		first := (8*before + 5) / 6
		end := 8 * (before + len(value)) / 6
		all = append(all, coded[first:end])
		for at := first; at+minPiece <= end; at += minPiece / 2 {
			all = append(all, coded[at:at+minPiece])
		}
	}
	urlLetters := strings.NewReplacer("+", "-", "/", "_")
	all = append(all, text.Map(all, urlLetters.Replace)...)
	return slices.DeleteFunc(all, func(form string) bool { return len(form) < minPiece })
}
