package proc

import (
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
)

// ChildScanner is not to be had on macOS.
type ChildScanner struct{}

// NewChildScanner gives errors.ErrUnsupported on macOS.
func NewChildScanner() (*ChildScanner, error) {
	return nil, fmt.Errorf("children of threads: %w", errors.ErrUnsupported)
}

// NewSince finds nothing.
func (*ChildScanner) NewSince() ([]reconcile.Process, error) { return nil, nil }
