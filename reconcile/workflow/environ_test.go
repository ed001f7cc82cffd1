package workflow

import "testing"

func TestExpandPath(t *testing.T) {
	env := testEnv()
	vars := map[string]string{"BASE": "/srv/base", "TILDE": "~/t", "EMPTY": "", "REL": "r"}
	env.Lookup = func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	for text, want := range map[string]string{
		"/a/../b//c/": "/b/c", "ws": "/flow/ws", "./x/../y": "/flow/y", "..": "/",
		"~": "/home/ann", "~/": "/home/ann", "~/x": "/home/ann/x", "a~b": "/flow/a~b",
		"$BASE/x": "/srv/base/x", "${BASE}x": "/srv/basex", "a-$REL-b": "/flow/a-r-b", "$TILDE": "/home/ann/t",
		"a$": "/flow/a$", "$1": "/flow/$1", "$$BASE": "/flow/$/srv/base",
	} {
		if got, err := env.expandPath(text, "/flow"); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "~bob", "~bob/x", "$UNSET/x", "$EMPTY", "${", "${}", "${A B}", "${BASE", "a\x00b", "a\nb"} {
		if got, err := env.expandPath(text, "/flow"); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
	if got, err := (Environment{}).expandPath("~/x", "/flow"); err == nil {
		t.Errorf("no home: %q", got)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"max_turns", "max_tokens", "network"}
	for name, want := range map[string]string{
		"max_turn": "max_turns", "maxturns": "max_turns", "MAX_TURNS": "max_turns", "netwrok": "network", "zebra": "", "": "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
