package workflow

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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

func (e Environment) lookup(name string) (string, bool) {
	if e.Lookup == nil {
		return "", false
	}
	return e.Lookup(name)
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

// variableName reports whether name is one that a shell could export.
func variableName(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

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

func (e Environment) expandVars(text string) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest := after, ""
		if inner, braced := strings.CutPrefix(after, "{"); braced {
			if name, rest, found = strings.Cut(inner, "}"); !found || !variableName(name) {
				return "", errors.New("${ is not followed by a variable's name and }")
			}
		} else {
			end := strings.IndexFunc(after, func(r rune) bool { return !variableName("_" + string(r)) })
			if end >= 0 {
				name, rest = after[:end], after[end:]
			}
			if !variableName(name) {
				out.WriteString("$")
				text = after
				continue
			}
		}
		value, ok := e.lookup(name)
		if !ok || value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		out.WriteString(value)
		text = rest
	}
}
