//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"runtime"
)

// Init fails: there is no sandbox on this system.
func Init(InitOptions) (code int, err error) {
	return ExitInitFailed, errors.New("there is no sandbox on " + runtime.GOOS + "/" + runtime.GOARCH)
}
