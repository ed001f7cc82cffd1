package proc

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/symphony-cron/symphony/internal/lock"
)

// holdSlot locks a file for a number. The files stay: an empty one for each run at the same time.
func holdSlot(slot int) (io.Closer, error) {
	path := filepath.Join("/tmp", "symphony-slot-"+strconv.Itoa(slot))
	held, err := lock.Take(context.Background(), path, lock.Exclusive, 0)
	if errors.Is(err, fs.ErrPermission) { // another account has made the file
		return nil, lock.ErrHeld
	}
	return held, err
}
