package paths_test

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
)

func TestInside(t *testing.T) {
	for path, want := range map[string]bool{"/a/b": true, "/a/b/c": true, "/a/bc": false, "/a": false, "/a/b/..c": true} {
		test.Equal(t, path+" is inside /a/b", paths.Inside("/a/b", path), want)
	}
}
