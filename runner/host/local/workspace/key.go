package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	maxKey     = 120 // bytes
	suffixSize = 17  // "-" and 16 hex digits
)

// Key is the directory name of an issue (specification 4.2 and 9.5, design section 7): the identifier with
// every character outside [A-Za-z0-9._-] replaced by "_". Where that changed anything, or the identifier is
// empty, starts with a dot, exceeds 120 bytes or looks like a key with a suffix, "-" and 16 hex digits of its
// SHA-256 follow, with the rest cut so that a key never exceeds 120 bytes. Different identifiers never share
// a key; those that differ only in case are told apart by Root.KeyFor.
func Key(identifier string) string {
	plain := sanitize(identifier)
	if plain == "" || plain != identifier || plain[0] == '.' || len(plain) > maxKey || hashed(plain) {
		return hashedKey(identifier)
	}
	return plain
}

// hashedKey is the key of an identifier that can't stand for itself.
func hashedKey(identifier string) string {
	plain := sanitize(identifier)
	plain = plain[:min(len(plain), maxKey-suffixSize)]
	sum := sha256.Sum256([]byte(identifier))
	return plain + "-" + hex.EncodeToString(sum[:8])
}

func sanitize(identifier string) string {
	return strings.Map(func(c rune) rune {
		if keyChar(c) {
			return c
		}
		return '_'
	}, identifier)
}

func keyChar(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '.' || c == '_' || c == '-'
}

// hashed reports whether a name ends as hashedKey ends.
func hashed(name string) bool {
	if len(name) < suffixSize {
		return false
	}
	end := name[len(name)-suffixSize:]
	return end[0] == '-' && strings.Trim(end[1:], "0123456789abcdef") == ""
}

// KeyFor is Key, but for an identifier that differs only in case from one that has a workspace here already:
// that gets the suffix, because the two would share a directory where the file system ignores case. An
// identifier that has a record keeps the key of that record.
func (r *Root) KeyFor(identifier string) (string, error) {
	plain, long := Key(identifier), hashedKey(identifier)
	if plain == long {
		return plain, nil
	}
	for _, key := range []string{plain, long} {
		rec, ok, err := r.readRecord(key)
		if err != nil {
			return "", err
		}
		if ok && rec.Identifier == identifier {
			return key, nil
		}
	}
	entries, err := os.ReadDir(r.meta())
	if err != nil {
		return "", files.Failed(err, "read the records of %s", r.Path)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && strings.EqualFold(name, plain) {
			return long, nil // another issue's: it was not found under this identifier
		}
	}
	return plain, nil
}
