//go:build !linux

package sandbox

import (
	"errors"
	"net"
	"runtime"
)

// Listen fails: there is no sandbox on this system.
func Listen(string) (net.Listener, error) {
	return nil, errors.New("there is no sandbox on " + runtime.GOOS)
}
