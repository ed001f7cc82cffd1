//go:build symphony_release

package main

// A released program begins with one processor; tests, which would inherit it and take turns, do not.
import _ "github.com/symphony-cron/symphony/cmd/symphony/internal/oneproc"
