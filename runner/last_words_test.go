package runner

import "testing"

func TestLastWordsOfAnAgent(t *testing.T) {
	const log = "\x1b[2m2026-11-20T06:36:51.994338Z\x1b[0m \x1b[31mERROR\x1b[0m codex_app_server: no bubblewrap on PATH\n"
	for text, want := range map[string]string{
		"":  "",
		log: "",
		"2026-11-20T06:36:51Z  WARN codex: slow\n\n": "",
		"Error: CODEX_HOME is no folder\n" + log:     "Error: CODEX_HOME is no folder",
		log + "\x1b[1mthread panicked\x1b[0m  \n":    "thread panicked",
		"first\nsecond": "second",
	} {
		if got := lastWords(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
