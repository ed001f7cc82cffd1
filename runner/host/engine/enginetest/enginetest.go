// Package enginetest contains helpers that the tests of engines that start jobs share.
package enginetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// NewJob returns the job of a run, without its engine. All its files are in dir. Its programs
// get the variables and the key of a tracker.
func NewJob(t testing.TB, dir, runID, hostName string, env ...string) *engine.JobEngine {
	t.Helper()
	program := filepath.Join(dir, "program")
	test.OK(t, os.WriteFile(program, []byte("#!/bin/sh"), 0o700))
	return &engine.JobEngine{
		Host:   hostName,
		Hosted: filepath.Join(dir, "hosted"),
		Run: &engine.Run{
			Program:     engine.Program{Path: program, Sum: "sum", Size: 9},
			Project:     "shop",
			Env:         append(env, "LINEAR_API_KEY=x"),
			Incarnation: remote.Incarnation{RunID: runID, Number: 1, Secret: "the secret"},
			Waits:       func(string) {},
		},
	}
}

// Verdict returns a worker's conclusion from an error of Start or Dial, such as "nothing
// begun".
func Verdict(err error) string {
	switch {
	case err == nil:
		return "runs"
	case engine.NothingBegun(err):
		return "nothing begun"
	case remote.Ends(err):
		return "ended"
	}
	return "not known"
}
