// Package crash names the places where a test kills the program, to see what a SIGKILL or a power failure there would
// leave for the next pass (cmd/symphony, TestCrashPoints). There are three kinds:
//
//   - Deps puts points around what a pass asks of the tracker, processes and workspaces, and host.WithCrashPoints around
//     what a worker asks of its machine: "runners.Start.after", "host.RunHook.before".
//   - Method stands in a function that every write of a package goes through, before and after its effect. The point is
//     named after the method that writes: "state.Finish.before".
//   - At stands where one operation has two effects that a crash can separate. Its name is a literal that occurs once.
//
// The test reads the names from the source and fails for a point that none of its scenarios reaches.
//
// Without the build tag crashpoints these are empty functions that the compiler removes with their names. Never defer them:
// a deferred call is kept.
package crash
