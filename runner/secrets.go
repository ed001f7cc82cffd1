package runner

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// secrets are values that are kept out of everything a run writes, each in every form it may be written in. Copies know
// the same, also what is learnt later. The zero value knows none, and learns none.
type secrets struct{ known *atomic.Pointer[patterns] }

// newSecrets knows the values in all their forms, and beside them whatever follows the word Bearer.
func newSecrets(values []string) secrets { return secretsIn(newPatterns(formsOfAll(values), true)) }

func secretsIn(p *patterns) secrets {
	s := secrets{new(atomic.Pointer[patterns])}
	s.known.Store(p)
	return s
}

// patterns are those known now, nil where there are none.
func (s secrets) patterns() *patterns {
	if s.known == nil {
		return nil
	}
	return s.known.Load()
}

// learn adds values to those known. Whoever looks for them meanwhile goes on with the old ones.
func (s secrets) learn(values []string) {
	for old := s.patterns(); old != nil && len(values) > 0; old = s.patterns() {
		if s.known.CompareAndSwap(old, newPatterns(slices.Concat(old.list, formsOfAll(values)), old.bearer)) {
			return
		}
	}
}

// secretsOf knows also the secrets that an environment holds.
func secretsOf(values, env []string) secrets {
	return newSecrets(slices.Concat(values, EnvSecrets(env)))
}

// onlyValues knows the values and nothing else: for what the agent gets to read, which is to be altered no more than it
// must be.
func onlyValues(values []string) secrets { return secretsIn(newPatterns(formsOfAll(values), false)) }

func formsOfAll(values []string) (forms [][]byte) {
	for _, v := range values {
		forms = append(forms, formsOf(v)...)
	}
	return forms
}

// shortestSecret is the length from which the value of a variable is looked for. A shorter one would be found in
// ordinary words.
const shortestSecret = 8

// EnvSecrets are the values of variables that are called *_KEY, *_TOKEN, *_SECRET or *_PASSWORD. The path of a file that
// exists is none, though what stands in the file may be: SSH_KEY=/home/x/.ssh/id.
func EnvSecrets(env []string) []string {
	var found []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if secretName(name) && len(value) >= shortestSecret && !isPath(value) {
			found = append(found, value)
		}
	}
	return found
}

func secretName(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD"}, func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}

func isPath(value string) bool {
	if !strings.HasPrefix(value, "/") {
		return false
	}
	_, err := os.Lstat(value)
	return err == nil
}

// scrub replaces secrets. What holds none is returned as it is.
func (s secrets) scrub(data []byte) []byte {
	return s.scrubCut(s.scrubWhole(data))
}

func (s secrets) scrubWhole(data []byte) []byte {
	p := s.patterns()
	if p == nil {
		return data
	}
	var out []byte
	done := 0
	for at := 0; ; {
		start, end := p.find(data, at)
		if start < 0 {
			break
		}
		if out == nil {
			out = make([]byte, 0, len(data))
		}
		out = append(append(out, data[done:start]...), redacted...)
		done, at = end, end
	}
	if out == nil {
		return data
	}
	return append(out, data[done:]...)
}

const (
	ellipsis = "…" // ends a text that was cut
	// tellingCut is how many bytes of a secret in front of it are too many. Shorter beginnings say nothing.
	tellingCut = 8
)

// longest is how many bytes the longest of them has.
func (s secrets) longest() int {
	p := s.patterns()
	if p == nil || len(p.list) == 0 {
		return 0
	}
	return len(p.list[0])
}

// openToken is that of the patterns.
func (s secrets) openToken(data []byte) int { return s.patterns().openToken(data) }

// scrubCut replaces what is left of secrets in the middle of which a text was cut.
func (s secrets) scrubCut(data []byte) []byte {
	for from := 0; ; {
		i := bytes.Index(data[from:], []byte(ellipsis))
		if i < 0 {
			return data
		}
		at := from + i
		if n := s.patterns().begun(data[:at]); n >= tellingCut {
			data = slices.Concat(data[:at-n], []byte(redacted), data[at:])
			at += len(redacted) - n
		}
		from = at + len(ellipsis)
	}
}

// clean is scrub for a text.
func (s secrets) clean(text string) string {
	data := []byte(text)
	if out := s.scrub(data); len(out) != len(data) || len(out) > 0 && &out[0] != &data[0] {
		return string(out)
	}
	return text
}

// longestHeld is how much of a stream is kept back in order to see what it goes on with.
const longestHeld = 64 << 10

// scrubBegun is scrub for a text that goes on: held is its end, as it came, where that may belong to a secret whose rest
// is still to come.
func (s secrets) scrubBegun(data []byte) (clean, held []byte) {
	p := s.patterns()
	cut := len(data) - max(p.begun(data), p.openToken(data))
	for at := 0; cut < len(data); {
		start, end := p.find(data, at)
		if start < 0 || start >= cut {
			break
		}
		if at = end; end > cut {
			cut = start // one that ends there may be the beginning of a longer one
			break
		}
	}
	if len(data)-cut > longestHeld {
		cut = len(data)
	}
	return s.scrub(data[:cut]), slices.Clone(data[cut:])
}

// Redactor passes on what a log writes, a record at a time, without the secrets it has been told: an error may
// repeat what a hook or a server said.
type Redactor struct {
	W       io.Writer
	secrets atomic.Pointer[secrets]
}

// Hide names secrets, beside those named before.
func (r *Redactor) Hide(values []string) {
	s := newSecrets(values)
	if !r.secrets.CompareAndSwap(nil, &s) {
		r.secrets.Load().learn(values)
	}
}

// Write implements io.Writer.
func (r *Redactor) Write(p []byte) (int, error) {
	clean := p
	if s := r.secrets.Load(); s != nil {
		clean = s.scrub(p)
	}
	if _, err := r.W.Write(clean); err != nil {
		return 0, err
	}
	return len(p), nil
}
