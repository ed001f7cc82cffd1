package text_test

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 41 * time.Millisecond: "41ms", 41 * time.Second: "41s", 61 * time.Second: "1m01s",
		2*time.Hour + 5*time.Minute: "2h05m", 47 * time.Hour: "47h00m", 100 * time.Hour: "4d",
	} {
		test.Equal(t, d.String(), text.Duration(d), want)
	}
}
