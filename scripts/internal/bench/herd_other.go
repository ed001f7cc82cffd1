//go:build !linux

package main

import (
	"fmt"
	"io"
	"time"
)

const herdCommand = "herd"

type herdJob struct {
	job
	Every time.Duration
}

type herdUsage struct {
	Passes  int
	CPUNS   int64
	PeakKiB int64
	Err     string
}

func serveHerd(_ io.Reader, out io.Writer) int {
	fmt.Fprintln(out, `{"Err":"what others leave behind is inherited on linux only"}`)
	return 1
}
