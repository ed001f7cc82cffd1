//go:build !crashpoints

package crash

// At does nothing without the build tag crashpoints.
func At(string) {}

// Method does nothing without the build tag crashpoints.
func Method(string) {}

// Variables are the environment variables that control the points: none without the build tag crashpoints.
func Variables() []string { return nil }
