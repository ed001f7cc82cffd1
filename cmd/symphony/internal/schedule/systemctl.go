package schedule

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

// outsideBound is how long a program of systemd's or cron's may take.
const outsideBound = 20 * time.Second

// serviceManager speaks to the systemd of the system or of this user.
type serviceManager struct {
	w      *term.Env
	system bool
}

func (s serviceManager) flag() string {
	if s.system {
		return "--system"
	}
	return "--user"
}

// run gives what systemctl has printed.
func (s serviceManager) run(ctx context.Context, args ...string) (string, error) {
	env := []string{"XDG_RUNTIME_DIR=" + runtimeDir(s.w), "TZ=UTC"} // show prints its times in the local zone
	return runOutside(ctx, s.w, "", env, "systemctl", append([]string{s.flag(), "--no-pager", "--no-ask-password"}, args...)...)
}

// runtimeDir is where a user's systemd listens.
func runtimeDir(w *term.Env) string {
	if dir := w.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return "/run/user/" + strconv.Itoa(os.Geteuid())
}

// outside runs a program of the machine's with nothing of our environment but where it is found and whose it is. The
// error tells what it said.
func runOutside(ctx context.Context, w *term.Env, stdin string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, outsideBound)
	defer cancel()
	path, err := findProgram(w, name)
	if err != nil {
		return "", &reconcile.Error{Code: "no_scheduler", Message: name + " is not to be found", Hint: "see whether it is installed, and in PATH", Err: err}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.Env = append([]string{"LC_ALL=C", "PATH=" + w.Getenv("PATH"), "HOME=" + w.Home}, env...)
	for _, name := range []string{"USER", "LOGNAME"} {
		if v, set := w.Lookup(name); set {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdin = strings.NewReader(stdin)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	said := strings.Join(strings.Fields(complaint.String()), " ")
	if ctx.Err() != nil {
		said = "no answer: " + ctx.Err().Error()
	}
	return out.String(), &reconcile.Error{
		Code: "schedule_failed", Message: fmt.Sprintf("%s %s: %v: %s", name, strings.Join(args, " "), err, said),
		Hint: "run that command yourself to see more; what was written stays, and the same command goes on from there", Err: err,
	}
}

// findProgram looks through the world's PATH, where exec would take this process's.
func findProgram(w *term.Env, name string) (string, error) {
	for _, dir := range filepath.SplitList(w.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// properties of units, by their Id.
func (s serviceManager) properties(ctx context.Context, names []string, units ...string) (map[string]map[string]string, error) {
	out, err := s.run(ctx, append([]string{"show", "-p", "Id," + strings.Join(names, ",")}, units...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]string{}
	for block := range strings.SplitSeq(out, "\n\n") {
		values := map[string]string{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values[name] = value
		}
		found[values["Id"]] = values
	}
	return found, nil
}

// systemdTime reads a time as systemctl shows it under TZ=UTC; zero where there is none.
func systemdTime(text string) time.Time {
	t, err := time.Parse("Mon 2006-01-02 15:04:05 MST", text)
	if err != nil {
		return time.Time{}
	}
	return t
}

func spanUnits() map[string]time.Duration {
	return map[string]time.Duration{
		"y": 365*24*time.Hour + 6*time.Hour, "month": 730*time.Hour + 30*time.Minute, "w": 7 * 24 * time.Hour, "d": 24 * time.Hour,
		"h": time.Hour, "min": time.Minute, "s": time.Second, "ms": time.Millisecond, "us": time.Microsecond,
	}
}

// systemdSpan reads a span such as "1d 2h 26.488399s"; false where it is none.
func systemdSpan(text string) (time.Duration, bool) {
	var sum time.Duration
	units, fields := spanUnits(), strings.Fields(text)
	for _, f := range fields {
		at := strings.IndexFunc(f, func(r rune) bool { return r >= 'a' && r <= 'z' })
		if at <= 0 || units[f[at:]] == 0 {
			return 0, false
		}
		n, err := strconv.ParseFloat(f[:at], 64)
		if err != nil {
			return 0, false
		}
		sum += time.Duration(n * float64(units[f[at:]]))
	}
	return sum, len(fields) > 0
}
