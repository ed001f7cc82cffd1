package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxFile bounds WORKFLOW.md and the environment file, in bytes.
const maxFile = 4 << 20

// Source is a WORKFLOW.md split into front matter and body (specification 5.2).
type Source struct {
	// Name is the file as the caller named it, for messages. Path is absolute, with all links
	// resolved; relative paths in the configuration are relative to its directory.
	Name, Path string
	// Data is the whole file, FrontMatter the part between the two lines of ---.
	Data, FrontMatter []byte
	Body              string // the prompt template, trimmed, with \n line ends

	frontLine, bodyLine int // the first lines of FrontMatter and Body in the file, from 1
}

// Read reads the workflow file (specification 5.1). The code of the error is
// missing_workflow_file if the file cannot be read, and workflow_parse_error if it cannot be
// split.
func Read(path string) (Source, error) {
	resolved, data, err := readThroughLinks(path)
	if err != nil {
		message := "there is no workflow file " + path
		hint := "write one with symphony init, or name another with -w FILE: symphony projects lists those of this account"
		what, remedy := paths.Missing(path)
		usual := filepath.Join(filepath.Dir(path), "WORKFLOW.md")
		_, usualErr := os.Stat(usual)
		switch {
		case errors.Is(err, fs.ErrNotExist) && remedy != "":
			message = path + " " + what
			hint = remedy + ", or name another file with -w FILE"
		case errors.Is(err, fs.ErrNotExist) && usualErr == nil:
			hint = usual + " is there: name that, or another file, with -w FILE"
		case !errors.Is(err, fs.ErrNotExist):
			message = fmt.Sprintf("read %s: %s", path, reason(err))
			hint = "make it a file that this account can read, or name another one with -w FILE"
		}
		return Source{}, &reconcile.Error{
			Code:    CodeMissingFile,
			Message: message,
			Hint:    hint,
			Err:     err,
		}
	}
	return NewSource(path, resolved, data)
}

// readThroughLinks reads a file, and returns its absolute path without symlinks, too.
func readThroughLinks(path string) (resolved string, data []byte, err error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	resolved, err = filepath.EvalSymlinks(absolute)
	if err != nil {
		return "", nil, err
	}
	data, _, err = readRegular(resolved)
	return resolved, data, err
}

// A process of the account that holds a lease on a file lets nobody open it. The worker of an
// agent that is at work ends such a process within 5 s, so that an open is tried again for a
// little longer.
const (
	leaseWait = 8 * time.Second
	leaseStep = 100 * time.Millisecond
)

// openRegular opens a file for reading. Without O_NONBLOCK, opening a FIFO would block until
// there is a writer, and opening a file with a lease for up to 45 s.
func openRegular(path string) (*os.File, error) {
	for end := time.Now().Add(leaseWait); ; time.Sleep(leaseStep) {
		file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return file, err
		}
	}
}

// readRegular reads a regular file, at most a byte more than maxFile.
func readRegular(path string) ([]byte, fs.FileInfo, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	return data, info, err
}

// reason returns the system's part of an error. It omits the path, which the message already
// contains.
func reason(err error) string {
	if errors.Is(err, syscall.EAGAIN) {
		return "another process holds a lease on it"
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// fence is a line that opens or closes the front matter. Trailing blanks are allowed, because
// they are invisible.
var fence = text.Pattern(`(?m)^---[ \t\r]*$\n?`)

// NewSource splits the text of a workflow that was read elsewhere, such as a run's copy: name
// is for messages, path is the resolved path of the original.
func NewSource(name, path string, data []byte) (Source, error) {
	src := Source{Name: name, Path: path, Data: data, frontLine: 2, bodyLine: 1}
	wrong := func(at int, message, hint string) (Source, error) {
		return src, fault(CodeParse, name, 1+bytes.Count(data[:at], []byte("\n")), message, hint)
	}
	if len(data) > maxFile {
		return wrong(
			0,
			fmt.Sprintf("the file is longer than %d bytes", maxFile),
			"move long texts into files that the agent can read",
		)
	}
	if !utf8.Valid(data) {
		return wrong(bytes.IndexRune(data, utf8.RuneError), "the file is not UTF-8", "save it as UTF-8")
	}
	body := bytes.TrimPrefix(data, []byte("\ufeff"))
	if fences := fence().FindAllIndex(body, 2); len(fences) > 0 && fences[0][0] == 0 {
		if len(fences) == 1 {
			return wrong(0, "the front matter is not closed", "close it with a line of --- before the prompt")
		}
		front := fences[0][1]
		end := fences[1][0]
		src.FrontMatter = body[front:end:end]
		src.bodyLine += bytes.Count(body[:fences[1][1]], []byte("\n"))
		body = body[fences[1][1]:]
	}
	const blanks = " \t\r\n\f\v"
	text := strings.ReplaceAll(string(body), "\r\n", "\n")
	trimmed := strings.TrimLeft(text, blanks)
	src.bodyLine += strings.Count(text[:len(text)-len(trimmed)], "\n")
	src.Body = strings.TrimRight(trimmed, blanks)
	return src, nil
}

// EnvFilePath returns the path of a project's environment file (design 11):
// $XDG_CONFIG_HOME/symphony/<project>.env, with ~/.config for an empty or relative
// xdgConfigHome. project is the name of its state directory.
func EnvFilePath(xdgConfigHome, home, project string) string {
	if !filepath.IsAbs(xdgConfigHome) {
		xdgConfigHome = filepath.Join(home, ".config")
	}
	return filepath.Join(xdgConfigHome, "symphony", project+".env")
}

// ReadEnvFile reads an environment file: lines of NAME=VALUE, blank lines, and comments after
// #. A line may begin with `export `. Values may be quoted as in a shell: no character is
// special in single quotes, and a backslash escapes \ " $ ` in double quotes. Variables are
// not expanded. A file that does not exist counts as empty, unless a link leads to it.
//
// The code of the error is environment_invalid for a file that does not belong to uid, or
// whose mode is not 0600 or 0400, and environment_invalid for any other line. No error contains a
// value.
func ReadEnvFile(path string, uid int) (map[string]string, error) {
	const yours = "the file must belong to your account and have mode 0600"
	wrong := func(code, where, what, hint string) (map[string]string, error) {
		return nil, reconcile.NewError(code, where+": "+what, hint)
	}
	data, info, err := readRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what, remedy := paths.Missing(path)
		if remedy != "" { // it was meant to contain something
			return nil, reconcile.NewError(CodeEnvironment, path+" "+what, remedy+", or remove it")
		}
		return map[string]string{}, nil
	case err != nil:
		return nil, reconcile.NewError(CodeEnvironment, path+": "+reason(err), yours).WithCause(err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int64(stat.Uid) != int64(uid) {
		return wrong(CodeEnvironment, path, "belongs to another account", yours)
	}
	if mode := info.Mode().Perm(); mode != 0o600 && mode != 0o400 {
		return wrong(CodeEnvironment, path, fmt.Sprintf("its mode is %04o", mode), "chmod 600 "+path)
	}
	const hint = "write lines of NAME=VALUE, and quote values that contain blanks or #"
	if len(data) > maxFile {
		return wrong(CodeEnvironment, path, fmt.Sprintf("longer than %d bytes", maxFile), hint)
	}
	vars := map[string]string{}
	for i, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line = exportWord().ReplaceAllString(strings.TrimSpace(line), "")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		what := ""
		switch {
		case !ok:
			what = "the line contains no ="
		case !variableName(name):
			what = "the text before = is not the name of a variable"
		default:
			vars[name], what = envValue(value)
		}
		if what != "" {
			return wrong(CodeEnvironment, fmt.Sprintf("%s:%d", path, i+1), what, hint)
		}
	}
	return vars, nil
}

var (
	exportWord  = text.Pattern(`^export[ \t]+`)
	quotedValue = text.Pattern(`^(?:'([^']*)'|"((?:\\.|[^"\\])*)")[ \t]*(?:#.*)?$`)
	escaped     = text.Pattern("\\\\([\\\\\"$`])")
	comment     = text.Pattern(`[ \t]#.*$`)
)

// envValue parses the text after =, and returns the value or the fault of the text. As in a
// shell, # starts a comment only after a blank.
func envValue(text string) (value, wrong string) {
	value = strings.TrimLeft(text, " \t")
	switch {
	case strings.ContainsRune(text, 0):
		return "", "the value contains a zero byte"
	case strings.HasPrefix(value, "'"), strings.HasPrefix(value, `"`):
		parts := quotedValue().FindStringSubmatch(value)
		if parts == nil {
			return "", "the quote is not closed on its line, or text follows it"
		}
		return parts[1] + escaped().ReplaceAllString(parts[2], "$1"), ""
	}
	return strings.Trim(comment().ReplaceAllString(text, ""), " \t"), ""
}
