package proc

import (
	"errors"

	"github.com/symphony-cron/symphony/reconcile"
)

// Workers is not there: the command lines of others are not read.
func Workers(string) (map[string]FoundWorker, error) { return nil, errors.ErrUnsupported }

// OwnPasses is not there either.
func OwnPasses(string) ([]reconcile.Process, error) { return nil, errors.ErrUnsupported }
