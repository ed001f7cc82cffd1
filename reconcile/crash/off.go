//go:build !crashpoints

package crash

// At is a place to die at: nothing in a program that is built without the tag crashpoints.
func At(string) {}

// Variables are those that steer At: none in a program that is built without the tag crashpoints.
func Variables() []string { return nil }
