// Package crash defines crash points: places where a test kills the program, to check that the
// next pass recovers from a SIGKILL or a power failure there (cmd/symphony, TestCrashPoints).
// There are three kinds:
//
//   - Deps puts points around a pass's calls to the tracker, the processes and the workspaces,
//     and host.WithCrashPoints around a worker's calls to its machine: "runners.Start.after",
//     "host.RunHook.before".
//   - Method is called before and after the effect, in a function that all writes of a package
//     go through. The point is named after the method that writes: "state.Finish.before".
//   - At is called between two effects of an operation that a crash can separate. Its name is
//     a literal that occurs once.
//
// The test reads the names from the source and fails for a point that none of its scenarios
// reaches.
//
// Without the build tag crashpoints these are empty functions, which the compiler removes
// together with their names. Do not defer them: the compiler keeps a deferred call.
package crash
