package web

import (
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/internal/test"
)

// Notices that no page takes do not push out those that one is about to take.
func TestNoticesAreKept(t *testing.T) {
	c := newCommands()
	var names []string
	for range maxNotices + 1 {
		names = append(names, c.leave(page.Notice{}))
	}
	test.Equal(t, "the oldest is kept", c.take(names[0]) != nil, false)
	for _, name := range names[1:] {
		test.Equal(t, "another is kept", c.take(name) != nil, true)
		test.Equal(t, "it is kept for a second page", c.take(name) != nil, false)
	}
}
