package proc

import "github.com/symphony-cron/symphony/reconcile"

// Span is a part of a file, its last byte included.
type Span struct{ First, Last uint64 }

// LockHolders finds nothing: this system does not tell who keeps a lock.
func LockHolders([]reconcile.Process, map[string][]Span) ([]reconcile.Process, error) {
	return nil, nil
}
