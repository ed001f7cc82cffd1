package text_test

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                   "0ms",
		41 * time.Millisecond:          "41ms",
		41 * time.Second:               "41s",
		61 * time.Second:               "1m 1s",
		3 * time.Minute:                "3m",
		36*time.Minute + 9*time.Second: "36m",
		2*time.Hour + 5*time.Minute:    "2h 5m",
		47 * time.Hour:                 "47h",
		100 * time.Hour:                "4d",
	} {
		test.Equal(t, d.String(), text.Duration(d), want)
	}
}
