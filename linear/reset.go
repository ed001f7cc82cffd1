package linear

import "time"

// ResetAt is when the next request may be made; it implements reconcile.Limited.
func (r *RateLimited) ResetAt() time.Time { return r.Reset }
