package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	Name, Path string
	// Data is the whole file, FrontMatter the part of it between the two lines of ---.
	Data, FrontMatter []byte
	// Body is the prompt template, trimmed, with \n as its only line end.
	Body string

	frontLine, bodyLine int // lines of the file on which they start, from 1
}

// Read reads the workflow file (specification 5.1). A file that can't be read is missing_workflow_file, one that can't be
// split is workflow_parse_error.
func Read(path string) (Source, error) {
	resolved, err := filepath.Abs(path)
	if err == nil {
		resolved, err = filepath.EvalSymlinks(resolved)
	}
	var data []byte
	if err == nil {
		data, _, err = readRegular(resolved)
	}
	if err != nil {
		return Source{}, &reconcile.Error{
			Code:    CodeMissingFile,
			Message: fmt.Sprintf("read %s: %s", path, reason(err)),
			Hint:    "run symphony in its directory, name it with -w FILE or SYMPHONY_WORKFLOW, or write one with symphony init",
			Err:     err,
		}
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

// reason is the system's part of an error, without the path, which the message names already.
func reason(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// fence opens or closes the front matter. Trailing blanks are allowed, because they are invisible.
var fence = regexp.MustCompile(`(?m)^---[ \t\r]*$\n?`)

// NewSource splits the text of a workflow that was read elsewhere, such as the copy of a run: name is for messages, path is
// the resolved path of the original.
func NewSource(name, path string, data []byte) (Source, error) {
	src := Source{Name: name, Path: path, Data: data, frontLine: 2, bodyLine: 1}
	wrong := func(at int, message, hint string) (Source, error) {
		return src, fault(CodeParse, name, 1+bytes.Count(data[:at], []byte("\n")), message, hint)
	}
	if len(data) > maxFile {
		return wrong(0, fmt.Sprintf("the file is longer than %d bytes", maxFile), "move long texts into files that the agent can read")
	}
	if !utf8.Valid(data) {
		return wrong(bytes.IndexRune(data, utf8.RuneError), "the file is not UTF-8", "save it as UTF-8")
	}
	body := bytes.TrimPrefix(data, []byte("\ufeff"))
	if fences := fence.FindAllIndex(body, 2); len(fences) > 0 && fences[0][0] == 0 {
		if len(fences) == 1 {
			return wrong(0, "the front matter has no end", "close it with a line of --- before the prompt")
		}
		front, end := fences[0][1], fences[1][0]
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
