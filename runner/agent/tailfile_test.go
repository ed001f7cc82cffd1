package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestTailFileKeepsTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f := test.Must(OpenTailFile(path, 100, NewRedactor([]string{testKey})))
	for i := range 100 {
		test.Must(f.Write([]byte(strings.Repeat(string(rune('a'+i%26)), 9) + "\n")))
	}
	n, err := f.Write([]byte(strings.Repeat("z", 1000) + "\nend\n"))
	test.Equal(t, "bytes and error of a write longer than the log", []any{n, err}, []any{1005, nil})
	test.Equal(t, "tail", f.Tail(4), "end\n")
	test.OK(t, f.Close())
	if text := test.Read(t, path); len(text) > 200 || !strings.HasSuffix(text, "\nend\n") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	// Output of the next hook is appended.
	f = test.Must(OpenTailFile(path, 100, nil))
	test.Must(f.Write([]byte("more\n")))
	test.OK(t, f.Close())
	if text := test.Read(t, path); !strings.HasSuffix(text, "\nend\nmore\n") {
		t.Errorf("%q", text)
	}
}

func TestTailFileOnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full on this system")
	}
	f := test.Must(OpenTailFile("/dev/full", 100, nil))
	for range 3 {
		n, err := f.Write([]byte("line\n"))
		test.Equal(t, "bytes written, and error", []any{n, err}, []any{5, nil})
	}
	test.Equal(t, "the failure is reported", f.Err() != nil, true)
	_ = f.Close()
}

func TestLastWords(t *testing.T) {
	for stderr, want := range map[string]string{
		"": "", "\n \n": "",
		"a\x07\x1b]2;b": `a\x07\x1b]2;b`,
		"bash: line 1: codex: command not found\n":                            "bash: line 1: codex: command not found",
		"2026-11-20T08:00:00.1Z ERROR codex_core: no luck\n":                  "",
		"Error: no auth\n2026-11-20T08:00:00.1Z  WARN codex_core: bye\n":      "Error: no auth",
		"\x1b[31mError:\x1b[0m no auth\n2026-11-20T08:00:00Z INFO x\n\x1b[0m": "Error: no auth",
		"error: unexpected argument '--model' found\n\nUsage: codex app-server\n\n" +
			"For more information, try '--help'.\n": "error: unexpected argument '--model' found",
		"Error: no config\n\nCaused by:\n    0: config.toml\n    1: line 3: no key\n": "Error: no config: 1: line 3: no key",
		"a warning\nbash: codex: Permission denied\n":                                 "bash: codex: Permission denied",
	} {
		test.Equal(t, stderr, LastWords(stderr), want)
	}
}
