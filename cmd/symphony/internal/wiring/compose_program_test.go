package wiring

import (
	"runtime/debug"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestBuild(t *testing.T) {
	commit := []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: "4be0a1f0c6a2a3f1d6d1c4d1b7c0e8d1a0b9e7f2"},
		{Key: "vcs.time", Value: "2026-02-24T20:15:30Z"},
		{Key: "vcs.modified", Value: "false"},
	}
	changed := append(commit[:3:3], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", commit, "v1.2.3 (4be0a1f0c6a2, 2026-02-24)"},
		{"v1.2.3", nil, "v1.2.3"}, // by go install
		{"(devel)", changed, "devel (4be0a1f0c6a2 with changes, 2026-02-24)"},
		{"", nil, "devel"}, // a test
	} {
		test.Equal(t, "it", buildOf(&debug.BuildInfo{
			Main:     debug.Module{Version: c.version},
			Settings: c.settings,
		}).String(), c.want)
	}
}
