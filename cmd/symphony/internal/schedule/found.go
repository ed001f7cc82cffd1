package schedule

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
)

// installed is what of ours is found on the machine, whoever installed it.
type installed struct {
	Units []installedUnit
	Line  string // of the crontab
	// lineErr is why the crontab could not be read; many accounts may not have one.
	lineErr error
}

// installedUnit is one timer with its service.
type installedUnit struct {
	system         bool
	Service, timer string // paths
	text           string // of the timer, empty where it is gone
	program, runAs string
}

// installed looks for the files and the line. systemd is not asked.
func FindInstalled(ctx context.Context, p *project.Project) (st installed, err error) {
	for _, system := range []bool{false, true} {
		for _, dir := range UnitDirs(p.Env, system, p.Env.Home) {
			u, found, err := readUnits(dir, scheduleName(p))
			if err != nil {
				return st, err
			}
			if u.system = system; found {
				st.Units = append(st.Units, u)
			}
		}
	}
	if !HasCrontab(p.Env) {
		return st, nil
	}
	crontab, lineErr := Crontab(ctx, p.Env)
	st.lineErr = lineErr
	_, st.Line = withLine(crontab, "", cronMark(scheduleName(p)))
	return st, nil
}

// readUnits finds those of ours; somebody else's are none.
func readUnits(dir, name string) (u installedUnit, found bool, err error) {
	u.Service, u.timer = unitPaths(dir, name)
	var texts [2]string
	for i, path := range []string{u.Service, u.timer} {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return u, false, unwritten(path, err)
		}
		if texts[i] = string(data); strings.HasPrefix(texts[i], UnitMark) {
			found = true
		}
	}
	u.text = texts[1]
	u.program, _ = strconv.Unquote(lineAfter(texts[0], "# Program: "))
	u.runAs = lineAfter(texts[0], "User=")
	return u, found, nil
}

// lineAfter is what follows the prefix on its line; empty where no line begins with it.
func lineAfter(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), prefix); ok {
			return rest
		}
	}
	return ""
}
