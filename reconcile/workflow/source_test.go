package workflow

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	test.OK(t, os.WriteFile(path, []byte(text), mode))
	// The umask may have removed some bits.
	test.OK(t, os.Chmod(path, mode))
	return path
}

func wantCode(t *testing.T, err error, code, part string) {
	t.Helper()
	faults := Faults(err)
	if len(faults) == 0 || faults[0].Code != code || !strings.Contains(err.Error(), part) {
		t.Fatalf("got %v, want %s with %q", err, code, part)
	}
}

func TestReadResolvesSymlinks(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	real := filepath.Join(dir, "real")
	test.OK(t, os.Mkdir(real, 0o700))
	file := write(
		t,
		filepath.Join(real, "flow.md"),
		"---\ntracker: {kind: linear, project_slug: b}\nworkspace: {root: ws}\n---\nGo.\n",
		0o600,
	)
	link := filepath.Join(dir, "WORKFLOW.md")
	test.OK(t, os.Symlink(filepath.Join("real", "flow.md"), link))
	src := test.Must(Read(link))
	test.Equal(t, "path and name", []any{src.Path, src.Name}, []any{file, link})
	cfg := test.Must(Parse(src, testEnv()))
	// A relative path is relative to the file, not to the working directory.
	test.Equal(t, "root", cfg.Workspace.Root, filepath.Join(real, "ws"))
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	test.OK(t, syscall.Mkfifo(fifo, 0o600))
	loop := filepath.Join(dir, "loop")
	test.OK(t, os.Symlink(loop, loop))
	for path, part := range map[string]string{
		filepath.Join(dir, "absent.md"): "there is no workflow file",
		dir:                             "not a regular file",
		fifo:                            "not a regular file",
		loop:                            "too many links",
	} {
		_, err := Read(path)
		wantCode(t, err, CodeMissingFile, part)
		test.Contains(t, "the error", err.Error(), path)
		if missing := part == "there is no workflow file"; strings.Contains(
			Faults(err)[0].Hint,
			"symphony init",
		) != missing {
			t.Errorf("%s: the hint is %q", path, Faults(err)[0].Hint)
		}
	}
	long := write(t, filepath.Join(dir, "long.md"), strings.Repeat("x", maxFile+1), 0o600)
	wantCode(t, test.Err(Read(long)), CodeParse, "longer than")
}

// Errors in the prompt name the line of the file, whatever precedes the prompt.
func TestLines(t *testing.T) {
	front := "---\ntracker:\n  kind: linear\n  project_slug: b\n---\n"
	for name, tt := range map[string]struct {
		text, body string
		line       string
	}{
		"plain":       {front + "{{ x | }}", "{{ x | }}", "WORKFLOW.md:6:"},
		"blank lines": {front + "\n \n\n{{ x | }}\n\n", "{{ x | }}", "WORKFLOW.md:9:"},
		"BOM":         {"\ufeff" + front + "{{ x | }}", "{{ x | }}", "WORKFLOW.md:6:"},
		"CRLF":        {strings.ReplaceAll(front+"a\n{{ x | }}\n", "\n", "\r\n"), "a\n{{ x | }}", "WORKFLOW.md:7:"},
		"blanks at fence": {
			"--- \ntracker: {kind: linear, project_slug: b}\n---\t\n{{ x | }}",
			"{{ x | }}",
			"WORKFLOW.md:4:",
		},
		"no last newline": {front + "a\n\nb {{ x | }}", "a\n\nb {{ x | }}", "WORKFLOW.md:8:"},
	} {
		t.Run(name, func(t *testing.T) {
			src := source(t, tt.text)
			test.Equal(t, "body", src.Body, tt.body)
			_, err := Parse(src, testEnv())
			wantCode(t, err, CodeTemplateParse, tt.line)
			test.Equal(t, err.Error(), len(Faults(err)), 1)
		})
	}
}

func TestCRLFAndBOMInFrontMatter(t *testing.T) {
	text := "\ufeff---\r\ntracker:\r\n  kind: linear\r\n  project_slug: b\r\nhooks:\r\n  before_run: " +
		"|\r\n    one\r\n    two\r\nagent:\r\n  max_turns: x\r\n---\r\nGo.\r\n"
	wantCode(t, test.Err(Parse(source(t, text), testEnv())), CodeInvalid, "WORKFLOW.md:10: agent.max_turns")
	cfg, err := Parse(source(t, strings.Replace(text, "max_turns: x", "max_turns: 7", 1)), testEnv())
	test.Equal(
		t,
		"error, hook and turns",
		[]any{err, cfg.Hooks.BeforeRun, cfg.Agent.MaxTurns},
		[]any{nil, "one\ntwo\n", 7},
	)
}

func TestNotUTF8(t *testing.T) {
	_, err := NewSource("WORKFLOW.md", "/x/WORKFLOW.md", []byte("---\na: b\n---\nGo \xff.\n"))
	wantCode(t, err, CodeParse, "WORKFLOW.md:4: the file is not UTF-8")
}
