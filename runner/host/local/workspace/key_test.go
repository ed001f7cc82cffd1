package workspace

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKey(t *testing.T) {
	long := strings.Repeat("a", 120)
	for _, c := range []struct{ identifier, want string }{
		{"ABC-123", "ABC-123"},
		{"a.b_c-D", "a.b_c-D"},
		{long, long},
		{"ABC 1", "ABC_1-"},
		{"ABC/1", "ABC_1-"},
		{"../../etc", ".._.._etc-"},
		{"/etc/passwd", "_etc_passwd-"},
		{".", ".-"},
		{"..", "..-"},
		{".git", ".git-"},
		{".symphony", ".symphony-"},
		{"", "-"},
		{"ÄBC-1", "_BC-1-"},
		{"日本", "__-"},
		{"a\x00b\n", "a_b_-"},
		{"\xff\xfe", "__-"},
		{long + "a", long[:103] + "-"},
		{strings.Repeat("é", 119), strings.Repeat("_", 103) + "-"},
		{"ABC-1-0123456789abcdef", "ABC-1-0123456789abcdef-"},
	} {
		got := Key(c.identifier)
		if hash, ok := strings.CutPrefix(got, c.want); !ok ||
			strings.HasSuffix(c.want, "-") != (len(hash) == 16) || got != c.want && len(hash) != 16 {
			t.Errorf("Key(%q) = %q, want %q", c.identifier, got, c.want)
		}
	}
	// The suffix is part of the format: keys must be found again by later versions.
	if got := Key("ABC/1"); got != "ABC_1-40196a1712fb54ce" {
		t.Error(got)
	}
}

func TestKeysAreContainedAndDistinct(t *testing.T) {
	// Few characters and short names, so that two identifiers often sanitize alike.
	text := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom([]rune("aA-_/. é")), 0, 4, -1), rapid.String(),
		rapid.StringMatching(`[a-z./]{0,130}(-[0-9a-f]{16})?`))
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		switch rapid.IntRange(0, 3).Draw(t, "relation") {
		case 0:
			b = Key(a) // an issue that is named like the directory of another
		case 1:
			b = notInKey.ReplaceAllString(a, "_")
		}
		for _, identifier := range []string{a, b} {
			key := Key(identifier)
			if len(key) == 0 || len(key) > 120 || notInKey.MatchString(key) || key == "." || key == ".." || key == metaDir {
				t.Fatalf("Key(%q) = %q: outside the alphabet or too long", identifier, key)
			}
		}
		if a != b && Key(a) == Key(b) {
			t.Fatalf("%q and %q share the key %q", a, b, Key(a))
		}
	})
}
