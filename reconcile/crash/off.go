//go:build !crashpoints

package crash

import "github.com/symphony-cron/symphony/reconcile"

// At does nothing without the build tag crashpoints.
func At(string) {}

// Method does nothing without the build tag crashpoints.
func Method(string) {}

// Deps returns d without the build tag crashpoints.
func Deps(d reconcile.Deps) reconcile.Deps { return d }

// Variables returns the environment variables that control the points: none without the build
// tag crashpoints.
func Variables() []string { return nil }
