package reconcile

import "time"

const (
	continuationDelay = time.Second
	firstBackoff      = 10 * time.Second
	longestProbe      = 10 * time.Minute
)

// BackoffDelay returns how long the given attempt (from 1) waits after a failure: 10 s,
// doubled with each attempt, at most longest (specification 8.4).
func BackoffDelay(attempt int, longest time.Duration) time.Duration {
	d := firstBackoff
	for i := 1; i < attempt; i++ {
		if d > longest/2 {
			return longest // before doubling could overflow
		}
		d *= 2
	}
	return min(d, longest)
}
