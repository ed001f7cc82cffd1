//go:build !crashpoints

package host

// WithCrashPoints returns h without the build tag crashpoints.
func WithCrashPoints(h Host) Host { return h }
