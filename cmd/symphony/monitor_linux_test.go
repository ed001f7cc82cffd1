//go:build linux

package main

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor/checktest"
	"github.com/symphony-cron/symphony/internal/test"
)

// watchedBy lets the project report its passes to a check.
func (m *machine) watchedBy(s *checktest.Server) {
	m.t.Helper()
	m.t.Cleanup(s.Close)
	m.mustSh(m.as("echo SYMPHONY_PING_URL=" + s.URL + " >> " + m.envFile("web-shop")))
	const keys = "monitor: {ping_url: $SYMPHONY_PING_URL}\n"
	const workflow = "web-shop/WORKFLOW.md"
	m.write(workflow, replaced(m.t, m.file(workflow), "workspace:\n", keys+"workspace:\n"))
}

// checkIs waits for a status of the check.
func (m *machine) checkIs(s *checktest.Server, status string) {
	m.t.Helper()
	m.until("the check is "+status, func() (bool, string) { return s.Status() == status, s.Status() })
}

// later makes all passes older.
func (m *machine) later(d time.Duration) {
	m.t.Helper()
	found := test.Must(filepath.Glob(filepath.Join(m.home, ".local/state/symphony/web-shop-*/state.db")))
	if len(found) != 1 {
		m.t.Fatalf("databases: %q", found)
	}
	db := test.Must(sql.Open("sqlite", "file:"+found[0]+"?_pragma=busy_timeout(10000)"))
	defer db.Close()
	test.Must(
		db.Exec(
			`UPDATE passes SET started_at = started_at - ?, mono_ns = mono_ns - ?`,
			d.Milliseconds(),
			d.Nanoseconds(),
		),
	)
}

// silent shows that the end of the schedule is noticed: by the check when its period and grace
// time are over, by status, ps and the page after the grace time of the schedule,
// which is three minutes here. Passes of an operator hide it from none of them.
func (m *machine) silent(t *testing.T, s *checktest.Server) {
	t.Helper()
	m.checkIs(s, "down")
	const symphony = "~/bin/symphony "
	m.later(2 * time.Minute)
	said, code := m.sh(m.as(symphony + "status -w web-shop/WORKFLOW.md"))
	if code != 0 {
		t.Errorf("within the grace time: exit %d, %s", code, said)
	}
	m.later(time.Minute)
	said, code = m.sh(m.as(symphony + "status -w web-shop/WORKFLOW.md"))
	if code != 2 {
		t.Errorf("after the grace time: exit %d, %s", code, said)
	}
	m.wants(said, "NOT TICKING  no schedule is active; its last pass was 3m")
	pings := len(s.Pings())
	m.wants(m.mustSh(m.as(symphony+"ps -w web-shop/WORKFLOW.md 2>&1")), "NOT TICKING")
	page := m.mustSh(m.as(`~/bin/symphony serve --port 0 -w web-shop/WORKFLOW.md > serve.log 2>&1 & server=$!
		for i in $(seq 100); do grep -q ^serving serve.log && break; sleep 0.1; done
		exec 3<>/dev/tcp/127.0.0.1/$(sed -n "s/^serving at .*:\([0-9]*\)\/$/\1/p" serve.log)
		printf "GET / HTTP/1.0\r\nHost: localhost\r\nAccept: text/html\r\n\r\n" >&3; cat <&3; kill $server; wait $server`))
	m.wants(page, "No schedule is active")
	if len(s.Pings()) != pings {
		t.Errorf("passes without a schedule pinged: %+v", s.Pings()[pings:])
	}
}
