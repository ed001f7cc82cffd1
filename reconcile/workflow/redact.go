package workflow

import (
	"bytes"
	"strings"

	"gopkg.in/yaml.v3"
)

// redact makes the copy of the file that is kept with a run: the placeholder stands wherever the literal key does. The copy
// is read again, so that a key which the file has in another form, such as with escapes, is refused and not kept.
func (r *reader) redact(cfg *Config) {
	cfg.redacted = nil
	const placeholder = "$" + LiteralKeyVar
	hint := "put it into a variable, and write api_key: $" + APIKeyVar
	key := []byte(cfg.Tracker.APIKey)
	literals := r.literalFields()
	if len(key) < shortestKey {
		r.fail(CodeInvalid, literals[0].line, literals[0].key, "too short for a key", hint)
		return
	}
	data := bytes.ReplaceAll(r.src.Data, key, []byte(placeholder))
	again := &reader{env: r.env, keys: r.keys, parents: r.parents, fields: map[string]field{}, lines: map[string]int{}}
	again.src, _ = NewSource(r.src.Name, r.src.Path, data)
	again.load()
	own := map[int]bool{}
	for _, f := range literals {
		own[r.line(f.node)] = true
		if f.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 { // its text begins on the next line
			own[r.line(f.node)+1] = true
		}
		if kept := again.fields[f.key].node; kept == nil || strings.TrimSpace(kept.Value) != placeholder {
			r.fail(CodeInvalid, f.line, f.key, "a literal key must stand on one line, without escapes", hint)
			return
		}
	}
	for i, line := range bytes.Split(r.src.Data, []byte("\n")) {
		if bytes.Contains(line, key) && !own[i+1] {
			r.warn(i+1, "", "the tracker's key stands here too; runs see $"+LiteralKeyVar+" in its place")
		}
	}
	cfg.redacted = data
}
