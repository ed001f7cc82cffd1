package schedule

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
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

// Carried is what an installed schedule passes on of the caller's environment.
type Carried struct {
	StateDir string   // empty if it passes no --state-dir
	Vars     []string // NAME=value of PathVars
}

// CarriedBy looks in the installed schedules for the state directory and the variables of the caller. It finds nothing in
// schedules that can't be read, which InstalledStatus reports.
func CarriedBy(ctx context.Context, p *project.Project) (c Carried) {
	found, err := FindInstalled(ctx, p)
	if err != nil {
		return c
	}
	texts := []string{found.Line}
	for _, u := range found.Units {
		if service, err := os.ReadFile(u.Service); err == nil {
			texts = append(texts, string(service))
		}
	}
	contains := func(forms ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
		})
	}
	cronWord := func(word string) string { return strings.ReplaceAll(term.ShellQuote(word), "%", `\%`) }
	if contains(" --state-dir "+cronWord(p.StateDir)+" ", " --state-dir "+strings.ReplaceAll(UnitWord(p.StateDir), "$", "$$")+" ") {
		c.StateDir = p.StateDir
	}
	for _, name := range PathVars {
		v := p.Env.Getenv(name)
		if v != "" && contains(" "+name+"="+cronWord(v)+" ", "\nEnvironment="+UnitWord(name+"="+v)+"\n") {
			c.Vars = append(c.Vars, name+"="+v)
		}
	}
	return c
}
