package proc

import (
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
)

// Brood is not to be had on macOS.
type Brood struct{}

// NewBrood gives errors.ErrUnsupported on macOS.
func NewBrood() (*Brood, error) {
	return nil, fmt.Errorf("children of threads: %w", errors.ErrUnsupported)
}

// Fresh finds nobody.
func (*Brood) Fresh() ([]reconcile.Process, error) { return nil, nil }
