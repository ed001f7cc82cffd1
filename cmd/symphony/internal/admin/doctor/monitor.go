package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor"
)

// checkMonitor asks the check that expects pings, and looks whether passes can write the metrics.
func checkMonitor(ctx context.Context, e *environment) []finding {
	return append(e.checkPings(ctx), e.checkMetricsFile()...)
}

func (e *environment) checkPings(ctx context.Context) []finding {
	m := e.config.Monitor
	const key = "monitor.ping_url: "
	if m.PingURL == "" {
		if m.PingVar == "" {
			return nil
		}
		return warn(key+"the environment variable "+m.PingVar+" is not set, or empty: no pass is reported",
			"put "+m.PingVar+"=… into "+e.p.EnvPath()+" (mode 0600)")
	}
	if err := monitor.Check(ctx, m.PingURL); err != nil {
		return warn(key+err.Error(), "compare it with the ping URL on the page of the check; until then the check does not hear of passes")
	}
	if m.PingVar == "" {
		return warn(key+"is in "+e.p.Path+", where everyone who can read the repository sees it",
			"write ping_url: $SYMPHONY_PING_URL there, and put SYMPHONY_PING_URL=… into "+e.p.EnvPath()+" (mode 0600)")
	}
	return ok("monitor.ping_url answers")
}

func (e *environment) checkMetricsFile() []finding {
	path := e.config.Monitor.MetricsFile
	if path == "" {
		return nil
	}
	const key = "monitor.metrics_file: "
	dir := filepath.Dir(path)
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return warn(key+dir+": "+err.Error(), "create the folder, and let this account write in it")
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return warn(key+path+" is not a file", "name a file in a folder of its own")
	}
	if !strings.HasSuffix(path, ".prom") {
		return warn(key+"node_exporter reads only files that end with .prom", "rename it")
	}
	return ok("passes can write %s", path)
}
