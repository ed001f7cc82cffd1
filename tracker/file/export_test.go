package file

import "time"

// Wait sets how long ByIDs looks for an issue that is missing.
func Wait(d time.Duration) { patience = d }
