package runner

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// shortestForm is the length from which anything is taken for a secret at all: two letters are in every word.
	shortestForm = 3
	// shortestCoded is the same for what base64 leaves certain of a value.
	shortestCoded = 8
	// shortestLine is the length from which a line of a secret of several lines (a private key) is one itself.
	shortestLine = 16
)

// formsOf are the ways in which a value may be written: as it is, in JSON and in JSON within JSON, in a URL, and in base64.
func formsOf(value string) [][]byte {
	if len(value) < shortestForm {
		return nil
	}
	plain := []string{value}
	if bare := strings.TrimSpace(value); bare != value && len(bare) >= shortestSecret {
		plain = append(plain, bare) // a file that a value was read from ends its line
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine && !strings.HasPrefix(line, "-----") {
				plain = append(plain, line)
			}
		}
	}
	var forms [][]byte
	for _, v := range plain {
		inJSON, forHTML := quote(v, false), quote(v, true)
		inASCII, slashes := ascii(inJSON), strings.ReplaceAll(inJSON, "/", `\/`)
		for _, form := range []string{
			v, inJSON, forHTML, quote(inJSON, false), quote(inJSON, true), quote(forHTML, false), url.QueryEscape(v), url.PathEscape(v),
			inASCII, quote(inASCII, false), slashes, quote(slashes, false),
		} {
			forms = append(forms, []byte(form))
		}
		forms = append(forms, codedForms([]byte(v))...)
	}
	return forms
}

// quote writes a text as JSON does, without the quotes. Some writers of JSON escape the letters that HTML is made of.
func quote(text string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(text); err != nil {
		return text // a string always encodes
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// ascii escapes the other letters of a JSON string, as some writers of JSON do.
func ascii(quoted string) string {
	var b strings.Builder
	for _, r := range quoted {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}

// codedForms are what base64 makes of a value: of the value alone, and of one that stands within a longer text, as in
// the "user:password" of a login. There the first and the last letters depend on the neighbours; those between do not,
// but come in three kinds, by where the value begins.
func codedForms(value []byte) [][]byte {
	var forms [][]byte
	add := func(form string) {
		forms = append(forms, []byte(form))
		if other := strings.NewReplacer("+", "-", "/", "_").Replace(form); other != form {
			forms = append(forms, []byte(other))
		}
	}
	add(base64.StdEncoding.EncodeToString(value))
	add(base64.RawStdEncoding.EncodeToString(value))
	for before := range 3 {
		coded := base64.RawStdEncoding.EncodeToString(slices.Concat(make([]byte, before), value))
		// Each letter is six bits: the first that begins in the value, and the last that ends in it.
		first, end := (8*before+5)/6, 8*(before+len(value))/6
		if end-first >= shortestCoded {
			add(coded[first:end])
		}
		// base64 comes in lines, and a line may end anywhere in it.
		for at := first; at+shortestCoded <= end; at += shortestCoded / 2 {
			add(coded[at : at+shortestCoded])
		}
	}
	return slices.DeleteFunc(forms, func(f []byte) bool { return len(f) < shortestCoded })
}
