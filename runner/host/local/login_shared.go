package local

import (
	"context"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// ownVariables are variables of a login shell whose values belong to one run. systemd gives each scope an INVOCATION_ID.
var ownVariables = []string{host.RunMark, "TMPDIR", "XDG_CACHE_HOME", "INVOCATION_ID"}

// reportFresh is how long the report of a login shell is shared. A run that begins later may need newer tokens.
const reportFresh = time.Minute

// The shared file has three fields for each login shell that a worker has run: its environment, sorted and with zero bytes between the
// variables; when it ended; and its report, which is empty if each worker needs a shell of its own. Marks replace the values of
// ownVariables in all of them.
const fieldEnd = "\x00\x00"

// share returns the report of the login shell. Of the workers that a pass has started, the first one runs the shell, and the others wait
// and read what it has written to the file that they share, nil if they share none. They use it if their own shells would get the same
// environment, apart from the values of ownVariables, which are replaced. If the shell has failed, each of them runs its own, all at once,
// and also if the shell has left processes, which end with the run of its worker. The lock of a worker that is killed is released, and
// the next one runs the shell.
func (l loginShell) share(ctx context.Context, file *os.File) (report string, err error) {
	if file == nil {
		return l.run(ctx)
	}
	defer file.Close() // releases the lock
	if err := proc.LockProcess(ctx, file, l.Timeout); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return l.run(ctx) // the worker with the lock is frozen, or its profile hangs
	}
	own := marks(l.Env)
	mark := strings.NewReplacer(own...)
	env := mark.Replace(strings.Join(slices.Sorted(slices.Values(l.Env)), "\x00")) // a program may have changed the order
	report, found := findReport(file, env)
	if !found {
		report, err = l.run(ctx)
		if ctx.Err() == nil {
			writeReport(file, env, mark.Replace(report))
		}
		return report, err
	}
	if report == "" {
		file.Close() // the others must not wait for this shell
		return l.run(ctx)
	}
	slices.Reverse(own) // each mark and its value
	return strings.NewReplacer(own...).Replace(report), nil
}

// marks returns each value of ownVariables and its mark, which no environment contains.
func marks(env []string) (pairs []string) {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && slices.Contains(ownVariables, name) {
			pairs = append(pairs, value, "\x00="+name+"=")
		}
	}
	return pairs
}

// findReport returns the last report of a shell with the same environment.
func findReport(file io.ReaderAt, env string) (report string, found bool) {
	data, _ := io.ReadAll(io.NewSectionReader(file, 0, math.MaxInt64)) // after an error, a shell of its own helps
	for fields := strings.Split(string(data), fieldEnd); len(fields) > 3; fields = fields[3:] {
		at, err := time.ParseDuration(fields[1])
		if err == nil && proc.Monotonic()-at < reportFresh && fields[0] == env {
			report, found = fields[2], true
		}
	}
	return report, found
}

// writeReport appends a report, which is empty if the shell has failed. If that is not possible, the others run their own shells.
func writeReport(file *os.File, env, report string) {
	if left, err := proc.Descendants(os.Getpid()); err != nil || len(left) > 0 {
		report = ""
	}
	if _, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.WriteString(strings.Join([]string{env, proc.Monotonic().String(), strings.TrimSuffix(report, "\x00"), ""}, fieldEnd))
	}
}
