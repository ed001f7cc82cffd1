package workflow

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile"
)

// The environment variables with a meaning of their own.
const (
	// APIKeyVar is the canonical variable of Linear's key (specification 5.3.1).
	APIKeyVar = "LINEAR_API_KEY"
	// AssigneeVar is used where the variable that tracker.assignee names is not set, or the key is absent.
	AssigneeVar = "LINEAR_ASSIGNEE"
	// LiteralKeyVar stands for a literal api_key in a redacted workflow.
	LiteralKeyVar = "SYMPHONY_LITERAL_API_KEY"
)

// Environment is everything that the meaning of a workflow depends on besides its text (specification 6.1).
type Environment struct {
	// Lookup finds a variable, as os.LookupEnv does. Nil: there are none.
	Lookup func(name string) (string, bool)
	Home   string // the account's home directory
	Temp   string // the system's directory for temporary files
	// KeyOptional: a missing tracker key is no error, for commands that use no tracker.
	KeyOptional bool
	// EnvFile is the path of the environment file, for hints. It is not read here.
	EnvFile string
}

func (e Environment) lookup(name string) (value string, set bool) {
	if e.Lookup != nil {
		value, set = e.Lookup(name)
	}
	return value, set
}

// reference is the name in a text that consists of $NAME or ${NAME} alone.
func reference(text string) (name string, ok bool) {
	name, ok = strings.CutPrefix(text, "$")
	if !ok {
		return "", false
	}
	if inner, braced := strings.CutPrefix(name, "{"); braced {
		if name, ok = strings.CutSuffix(inner, "}"); !ok {
			return "", false
		}
	}
	return name, variableName(name)
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variableName reports whether name is one that a shell could export.
func variableName(name string) bool { return namePattern.MatchString(name) }

// expandPath turns a path of the file into an absolute one: $NAME and ${NAME}, then a leading ~, then dir where
// it is relative (specification 5.3.3 and 6.1). Only paths are expanded, never commands or URLs.
func (e Environment) expandPath(text, dir string) (string, error) {
	path, err := e.expandVars(text)
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("control characters in a path")
	}
	switch rest, tilde := strings.CutPrefix(path, "~"); {
	case strings.TrimSpace(path) == "":
		return "", errors.New("the path is empty")
	case !tilde:
	case rest != "" && rest[0] != '/':
		return "", errors.New("only ~ and ~/ are expanded, not ~user")
	case e.Home == "":
		return "", errors.New("there is no home directory to put for ~")
	default:
		path = e.Home + rest
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path), nil
}

var variablePattern = regexp.MustCompile(`\$\{[^}]*\}?|\$[A-Za-z_][A-Za-z0-9_]*`)

func (e Environment) expandVars(text string) (string, error) {
	var err error
	expanded := variablePattern.ReplaceAllStringFunc(text, func(written string) string {
		name, ok := reference(written)
		value, _ := e.lookup(name)
		switch {
		case !ok:
			err = errors.New("${ is not followed by a variable's name and }")
		case value == "":
			err = fmt.Errorf("the environment variable %s is not set", name)
		}
		return value
	})
	return expanded, err
}

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
	const yours = "the file must be yours, with mode 0600"
	wrong := func(code, where, what, hint string) (map[string]string, error) {
		return nil, &reconcile.Error{Code: code, Message: where + ": " + what, Hint: hint}
	}
	data, info, err := readRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return map[string]string{}, nil
	case err != nil:
		return wrong(CodeEnvFilePermissions, path, reason(err), yours)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int64(stat.Uid) != int64(uid) {
		return wrong(CodeEnvFilePermissions, path, "belongs to another account", yours)
	}
	if mode := info.Mode().Perm(); mode != 0o600 && mode != 0o400 {
		what := fmt.Sprintf("its mode is %04o", mode)
		if mode&0o077 != 0 {
			what += ", which others may use"
		}
		return wrong(CodeEnvFilePermissions, path, what, "chmod 600 "+path)
	}
	const hint = "write lines of NAME=VALUE, values with blanks or # in quotes"
	if len(data) > maxFile {
		return wrong(CodeEnvFileInvalid, path, fmt.Sprintf("longer than %d bytes", maxFile), hint)
	}
	vars := map[string]string{}
	for i, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line = exportWord.ReplaceAllString(strings.TrimSpace(line), "")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		what := ""
		switch {
		case !ok:
			what = "no = in the line"
		case !variableName(name):
			what = "what stands before = is not the name of a variable"
		default:
			vars[name], what = envValue(value)
		}
		if what != "" {
			return wrong(CodeEnvFileInvalid, fmt.Sprintf("%s:%d", path, i+1), what, hint)
		}
	}
	return vars, nil
}

var (
	exportWord  = regexp.MustCompile(`^export[ \t]+`)
	quotedValue = regexp.MustCompile(`^(?:'([^']*)'|"((?:\\.|[^"\\])*)")[ \t]*(?:#.*)?$`)
	escaped     = regexp.MustCompile("\\\\([\\\\\"$`])")
	comment     = regexp.MustCompile(`[ \t]#.*$`)
)

// envValue parses the part after =. The second result says what is wrong with it. As in a shell, a # opens a comment after
// a blank only.
func envValue(text string) (value, wrong string) {
	value = strings.TrimLeft(text, " \t")
	switch {
	case strings.ContainsRune(text, 0):
		return "", "the value holds a zero byte"
	case strings.HasPrefix(value, "'"), strings.HasPrefix(value, `"`):
		parts := quotedValue.FindStringSubmatch(value)
		if parts == nil {
			return "", "the quote is not closed on its line, or something follows it"
		}
		return parts[1] + escaped.ReplaceAllString(parts[2], "$1"), ""
	}
	return strings.Trim(comment.ReplaceAllString(text, ""), " \t"), ""
}
