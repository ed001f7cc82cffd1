package workflow

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestReadEnvFile(t *testing.T) {
	text := `# a comment

PLAIN=value
export EXPORTED=one two # comment
HASH=a#b
ONLY_HASH=#b
EMPTY=
COMMENTED= # nothing
SINGLE='a "b" $C \n' # why
DOUBLE="a \"b\" \$C \\ \n 'd'"
EQUALS=a=b==
TILDE='~/x'
  INDENTED=x
exported=y
PLAIN=last` + "\r\nCR=z\r\n"
	path := write(t, filepath.Join(t.TempDir(), "p.env"), text, 0o600)
	got := test.Must(ReadEnvFile(path, os.Getuid()))
	want := map[string]string{
		"EXPORTED":  "one two",
		"HASH":      "a#b",
		"ONLY_HASH": "#b",
		"EMPTY":     "",
		"COMMENTED": "",
		"SINGLE":    `a "b" $C \n`,
		"DOUBLE":    `a "b" $C \ \n 'd'`,
		"EQUALS":    "a=b==",
		"TILDE":     "~/x",
		"INDENTED":  "x",
		"exported":  "y",
		"PLAIN":     "last",
		"CR":        "z",
	}
	test.Equal(t, "variables", got, want)
}

func TestReadEnvFileRefuses(t *testing.T) {
	dir := t.TempDir()
	for line, part := range map[string]string{
		"SECRET":                   "contains no =",
		"A B=SECRET":               "not the name of a variable",
		"1A=SECRET":                "not the name of a variable",
		"A =SECRET":                "not the name of a variable",
		`A="SECRET\"`:              "not closed",
		"A='x' SECRET":             "text follows",
		"A=SECRET\x00":             "zero byte",
		"export=SECRET\nexport  B": "contains no =",
	} {
		path := write(t, filepath.Join(dir, "p.env"), "OK=1\n"+line+"\n", 0o600)
		_, err := ReadEnvFile(path, os.Getuid())
		wantCode(t, err, CodeEnvironment, part)
		test.Lacks(t, "the error", err.Error(), "SECRET")
		number := 2 + strings.Count(line, "\n")
		test.Contains(t, "the error of "+line, err.Error(), path+":"+string(rune('0'+number))+":")
	}
}

func TestEnvFilePermissions(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0o644, 0o640, 0o602, 0o700, 0o200} {
		path := write(t, filepath.Join(dir, "p.env"), "A=1\n", mode)
		_, err := ReadEnvFile(path, os.Getuid())
		// An account that may not read the file gets the same code from an earlier check.
		wantCode(t, err, CodeEnvironment, path)
		test.OK(t, os.Remove(path))
	}
	read := write(t, filepath.Join(dir, "r.env"), "A=1\n", 0o400)
	test.Equal(t, "of mode 0400", test.Must(ReadEnvFile(read, os.Getuid()))["A"], "1")
	wantCode(t, test.Err(ReadEnvFile(read, os.Getuid()+1)), CodeEnvironment, "another account")
	fifo := filepath.Join(dir, "fifo")
	test.OK(t, syscall.Mkfifo(fifo, 0o600))
	wantCode(t, test.Err(ReadEnvFile(fifo, os.Getuid())), CodeEnvironment, "not a regular file")
	if vars, err := ReadEnvFile(filepath.Join(dir, "absent"), os.Getuid()); err != nil || vars == nil ||
		len(vars) != 0 {
		t.Errorf("absent: %v, %v", vars, err)
	}
	test.Equal(
		t,
		"variables without a directory",
		len(test.Must(ReadEnvFile(filepath.Join(dir, "absent", "absent"), os.Getuid()))),
		0,
	)
}

func TestEnvFilePath(t *testing.T) {
	for xdg, want := range map[string]string{
		"":         "/home/ann/.config/symphony/p-1.env",
		"relative": "/home/ann/.config/symphony/p-1.env",
		"/x":       "/x/symphony/p-1.env",
	} {
		test.Equal(t, "with XDG "+xdg, EnvFilePath(xdg, "/home/ann", "p-1"), want)
	}
}
