//go:build linux

package bench

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/host/sandbox"
)

// BenchmarkSandbox compares the start of a program in the sandbox of agents with its start in
// the smallest sandbox that bubblewrap makes, and says how many milliseconds that adds to the
// start of the program alone.
func BenchmarkSandbox(b *testing.B) {
	programs.build.Do(build)
	bubblewrap, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip("bubblewrap is not installed")
	}
	dir := get(filepath.EvalSymlinks(b.TempDir()))
	box := sandbox.Box{
		Workspace: filepath.Join(dir, "workspace"),
		Home:      filepath.Join(dir, "home"),
		Temp:      filepath.Join(dir, "tmp"),
		Program:   programs.symphony,
		Command:   []string{"true"},
	}
	for _, made := range []string{box.Workspace, box.Home, box.Temp} {
		must(os.Mkdir(made, 0o700))
	}
	smallest := strings.Fields("--unshare-user --unshare-pid --unshare-net --ro-bind / / --proc /proc --dev /dev -- true")
	starts := unlessShort(60, 10)
	report(b, func() []metric {
		var ours, theirs, alone []float64
		for range starts {
			ours = append(ours, tookToRun(bubblewrap, get(sandbox.Prepare(box))))
			theirs = append(theirs, tookToRun(bubblewrap, smallest))
			alone = append(alone, tookToRun("true", nil))
		}
		more := 1000 * (median(ours) - median(alone))
		return append(against(ours, theirs, "wall", 4), metric{more, "ms-more", math.Inf(1)})
	})
}

// tookToRun returns how many seconds a program took.
func tookToRun(program string, args []string) float64 {
	began := time.Now()
	must(exec.CommandContext(ctx, program, args...).Run())
	return time.Since(began).Seconds()
}
