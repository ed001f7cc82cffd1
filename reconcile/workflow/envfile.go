package workflow

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile"
)

// EnvFilePath is the environment file of a project (design 11): $XDG_CONFIG_HOME/symphony/<project>.env, where an
// empty or relative xdgConfigHome is ~/.config. project is the name of its state directory.
func EnvFilePath(xdgConfigHome, home, project string) string {
	if !filepath.IsAbs(xdgConfigHome) {
		xdgConfigHome = filepath.Join(home, ".config")
	}
	return filepath.Join(xdgConfigHome, "symphony", project+".env")
}

// ReadEnvFile reads an environment file: lines of NAME=VALUE, blank lines, and comments after #. A line may begin with
// `export `. Values may be quoted as in a shell: nothing is special in single quotes, a backslash escapes \ " $ ` in double
// quotes. Nothing is expanded. A file that does not exist counts as empty.
//
// A file that does not belong to uid, or whose mode is not 0600 or 0400, is env_file_permissions; any other line is
// env_file_invalid. No error contains a value.
func ReadEnvFile(path string, uid int) (map[string]string, error) {
	// Without O_NONBLOCK a FIFO of that name would keep the pass waiting for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return map[string]string{}, nil
	case err != nil:
		return nil, envFileError(CodeEnvFilePermissions, path, reason(err), err)
	}
	defer file.Close()
	if err := private(file, path, uid); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, envFileError(CodeEnvFileInvalid, path, reason(err), err)
	case len(data) > maxFile:
		return nil, envFileError(CodeEnvFileInvalid, path, fmt.Sprintf("longer than %d bytes", maxFile), nil)
	}
	return parseEnvFile(path, strings.TrimPrefix(string(data), "\ufeff"))
}

func envFileError(code, where, what string, err error) *reconcile.Error {
	hint := "the file must be yours, with mode 0600"
	if code == CodeEnvFileInvalid {
		hint = "write lines of NAME=VALUE, values with blanks or # in quotes"
	}
	return &reconcile.Error{Code: code, Message: where + ": " + what, Hint: hint, Err: err}
}

// private checks the open file, because the path could name another one by now.
func private(file *os.File, path string, uid int) error {
	info, err := file.Stat()
	if err != nil {
		return envFileError(CodeEnvFilePermissions, path, reason(err), err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode()
	what := ""
	switch {
	case !mode.IsRegular():
		what = "not a regular file"
	case !ok || int64(stat.Uid) != int64(uid):
		what = "belongs to another account"
	case mode.Perm() != 0o600 && mode.Perm() != 0o400:
		what = fmt.Sprintf("its mode is %04o, which others may use", mode.Perm())
		if mode.Perm()&0o077 == 0 {
			what = fmt.Sprintf("its mode is %04o", mode.Perm())
		}
	default:
		return nil
	}
	fault := envFileError(CodeEnvFilePermissions, path, what, nil)
	if mode.IsRegular() && ok && int64(stat.Uid) == int64(uid) {
		fault.Hint = "chmod 600 " + path
	}
	return fault
}

func parseEnvFile(path, text string) (map[string]string, error) {
	vars := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "export"); ok && rest != strings.TrimLeft(rest, " \t") {
			line = strings.TrimLeft(rest, " \t")
		}
		name, value, ok := strings.Cut(line, "=")
		what := ""
		switch {
		case !ok:
			what = "no = in the line"
		case !variableName(name):
			what = "what stands before = is not the name of a variable"
		default:
			value, what = envValue(value)
		}
		if what != "" {
			return nil, envFileError(CodeEnvFileInvalid, fmt.Sprintf("%s:%d", path, i+1), what, nil)
		}
		vars[name] = value
	}
	return vars, nil
}

// envValue parses the part after =. The second result says what is wrong with it.
func envValue(text string) (value, wrong string) {
	if strings.ContainsRune(text, 0) {
		return "", "the value holds a zero byte"
	}
	// A # opens a comment after a blank only, as in a shell.
	trimmed := strings.TrimLeft(text, " \t")
	if trimmed == "" || trimmed[0] == '#' && trimmed != text {
		return "", ""
	}
	text = trimmed
	var rest string
	switch text[0] {
	case '\'':
		var closed bool
		if value, rest, closed = strings.Cut(text[1:], "'"); !closed {
			return "", "the quote is not closed on its line"
		}
	case '"':
		var closed bool
		if value, rest, closed = doubleQuoted(text[1:]); !closed {
			return "", "the quote is not closed on its line"
		}
	default:
		for i := 1; i < len(text); i++ {
			if text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
				text = text[:i]
				break
			}
		}
		return strings.TrimRight(text, " \t"), ""
	}
	if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
		return "", "something follows the closing quote"
	}
	return value, ""
}

// doubleQuoted reads up to the closing quote.
func doubleQuoted(text string) (value, rest string, closed bool) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return out.String(), text[i+1:], true
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\\\"$`", text[i+1]) >= 0:
			i++
		}
		out.WriteByte(text[i])
	}
	return "", "", false
}
