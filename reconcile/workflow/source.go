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
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
)

// maxFile bounds WORKFLOW.md and the environment file, in bytes.
const maxFile = 4 << 20

// Source is a WORKFLOW.md split into front matter and body (specification 5.2).
type Source struct {
	// Name is the file as the caller named it, for messages. Path is absolute with all links resolved; relative paths in
	// the configuration begin at its directory.
	Name string
	Path string
	// Data is the whole file, FrontMatter the part of it between the two lines of ---.
	Data        []byte
	FrontMatter []byte
	// Body is the prompt template, trimmed, with \n as its only line end.
	Body string

	frontLine int // line of the file on which FrontMatter starts, from 1
	frontAt   int // offset of FrontMatter in Data
	bodyLine  int // line of the file on which Body starts, from 1
}

// Read reads the workflow file (specification 5.1). A file that can't be read is missing_workflow_file, one that can't be
// split is workflow_parse_error.
func Read(path string) (Source, error) {
	resolved, err := filepath.Abs(path)
	if err == nil {
		resolved, err = filepath.EvalSymlinks(resolved)
	}
	if err != nil {
		return Source{}, missing(path, err)
	}
	data, _, err := readRegular(resolved)
	if err != nil {
		return Source{}, missing(path, err)
	}
	return NewSource(path, resolved, data)
}

// readRegular reads a regular file, and at most one byte more than maxFile of it.
func readRegular(path string) ([]byte, fs.FileInfo, error) {
	// Without O_NONBLOCK a FIFO of that name would keep the pass waiting for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	return data, info, err
}

func missing(path string, err error) error {
	return &reconcile.Error{
		Code:    CodeMissingFile,
		Message: fmt.Sprintf("read %s: %s", path, reason(err)),
		Hint:    "run symphony in the directory of WORKFLOW.md, or name the file with -w FILE or SYMPHONY_WORKFLOW",
		Err:     err,
	}
}

// reason is the system's part of an error, without the path, which the message names already.
func reason(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// NewSource splits the text of a workflow that was read elsewhere, such as the copy of a run: name is for messages, path is
// the resolved path of the original.
func NewSource(name, path string, data []byte) (Source, error) {
	src := Source{Name: name, Path: path, Data: data, frontLine: 1, bodyLine: 1}
	if len(data) > maxFile {
		return src, fault(CodeParse, name, 1, fmt.Sprintf("the file is longer than %d bytes", maxFile), "move long texts into files that the agent can read")
	}
	if i := invalidUTF8(data); i >= 0 {
		return src, fault(CodeParse, name, lineAt(data, i), "the file is not UTF-8", "save it as UTF-8")
	}
	rest := bytes.TrimPrefix(data, []byte("\ufeff"))
	at := len(data) - len(rest)
	first, after := cutLine(rest)
	if !fence(first) {
		src.setBody(string(rest), 1)
		return src, nil
	}
	src.frontAt, src.frontLine = at+len(rest)-len(after), 2
	for line := 2; len(after) > 0; line++ {
		text, next := cutLine(after)
		if fence(text) {
			end := len(data) - len(after)
			src.FrontMatter = data[src.frontAt:end:end]
			src.setBody(string(next), line+1)
			return src, nil
		}
		after = next
	}
	return src, fault(CodeParse, name, 1, "the front matter has no end", "close it with a line of --- before the prompt")
}

func (s *Source) setBody(text string, line int) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	trimmed := strings.TrimLeft(text, " \t\r\n\f\v")
	s.bodyLine = line + strings.Count(text[:len(text)-len(trimmed)], "\n")
	s.Body = strings.TrimRight(trimmed, " \t\r\n\f\v")
}

// fence reports whether a line opens or closes the front matter. Trailing blanks are allowed, because they are invisible.
func fence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r\n")) == "---" }

// cutLine returns the first line with its end, and what follows.
func cutLine(data []byte) (line, rest []byte) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return data[:i+1], data[i+1:]
	}
	return data, nil
}

func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }

// invalidUTF8 is the offset of the first byte that is not UTF-8, -1 if there is none.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
