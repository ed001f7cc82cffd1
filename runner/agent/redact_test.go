package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

const testKey = "lin_api_secret_0123456789abcdef"

func TestRedactorText(t *testing.T) {
	r := NewRedactor([]string{testKey, "key", "key-long", "long-tail", "", "ab"})
	for text, want := range map[string]string{
		"nothing about ab":            "nothing about ab",
		"a key-long key and keys":     "a [redacted] [redacted] and [redacted]s",
		"keykey":                      "[redacted][redacted]",
		"ke key":                      "ke [redacted]",
		"token " + testKey[:23] + "…": "token [redacted]…",
		"a… " + testKey[:12] + "… after 3s, " + testKey + "…": "a… [redacted]… after 3s, [redacted]…",
		"short " + testKey[:4] + "…":                          "short " + testKey[:4] + "…",
		"…":                                                   "…",
		"-H 'Authorization: Bearer abc.DEF-1_2~3+4/5=' x":     "-H 'Authorization: Bearer [redacted]' x",
		"authorization: bearer   xyz\n":                       "authorization: bearer   [redacted]\n",
		`{"Authorization":"BEARER abcdef"}`:                   `{"Authorization":"BEARER [redacted]"}`,
		`"Bearer " + token`:                                   `"Bearer " + token`,
		"Bearer $TOKEN":                                       "Bearer $TOKEN",
		"the bearer of it":                                    "the bearer of it",
		"Bearer abcdefgh…":                                    "Bearer [redacted]…",
		"Bearer [redacted]":                                   "Bearer [redacted]",
		"Authorization: Basic a2ltOnNlY3JldA== x":             "Authorization: Basic [redacted]== x",
		"basic authentication, Basic a2ltOnNlY3JldHM":         "basic authentication, Basic [redacted]",
		"psql://kim:pass@h/d ssh://git@h:22/r":                "psql://[redacted]@h/d ssh://git@h:22/r",
		"https://glpat@h/r https://kim:pa@ss@h http://h/@kim": "https://[redacted]@h/r " +
			"https://[redacted]@h http://h/@kim",
		`"https://h/?a=1&Access_Token=x.y&b=2"`:               `"https://h/?a=1&Access_Token=[redacted]&b=2"`,
		"ghp_0123456789 glpat-0123-56789 lin_api_0123456789":  "[redacted] [redacted] [redacted]",
		"BASIC a2ltOnNlY3JldHMx, Basic a2ltOnNlY3Jld…":        "BASIC [redacted], Basic [redacted]…",
		"docker://alpine:3.20@sha256:0123 a&&token==b":        "docker://alpine:3.20@sha256:0123 a&&token==b",
		"highs_and_lows task-a_word_of_many_letters_in_a_row": "highs_and_lows task-a_word_of_many_letters_in_a_row",
		"sk-proj-a_b-0123456789abcdefghij-x in task-list.md":  "[redacted] in task-list.md",
		"a task-of-very-many-words-in-a-row and gh_pages":     "a task-of-very-many-words-in-a-row and gh_pages",
	} {
		test.Equal(t, text, r.Text(text), want)
	}
	test.Equal(
		t,
		"what an agent reads",
		NewExactRedactor([]string{testKey}).Text("Use Bearer tokens, not "+testKey),
		"Use Bearer tokens, not [redacted]",
	)
	r.Add([]string{"another"})
	test.Equal(t, "text after Add", r.Text("another "+testKey), "[redacted] [redacted]")
	test.Equal(
		t,
		"text of a nil Redactor",
		(*Redactor)(nil).Text(testKey+" Bearer abc"),
		testKey+" Bearer abc",
	)
}

// Each line of a private key is a secret, and so is a value without its trailing line break.
func TestRedactorLines(t *testing.T) {
	const key = "-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nBG5vbmUAAAAEbm9uZQAAAAAA\n-----END KEY-----\n"
	r := NewRedactor([]string{key, "correct-horse\n"})
	for text, want := range map[string]string{
		key:                                 Redacted,
		"  b3BlbnNzaC1rZXktdjEAAAAA\r\nx":   "  [redacted]\r\nx",
		"-----BEGIN KEY-----\nanother one":  "-----BEGIN KEY-----\nanother one",
		`"` + `BG5vbmUAAAAEbm9uZQAAAAAA\n"`: `"[redacted]\n"`,
		`{"w":"correct-horse"}`:             `{"w":"[redacted]"}`,
	} {
		test.Equal(t, text, r.Text(text), want)
	}
}

// Some JSON encoders escape slashes, or everything that is not ASCII.
func TestRedactorJSON(t *testing.T) {
	for secret, texts := range map[string][]string{
		"AbCdEf/GhIjKl+0123/=": {`{"k":"AbCdEf\/GhIjKl+0123\/="}`, `"{\"k\":\"AbCdEf\\/GhIjKl+0123\\/=\"}"`},
		"pässwörter-für-alle": {
			`{"k":"p\u00e4ssw\u00f6rter-f\u00fcr-alle"}`, `"{\"k\":\"p\\u00e4ssw\\u00f6rter-f\\u00fcr-alle\"}"`,
		},
		"key-of-🗝️-and-lock": {`{"k":"key-of-\ud83d\udddd\ufe0f-and-lock"}`},
	} {
		for _, text := range texts {
			got := NewRedactor([]string{secret}).Text(text)
			test.Contains(t, text, got, Redacted)
			test.Lacks(t, text, got, "0123", "lock", "alle")
		}
	}
}

func TestEnvSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "id_ed25519")
	test.OK(t, os.WriteFile(file, []byte("x"), 0o600))
	got := EnvSecrets([]string{
		"GH_TOKEN=ghp_12345678", "OPENAI_API_KEY=sk-12345678", "db_password=pass=word", "APP_SECRET=12345678",
		"SHORT_KEY=1234567", "KEY=not-so-named", "TOKENS=none-of-them", "PATH=/usr/bin:/bin", "EMPTY_KEY=",
		"NO_VALUE_KEY",
		"SSH_KEY=" + file, "GONE_KEY=" + file + ".gone",
	})
	test.Equal(
		t,
		"secrets",
		got,
		[]string{"ghp_12345678", "sk-12345678", "pass=word", "12345678", file + ".gone"},
	)
}

// An endless line is not held back forever, but the beginning of a secret at its end is. A
// secret that is complete at the end of a piece is not divided, even if its last letter may be
// the first letter of another.
func TestRedactorSplit(t *testing.T) {
	r := NewRedactor([]string{testKey})
	long := strings.Repeat("x ", maxHeld)
	for _, end := range []string{testKey[:9], "Bearer", "Bearer abc", "bearer  "} {
		if clean, held := r.Split([]byte(long + end)); len(held) > maxHeld/2 ||
			string(clean)+string(held) != long+end {
			t.Errorf("%q: %d bytes are held back", end, len(held))
		} else if strings.HasSuffix(string(clean), strings.TrimSpace(end)) {
			t.Errorf("%q is not held back", end)
		}
	}
	r.Add([]string{testKey[len(testKey)-1:] + "and-more"})
	if clean, held := r.Split([]byte(strings.Repeat("-", 2*maxHeld) + testKey)); strings.Contains(
		string(clean),
		testKey[:9],
	) {
		t.Errorf("a complete secret became %q and %q", clean[2*maxHeld:], held)
	}
	if _, held := r.Split([]byte(strings.Repeat("a", 2*maxHeld))); len(held) > len(testKey) {
		t.Errorf("%d bytes of one word are held back", len(held))
	}
}
