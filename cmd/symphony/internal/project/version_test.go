package project

import (
	"runtime/debug"
	"testing"
)

// The version is what the go command has put into the program.
func TestVersionOf(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		module   string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"v1.2.4-0.20261120103000-0123456789ab+dirty", []debug.BuildSetting{revision, dirty}, "v1.2.4-0.20261120103000-0123456789ab+dirty"},
		{"(devel)", []debug.BuildSetting{revision}, "devel-0123456789ab"},
		{"(devel)", []debug.BuildSetting{revision, dirty}, "devel-0123456789ab+dirty"},
		{"", nil, "devel"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}
		if got := versionOf(info); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.module, c.settings, got, c.want)
		}
	}
}
