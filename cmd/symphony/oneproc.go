//go:build urfave_cli_no_docs

package main

// A released program begins with one processor, which is the tag's other meaning here; tests, which would inherit it
// and take turns, do not.
import _ "github.com/symphony-cron/symphony/cmd/symphony/internal/oneproc"
