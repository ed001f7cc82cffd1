package workflow

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// redact makes the copy of the file that may be kept: the placeholder for each literal key. A key that is written
// so that its place in the text is uncertain is refused, so that no copy can hold one.
func (r *reader) redact(cfg *Config, literals []field) {
	key := []byte(cfg.Tracker.APIKey)
	text := bytes.Clone(r.src.FrontMatter)
	const placeholder = "$" + LiteralKeyVar
	for _, f := range literals {
		// Of equal length, so that the places of the others stay true until all are found.
		start, end, ok := span(r.src.FrontMatter, f.node)
		if !ok {
			cfg.redacted = nil
			r.fail(CodeInvalid, f.line, f.key, "a literal key must stand on one line, plain or in quotes, without anchor, alias or tag",
				"write it so, or better put it into a variable: api_key: $"+APIKeyVar)
			return
		}
		for i := start; i < end; i++ {
			text[i] = 0 // never part of YAML
		}
	}
	text = replaceRuns(text, placeholder)
	out := bytes.Clone(r.src.Data[:r.src.frontAt])
	out = append(out, text...)
	rest := r.src.Data[r.src.frontAt+len(r.src.FrontMatter):]
	if len(key) >= shortestKey {
		r.elsewhere(key, literals)
		out = bytes.ReplaceAll(out, key, []byte(placeholder))
		rest = bytes.ReplaceAll(rest, key, []byte(placeholder))
	}
	cfg.redacted = append(out, rest...)
}

// replaceRuns puts text for every run of zero bytes.
func replaceRuns(data []byte, text string) []byte {
	var out []byte
	for i, b := range data {
		switch {
		case b != 0:
			out = append(out, b)
		case i == 0 || data[i-1] != 0:
			out = append(out, text...)
		}
	}
	return out
}

// elsewhere warns where the key stands in places that were never meant for it, the prompt for one.
func (r *reader) elsewhere(key []byte, literals []field) {
	lines := map[int]bool{}
	for _, f := range literals {
		lines[r.line(f.node)] = true
	}
	for at := 0; ; {
		i := bytes.Index(r.src.Data[at:], key)
		if i < 0 {
			return
		}
		if line := lineAt(r.src.Data, at+i); !lines[line] {
			lines[line] = true
			r.warn(line, "", "the tracker's key stands here too; runs see $"+LiteralKeyVar+" in its place")
		}
		at += i + len(key)
	}
}

// span finds the bytes of a scalar that stands on one line, without its quotes: they stay, for after them a comment may
// begin at once.
func span(text []byte, n *yaml.Node) (start, end int, ok bool) {
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return 0, 0, false
	}
	for line := 1; line < n.Line; line++ {
		i := bytes.IndexByte(text[start:], '\n')
		if i < 0 {
			return 0, 0, false
		}
		start += i + 1
	}
	// Columns count characters, not bytes.
	for column := 1; column < n.Column && start < len(text); column++ {
		_, size := utf8.DecodeRune(text[start:])
		start += size
	}
	rest, _ := cutLine(text[start:])
	written := string(rest)
	switch n.Style {
	case 0:
		end = start + len(n.Value)
		return start, end, strings.HasPrefix(written, n.Value)
	case yaml.SingleQuotedStyle:
		quoted := "'" + strings.ReplaceAll(n.Value, "'", "''") + "'"
		return start + 1, start + len(quoted) - 1, strings.HasPrefix(written, quoted)
	case yaml.DoubleQuotedStyle:
		quoted := `"` + n.Value + `"`
		// Escapes could write one key in many ways; keys need none.
		return start + 1, start + len(quoted) - 1, strings.HasPrefix(written, quoted)
	default:
		return 0, 0, false
	}
}
