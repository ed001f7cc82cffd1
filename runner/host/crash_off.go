//go:build !crashpoints

package host

// WithCrashPoints returns m without the build tag crashpoints.
func WithCrashPoints(m Machine) Machine { return m }
