package runner

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"sync/atomic"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// secrets are values that are kept out of everything a run writes, each in every form it may be written in.
type secrets [][]byte

// newSecrets knows a value as it is and as JSON writes it.
func newSecrets(values []string) secrets {
	var s secrets
	for _, v := range values {
		if v == "" {
			continue
		}
		s = append(s, []byte(v))
		// A string always encodes.
		if quoted, err := json.Marshal(v); err == nil {
			s = append(s, quoted[1:len(quoted)-1])
		}
	}
	// The longest first: of two that begin alike the shorter one must not leave the other's end standing.
	slices.SortStableFunc(s, func(a, b []byte) int { return len(b) - len(a) })
	return slices.CompactFunc(s, bytes.Equal)
}

// scrub replaces secrets. What holds none is returned as it is.
func (s secrets) scrub(data []byte) []byte {
	for _, secret := range s {
		if bytes.Contains(data, secret) {
			data = bytes.ReplaceAll(data, secret, []byte(redacted))
		}
	}
	return s.scrubCut(data)
}

const (
	ellipsis = "…" // ends a text that was cut
	// tellingCut is how many bytes of a secret in front of it are too many. Shorter beginnings say nothing.
	tellingCut = 8
)

// scrubCut replaces what is left of secrets in the middle of which a text was cut.
func (s secrets) scrubCut(data []byte) []byte {
	for from := 0; ; {
		i := bytes.Index(data[from:], []byte(ellipsis))
		if i < 0 {
			return data
		}
		at := from + i
		if n := s.begun(data[:at]); n >= tellingCut {
			data = slices.Concat(data[:at-n], []byte(redacted), data[at:])
			at += len(redacted) - n
		}
		from = at + len(ellipsis)
	}
}

// clean is scrub for a text.
func (s secrets) clean(text string) string { return string(s.scrub([]byte(text))) }

// Redactor passes on what a log writes, a record at a time, without the secrets it has been told: an error may
// repeat what a hook or a server said.
type Redactor struct {
	W       io.Writer
	secrets atomic.Pointer[secrets]
}

// Hide names the secrets.
func (r *Redactor) Hide(values []string) {
	s := newSecrets(values)
	r.secrets.Store(&s)
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

// begun is how many of the last bytes may be the beginning of a secret whose rest is still to come.
func (s secrets) begun(data []byte) int {
	longest := 0
	for _, secret := range s {
		for n := min(len(secret)-1, len(data)); n > longest; n-- {
			if bytes.HasSuffix(data, secret[:n]) {
				longest = n
			}
		}
	}
	return longest
}
