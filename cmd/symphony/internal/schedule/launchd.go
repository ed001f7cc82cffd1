package schedule

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/durable"
)

// usesLaunchd says that the schedule without a flag is an agent of launchd. Tests set it.
var usesLaunchd = runtime.GOOS == "darwin"

// launchdMark is part of every property list that install writes. Others are never overwritten or removed.
const launchdMark = "<!-- Written by symphony schedule install"

// shortestLaunchd is the least time between two starts of a job by launchd.
const shortestLaunchd = 10 * time.Second

// launchdJob is a job of the user's launchd, an agent in its words: a property list below ~/Library/LaunchAgents.
type launchdJob struct {
	env   *term.Env
	label string
	file  unit
}

func newLaunchdJob(w *term.Env, label string) *launchdJob {
	return &launchdJob{env: w, label: label, file: unit{path: filepath.Join(w.Home, "Library", "LaunchAgents", label+".plist")}}
}

// read reads the property list, whose text stays empty if there is none. It refuses one that install did not write.
func (j *launchdJob) read() error {
	data, err := os.ReadFile(j.file.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unitError(err)
	}
	if j.file.text = string(data); err == nil && !strings.Contains(j.file.text, launchdMark) {
		return foreign(j.file.path)
	}
	return nil
}

// launchctl calls launchctl.
func (j *launchdJob) launchctl(ctx context.Context, args ...string) (string, error) {
	return runProgram(ctx, j.env, "", nil, "launchctl", args...)
}

// domain is launchd's name for the login session of this account, which starts the jobs of ~/Library/LaunchAgents.
func domain() string { return "gui/" + strconv.Itoa(os.Geteuid()) }

// service is launchd's name for the job.
func (j *launchdJob) service() string { return domain() + "/" + j.label }

// unload ends the schedule of a job that is loaded. A pass that is running gets SIGTERM.
func (j *launchdJob) unload(ctx context.Context) error {
	if _, err := j.launchctl(ctx, "print", j.service()); err != nil {
		return nil //nolint:nilerr // it is not loaded
	}
	_, err := j.launchctl(ctx, "bootout", j.service())
	return err
}

// remove unloads the job and removes its file.
func (j *launchdJob) remove(ctx context.Context) error {
	if err := j.unload(ctx); err != nil {
		return err
	}
	if err := os.Remove(j.file.path); err != nil {
		return unitError(err)
	}
	fmt.Fprintln(j.env.Stdout, "removed", term.Visible(j.file.path))
	return nil
}

// launchd is the schedule of a job of launchd.
type launchd struct {
	*plan
	*launchdJob
}

// plistText is a property list without its values.
const plistText = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
` + launchdMark + `, which overwrites what is changed here. -->
<plist version="1.0">
<dict>
%s</dict>
</plist>
`

// write sets the text of the property list.
func (l *launchd) write() {
	var b strings.Builder
	add := func(key, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", key, value) }
	add("Label", plistString(l.label))
	add("ProgramArguments", "<array>"+plistWords(l.command(project.TriggerTimer))+"\n\t</array>")
	if len(l.vars) > 0 {
		vars := ""
		for _, v := range l.vars {
			vars += plistVar(v)
		}
		add("EnvironmentVariables", "<dict>"+vars+"\n\t</dict>")
	}
	add("StartInterval", fmt.Sprintf("<integer>%d</integer>", int(l.every.Seconds())))
	add("RunAtLoad", "<true/>")
	// Workers outlive the pass that has started them.
	add("AbandonProcessGroup", "<true/>")
	log := plistString(l.log())
	add("StandardOutPath", log)
	add("StandardErrorPath", log)
	l.file.text = fmt.Sprintf(plistText, b.String())
}

// log is the file to which passes print their errors.
func (j *launchdJob) log() string {
	return filepath.Join(j.env.Home, "Library", "Logs", j.label+".log")
}

func plistString(s string) string { return "<string>" + html.EscapeString(s) + "</string>" }

// plistWords are the elements of an array, each on a line.
func plistWords(words []string) (text string) {
	for _, word := range words {
		text += "\n\t\t" + plistString(word)
	}
	return text
}

// plistVar is a variable NAME=value in the dictionary of the environment.
func plistVar(v string) string {
	name, value, _ := strings.Cut(v, "=")
	return "\n\t\t<key>" + name + "</key>\n\t\t" + plistString(value)
}

// text implements scheduler.
func (l *launchd) text() (string, error) {
	l.write()
	return fmt.Sprintf("## %s\n%s", l.file.path, l.file.text), nil
}

// refuse implements scheduler.
func (l *launchd) refuse(ctx context.Context, _ time.Duration) error {
	if _, err := l.launchctl(ctx, "print", domain()); err != nil {
		return exit.Fault("no_scheduler", "launchd has no session of this account: "+exit.From(err).Message,
			"log in at the Mac once, since launchd starts agents only while you are logged in; or use --cron")
	}
	return nil
}

// install implements scheduler. It loads the job again if its file differs, and completes an interrupted install.
func (l *launchd) install(ctx context.Context) error {
	installed := newLaunchdJob(l.env, l.label)
	if err := installed.read(); err != nil {
		return err
	}
	l.write()
	_, notLoaded := l.launchctl(ctx, "print", l.service())
	if changed := l.file.text != installed.file.text; changed || notLoaded != nil {
		if err := l.unload(ctx); err != nil {
			return err
		}
		if changed {
			err := os.MkdirAll(filepath.Dir(l.file.path), 0o755)
			if err == nil {
				err = durable.WriteFile(l.file.path, []byte(l.file.text), 0o644)
			}
			if err != nil {
				return unitError(err)
			}
			fmt.Fprintln(l.env.Stdout, "wrote", term.Visible(l.file.path))
		}
		if err := l.load(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(l.env.Stdout, "%s runs a pass every %s; its errors are in %s\n", l.label, l.every, term.Visible(l.log()))
	return nil
}

// load switches the job on. For some seconds after it was unloaded, launchd refuses to load it.
func (l *launchd) load(ctx context.Context) error {
	if _, err := l.launchctl(ctx, "enable", l.service()); err != nil {
		return err
	}
	for end := l.env.Now().Add(managerPatience); ; {
		_, err := l.launchctl(ctx, "bootstrap", domain(), l.file.path)
		if err == nil || !l.env.Now().Before(end) || !project.Sleep(ctx, project.WaitStep) {
			return err
		}
	}
}

// LaunchdStatus is what launchd says about an installed job.
type LaunchdStatus struct {
	Label  string `json:"label"`
	Path   string `json:"path"`
	Loaded bool   `json:"loaded"`
	// Exit is the exit code of the last pass; null if launchd does not know it.
	Exit *int `json:"last_exit_code"`
}

// addLaunchd asks launchd about a job.
func (out *Status) addLaunchd(ctx context.Context, p *project.Project, j *launchdJob) {
	said, err := j.launchctl(ctx, "print", j.service())
	row := &LaunchdStatus{Label: j.label, Path: j.file.path, Loaded: err == nil}
	for line := range strings.Lines(said) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "last exit code = "); found {
			if code, err := strconv.Atoi(text); err == nil {
				row.Exit = &code
			}
		}
	}
	out.Launchd = row
	switch {
	case err != nil:
		out.addProblem("%s is not loaded: symphony schedule install -w %s", row.Label, term.ShellQuote(p.Path))
	case row.Exit != nil && *row.Exit != 0:
		out.addProblem("the last pass failed with exit code %d: see %s", *row.Exit, j.log())
	}
}
