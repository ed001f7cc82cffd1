package runner

import (
	"bytes"
	"encoding/json"
	"slices"
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
	return data
}

// clean is scrub for a text.
func (s secrets) clean(text string) string { return string(s.scrub([]byte(text))) }

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
