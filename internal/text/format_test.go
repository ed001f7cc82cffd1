package text_test

import (
	"fmt"
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

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{
		0:           "0 bytes",
		1023:        "1023 bytes",
		1024:        "1.0 KiB",
		1536:        "1.5 KiB",
		1<<20 - 1:   "1.0 MiB",
		1023 * 1024: "1023.0 KiB",
		1<<30 - 1:   "1.0 GiB",
		5 << 40:     "5.0 TiB",
		3000 << 40:  "3000.0 TiB",
	} {
		test.Equal(t, fmt.Sprint(n), text.BytesText(n), want)
	}
}
