// Package crash names the places where a program may die. Wherever a pass or a worker writes, spawns, signals, renames
// or removes, a call of At stands before or after it: what a power failure or a SIGKILL there would leave behind is
// what the next pass has to find its way through. A test kills the program at each of them in turn and looks whether
// anything was lost, doubled or left (cmd/symphony, TestCrashPoints).
//
//	crash.At("state.finish.before")
//
// The name is a literal and stands in one place only: package, effect, and how far it has come. A new one needs no
// list. The test reads the names from the source, and fails by name for one that none of its scenarios comes by.
//
// Without the build tag crashpoints At is an empty function, of which the compiler leaves nothing: no call, no name.
// It must not be deferred, for a deferred call is kept.
//
// The package imports nothing of ours, so that all may import it; it is no part of the core's decisions.
package crash
