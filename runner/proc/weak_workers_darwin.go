package proc

import (
	"errors"

	"github.com/symphony-cron/symphony/reconcile"
)

// Workers is not there: the command lines of others are not read.
func Workers(string) (map[string]reconcile.Process, error) { return nil, errors.ErrUnsupported }
