package proc

import (
	"fmt"
	"os"
)

// Load returns how many processes wanted a processor during the last minute, on average; 0 where the system
// does not say it in /proc/loadavg.
func Load() (load float64) {
	text, err := os.ReadFile("/proc/loadavg") // "31.04 18.64 12.45 35/410 2211"
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return 0
	}
	return load
}
