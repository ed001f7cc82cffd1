package schedule

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// mark is in the comment of every file that install writes. Others are never overwritten or
// removed.
const mark = "Written by symphony schedule install"

//go:embed symphony.*
var templateFiles embed.FS

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"word":     unitWord,
		"argument": argumentWord,
		"times":    timerLines,
		"pair":     func(v string) []string { return strings.SplitN(v, "=", 2) },
	}).ParseFS(templateFiles, "*"))
})

// errForeign is the cause of an error about a file that symphony did not write.
var errForeign = errors.New("not written by symphony")

// files are a schedule's files, which templates make.
type files struct {
	*plan
	list   []file
	system bool // of the system instance of systemd, not of the user's
}

// file is a file as it was read: its text is empty if it does not exist.
type file struct{ path, text string }

// read reads the files. It refuses a file that install did not write.
func (s *files) read() error {
	for i, f := range s.list {
		data, err := os.ReadFile(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fileError(err)
		}
		text := string(data)
		if err == nil && !strings.HasPrefix(text, "# "+mark) && !strings.Contains(text, "<!-- "+mark) {
			return reconcile.NewError(
				"schedule_failed",
				f.path+" was not written by symphony schedule install",
				"move it away, and run the command again",
			).WithCause(errForeign)
		}
		s.list[i].text = text
	}
	return nil
}

func fileError(err error) error { return failed("check the permissions of its directory", "%v", err) }

func (s *files) installed() (text string) {
	for _, f := range s.list {
		text += f.text
	}
	return text
}

// wanted returns the files as install writes them.
func (s *files) wanted() (list []file) {
	values := map[string]any{
		"Mark":     mark,
		"Name":     s.name(),
		"Workflow": s.p.Path,
		"Command":  s.command(wiring.TriggerTimer),
		"Vars":     s.vars,
		"Every":    s.every,
		"System":   s.system,
		"User":     s.account.name,
		"Log":      s.log(),
	}
	for _, f := range s.list {
		var b strings.Builder
		// it writes to memory
		_ = templates().ExecuteTemplate(&b, "symphony"+filepath.Ext(f.path), values)
		list = append(list, file{f.path, b.String()})
	}
	return list
}

func (s *files) text() (string, error) {
	texts := text.Map(s.wanted(), func(f file) string { return "## " + f.path + "\n" + f.text })
	return strings.Join(texts, "\n"), nil
}

// write writes the files that have changed since they were read.
func (s *files) write() error {
	for i, f := range s.wanted() {
		if f.text == s.list[i].text {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return fileError(err)
		}
		if err := durable.WriteFile(f.path, []byte(f.text), 0o644); err != nil {
			return fileError(err)
		}
		s.changes.done("wrote " + f.path)
	}
	return nil
}

// removeFiles removes the files that exist.
func (s *files) removeFiles(paths ...string) error {
	for _, path := range paths {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fileError(err)
		}
		s.changes.done("removed " + path)
	}
	return nil
}
