package reconcile

import "time"

const (
	continuationDelay = time.Second
	firstBackoff      = 10 * time.Second
	longestProbe      = 10 * time.Minute
)

// Delay is how long the given attempt (1 and up) waits after a failure: 10 s, doubled for each, at most max
// (specification 8.4).
func Delay(attempt int, max time.Duration) time.Duration {
	d := firstBackoff
	for i := 1; i < attempt; i++ {
		if d > max/2 {
			return max // also where doubling would overflow
		}
		d *= 2
	}
	return min(d, max)
}
