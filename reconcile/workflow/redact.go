package workflow

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// redact makes the copy of the file that is kept with a run, with the placeholder for each literal key. It refuses a key
// whose place in the text is uncertain, so that no copy contains a key.
func (r *reader) redact(cfg *Config, literals []field) {
	key := []byte(cfg.Tracker.APIKey)
	text := bytes.Clone(r.src.FrontMatter)
	const placeholder = "$" + LiteralKeyVar
	for _, f := range literals {
		// Overwritten in equal length, so that the offsets of the other keys stay correct.
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

// replaceRuns replaces every run of zero bytes by text.
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

// elsewhere warns about the key in other places of the file, such as the prompt.
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

// span is the place of a scalar on one line, without its quotes. The quotes stay, because a comment may follow them directly.
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
		// A key with escapes is not found, and so refused.
		return start + 1, start + len(quoted) - 1, strings.HasPrefix(written, quoted)
	default:
		return 0, 0, false
	}
}
