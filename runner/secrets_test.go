package runner

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A message that was cut in the middle of a secret keeps nothing of it worth having.
func TestSecretCutOff(t *testing.T) {
	s := newSecrets([]string{testKey})
	for text, want := range map[string]string{
		"token " + testKey[:23] + "…":                         "token " + redacted + "…",
		"a… " + testKey[:12] + "… after 3s, " + testKey + "…": "a… " + redacted + "… after 3s, " + redacted + "…",
		"short " + testKey[:4] + "…":                          "short " + testKey[:4] + "…",
		"whole " + testKey + " and so on…":                    "whole " + redacted + " and so on…",
		"…":                                                   "…",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// The same for an agent's error: it stands in the run's row, its events and its log.
func TestSecretCutOffInAnError(t *testing.T) {
	r := newRig(t, "fail other "+strings.Repeat("x", 385)+testKey)
	run, err := r.work()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(run.ErrorText, "…") {
		t.Fatalf("not cut: %q", run.ErrorText)
	}
	if half := testKey[:tellingCut+2]; strings.Contains(run.ErrorText, half) || strings.Contains(r.log.String(), half) {
		t.Errorf("half of the key stands in %q", run.ErrorText)
	}
}

// Secrets that overlap, begin alike or hold one another leave nothing of each other standing.
func TestSecretsInEachOther(t *testing.T) {
	s := newSecrets([]string{"key", "key-long", "long-tail", ""})
	for text, want := range map[string]string{
		"a key-long key and keys": "a [redacted] [redacted] and [redacted]s",
		"key-long-tail.":          "[redacted].",
		"keykey":                  "[redacted][redacted]",
		"ke key":                  "ke [redacted]",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
	data := []byte("nothing")
	if got := s.scrub(data); &got[0] != &data[0] {
		t.Error("a text without a secret is copied")
	}
}

// base64 has a secret in three ways, by what stands before it.
func TestSecretInBase64(t *testing.T) {
	s := newSecrets([]string{testKey})
	for before := range 7 {
		for after := range 4 {
			login := strings.Repeat("u", before) + testKey + strings.Repeat("p", after)
			for name, coding := range map[string]*base64.Encoding{
				"std": base64.StdEncoding, "raw": base64.RawStdEncoding, "url": base64.URLEncoding, "raw url": base64.RawURLEncoding,
			} {
				coded := coding.EncodeToString([]byte(login))
				got := s.clean("Authorization: Basic " + coded + "\n")
				if !strings.Contains(got, redacted) || len(strings.ReplaceAll(got, redacted, "")) > len("Authorization: Basic \n")+(before+after)*4/3+8 {
					t.Errorf("%s of %s: %s", name, login, got)
				}
			}
		}
	}
	if got := s.clean(base64.StdEncoding.EncodeToString([]byte(testKey)) + " x"); got != redacted+" x" {
		t.Errorf("alone: %s", got)
	}
}

func TestBearerTokens(t *testing.T) {
	s := newSecrets(nil)
	for text, want := range map[string]string{
		"curl -H 'Authorization: Bearer abc.DEF-1_2~3+4/5=' https://x": "curl -H 'Authorization: Bearer [redacted]' https://x",
		"authorization: bearer   xyz\n":                                "authorization: bearer   [redacted]\n",
		`{"Authorization":"BEARER abcdef"}`:                            `{"Authorization":"BEARER [redacted]"}`,
		`"Bearer " + token`:                                            `"Bearer " + token`,
		"Bearer $TOKEN":                                                "Bearer $TOKEN",
		"the bearer of it":                                             "the bearer of it",
		"Bearer abcdefgh…":                                             "Bearer [redacted]…",
		"Bearer [redacted]":                                            "Bearer [redacted]",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := onlyValues([]string{testKey}).clean("Use Bearer tokens, not " + testKey); got != "Use Bearer tokens, not [redacted]" {
		t.Errorf("the agent reads %q", got)
	}
}

// The agent reads what its tool answers as it is, but for the tracker's key: an issue may be about tokens.
func TestToolAnswerIsLeftAlone(t *testing.T) {
	a := &attempt{
		Worker: &Worker{Tool: &Tool{
			ChangesIssue: func(json.RawMessage) bool { return false },
			Call: func(context.Context, json.RawMessage) ToolAnswer {
				return ToolAnswer{Text: "send Bearer tokens, ghp_0123456789 or " + testKey, Success: true}
			},
		}},
		agent: &agent{}, key: onlyValues([]string{testKey}), secrets: newSecrets([]string{testKey, "ghp_0123456789"}),
	}
	got := a.sessionOptions().CallTool(t.Context(), "linear_graphql", nil)
	if got.Text != "send Bearer tokens, ghp_0123456789 or [redacted]" || !got.Success {
		t.Errorf("%+v", got)
	}
}

// A stream that is read in pieces shows no token, and loses nothing else.
func TestBearerTokenInPieces(t *testing.T) {
	const text = "a Bearer abcdefgh.ijklm and bearer\n"
	for first := range len(text) {
		for second := first; second < len(text); second++ {
			var got []byte
			var held []byte
			s := newSecrets(nil)
			for _, piece := range []string{text[:first], text[first:second], text[second:]} {
				var clean []byte
				clean, held = s.scrubBegun(append(held, piece...))
				got = append(got, clean...)
			}
			if got = append(got, s.scrub(held)...); string(got) != "a Bearer [redacted] and bearer\n" {
				t.Fatalf("cut at %d and %d: %q", first, second, got)
			}
		}
	}
	// One that never ends is not waited for.
	_, held := newSecrets(nil).scrubBegun([]byte("Bearer " + strings.Repeat("a", 2*longestToken)))
	if len(held) > longestToken {
		t.Errorf("%d bytes are held", len(held))
	}
}

// Which variables of an environment hold secrets.
func TestEnvSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "id_ed25519")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := EnvSecrets([]string{
		"GH_TOKEN=ghp_12345678", "OPENAI_API_KEY=sk-12345678", "db_password=pass=word", "APP_SECRET=12345678",
		"SHORT_KEY=1234567", "KEY=not-so-named", "TOKENS=none-of-them", "PATH=/usr/bin:/bin", "EMPTY_KEY=", "NO_VALUE_KEY",
		"SSH_KEY=" + file, "GONE_KEY=" + file + ".gone",
	})
	want := []string{"ghp_12345678", "sk-12345678", "pass=word", "12345678", file + ".gone"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A private key is found line by line, too.
func TestSecretOfSeveralLines(t *testing.T) {
	const key = "-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nBG5vbmUAAAAEbm9uZQAAAAAA\n-----END KEY-----\n"
	s := newSecrets([]string{key})
	for text, want := range map[string]string{
		key:                                 redacted,
		"  b3BlbnNzaC1rZXktdjEAAAAA\r\nx":   "  [redacted]\r\nx",
		"-----BEGIN KEY-----\nanother one":  "-----BEGIN KEY-----\nanother one",
		`"` + `BG5vbmUAAAAEbm9uZQAAAAAA\n"`: `"[redacted]\n"`,
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// What the worker's environment holds is in nothing that the run writes, and the agent has it all the same.
func TestRunHidesTheEnvironmentsSecrets(t *testing.T) {
	const token = "ghp_0123456789abcdef"
	r := newRig(t, "sh echo $GH_TOKEN; echo $GH_TOKEN >&2; echo Bearer other-token\nsay done with "+token)
	r.Env = append(r.Env, "GH_TOKEN="+token)
	r.Config.Hooks.BeforeRun = "echo hook $GH_TOKEN; echo $GH_TOKEN | base64"
	run, err := r.work()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(run.LastMessage+read(t, filepath.Join(r.Dir, eventsFile)), redacted) {
		t.Error("nothing had to be hidden: the agent had no token")
	}
	files, err := os.ReadDir(r.Dir)
	must(t, err)
	for _, f := range files {
		text := read(t, filepath.Join(r.Dir, f.Name()))
		for _, bad := range []string{token, "other-token", base64.StdEncoding.EncodeToString([]byte(token))[:24]} {
			if strings.Contains(text, bad) {
				t.Errorf("%s stands in %s", bad, f.Name())
			}
		}
	}
	if hooks := read(t, filepath.Join(r.Dir, hooksFile)); strings.Count(hooks, redacted) != 2 {
		t.Errorf("hooks.log: %s", hooks)
	}
}

func BenchmarkScrub(b *testing.B) {
	s := newSecrets([]string{testKey, "ghp_0123456789abcdefghij", "sk-0123456789abcdefghijklmnopqrstuvwxyz"})
	for name, data := range map[string][]byte{
		"prose":  []byte(strings.Repeat("The quick brown fox, jumps over the lazy dog. ", 1000)),
		"json":   []byte(strings.Repeat(`{"method":"item/completed","params":{"threadId":"01a1f825-77aa","item":{"type":"x","n":12}}}`, 500)),
		"base64": []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x17\xa9\x03\xfe random \x88", 3000)))),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				s.scrub(data)
			}
		})
	}
}

// Values that are written otherwise than Go would: without the line's end that a file had, and by writers of JSON that
// escape the slash or whatever is not ASCII.
func TestSecretsAsOthersWriteThem(t *testing.T) {
	for secret, texts := range map[string][]string{
		"correct-horse\n":      {"the word is correct-horse, they say", `{"w":"correct-horse"}`},
		"AbCdEf/GhIjKl+0123/=": {`{"k":"AbCdEf\/GhIjKl+0123\/="}`, `"{\"k\":\"AbCdEf\\/GhIjKl+0123\\/=\"}"`},
		"pässwörter-für-alle":  {`{"k":"p\u00e4ssw\u00f6rter-f\u00fcr-alle"}`, `"{\"k\":\"p\\u00e4ssw\\u00f6rter-f\\u00fcr-alle\"}"`},
		"key-of-🗝️-and-lock":   {`{"k":"key-of-\ud83d\udddd\ufe0f-and-lock"}`},
	} {
		s := newSecrets([]string{secret})
		for _, text := range texts {
			if got := s.clean(text); !strings.Contains(got, redacted) || strings.Contains(got, "orse") || strings.Contains(got, "0123") || strings.Contains(got, "lock") || strings.Contains(got, "alle") {
				t.Errorf("%s became %s", text, got)
			}
		}
	}
}
