package workspace

import (
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/symphony-cron/symphony/runner/host/local/files"
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
// SHA-256 follow, with the rest cut so that a key never exceeds 120 bytes. Different identifiers never share
// a key; those that differ only in case are told apart by Root.KeyFor.
func Key(identifier string) string {
	plain := notInKey.ReplaceAllString(identifier, "_")
	if plain == "" || plain != identifier || plain[0] == '.' || len(plain) > maxKey || hasSuffix.MatchString(plain) {
		return hashedKey(identifier)
	}
	return plain
}

// hashedKey is the key of an identifier that can't stand for itself.
func hashedKey(identifier string) string {
	plain := notInKey.ReplaceAllString(identifier, "_")
	sum := sha256.Sum256([]byte(identifier))
	return fmt.Sprintf("%s-%x", plain[:min(len(plain), maxKey-suffixSize)], sum[:8])
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
		if err != nil || ok && rec.Identifier == identifier {
			return key, err
		}
	}
	entries, err := os.ReadDir(r.meta())
	if err != nil {
		return "", files.Failed(err, "read the records of %s", r.Path)
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), plain+".json") {
			return long, nil // another issue's: it was not found under this identifier
		}
	}
	return plain, nil
}
