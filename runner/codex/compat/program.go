package compat

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Program is a file that a command names, and how it looked when it was asked. The time of its last change counts as
// well as that of its content: packages are unpacked with times of their own, and an inode may be used again.
type Program struct {
	Path  string `json:"path"` // as the shell found it
	Size  int64  `json:"size"`
	Inode uint64 `json:"inode"`
	MTime int64  `json:"mtime"` // nanoseconds
	CTime int64  `json:"ctime"`
}

// stat looks at the file that path leads to.
func stat(path string) (Program, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Program{}, fmt.Errorf("stat %s: %w", path, err)
	}
	return Program{Path: path, Size: st.Size, Inode: st.Ino, MTime: st.Mtim.Nano(), CTime: st.Ctim.Nano()}, nil
}

// Current reports whether the report still holds for a command: it was got by the same one, with the same home, and the
// programs that it names are as they were. It costs one stat for each.
func (r Report) Current(command, home string) bool {
	if r.Command != command || r.Home != home {
		return false
	}
	for _, p := range r.Programs {
		if now, err := stat(p.Path); err != nil || now != p {
			return false
		}
	}
	return true
}

// identify finds the programs that the command names, as its own login shell sees them, and has the one that is asked
// to be an app-server say its version.
func (r *Report) identify(ctx context.Context, p *place, o Options) error {
	names, before := namable(o.Command)
	if len(names) == 0 {
		return nil
	}
	var script strings.Builder
	for _, name := range names {
		fmt.Fprintf(&script, "printf '\\n%s%%s\\n' \"$(command -v -- %s)\"\n", foundMark, name)
	}
	found, err := p.shell(ctx, o, script.String())
	if err != nil {
		return err
	}
	asked := ""
	for i, path := range answers(found.out) {
		if i >= len(names) || !filepath.IsAbs(path) || !isFile(path) {
			continue // a word that names no program: a builtin, a function, an argument
		}
		program, err := stat(path)
		if err != nil {
			return err
		}
		r.Programs = append(r.Programs, program)
		if i < before || asked == "" {
			asked = path
		}
	}
	if asked == "" {
		return nil
	}
	r.Binary = asked
	if real, err := filepath.EvalSymlinks(asked); err == nil {
		r.Binary = real
	}
	said, err := p.shell(ctx, o, "exec "+proc.ShellWord(asked)+" --version")
	if err != nil {
		return err
	}
	if m := regexp.MustCompile(versionText).FindStringSubmatch(said.out); m != nil {
		r.Version = m[1]
	}
	return nil
}

// foundMark begins the lines that answer; a login profile may print others.
const foundMark = "symphony found: "

// answers are the paths in the order in which they were asked for; of several that one word named, the first.
func answers(out string) []string {
	var paths []string
	for line := range strings.Lines(out) {
		if path, ok := strings.CutPrefix(line, foundMark); ok {
			paths = append(paths, strings.TrimSuffix(path, "\n"))
		}
	}
	return paths
}

// versionText finds the number in "codex-cli 0.169.0"; other programs that take --version name themselves otherwise.
const versionText = `(?m)^codex\S* v?(\d+\.\d+\.\d+\S*)$`

func isFile(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}
