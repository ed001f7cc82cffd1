package workspace

import (
	"crypto/sha256"
	"fmt"
	"regexp"
)

const (
	maxKey     = 120 // bytes
	suffixSize = 17  // "-" and 16 hex digits
)

var (
	notInKey  = regexp.MustCompile(`[^A-Za-z0-9._-]`)
	hasSuffix = regexp.MustCompile(`-[0-9a-f]{16}$`)
)

// Key is the directory name of an issue (specification 4.2 and 9.5, design section 7): the identifier with
// every character outside [A-Za-z0-9._-] replaced by "_". Where that changed anything, or the identifier is
// empty, starts with a dot, exceeds 120 bytes or looks like a key with a suffix, "-" and 16 hex digits of its
// SHA-256 follow, with the rest cut so that a key never exceeds 120 bytes. Different identifiers never share a key.
func Key(identifier string) string {
	plain := notInKey.ReplaceAllString(identifier, "_")
	if plain == identifier && plain != "" && plain[0] != '.' && len(plain) <= maxKey && !hasSuffix.MatchString(plain) {
		return plain
	}
	sum := sha256.Sum256([]byte(identifier))
	return fmt.Sprintf("%s-%x", plain[:min(len(plain), maxKey-suffixSize)], sum[:8])
}
