// Package render prints the values of package view: tables and coloured lines for a terminal, and for a pipe one line per
// row, of exact values between tabs. The first word of such a line says what it is.
package render

import (
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// fieldWidth is the width of the names of fields on a terminal.
const fieldWidth = 9

// printField prints a name and its value. paint colours the value and may be nil.
func printField(w *term.Env, name, value string, paint func(string) string) {
	value = term.Visible(strings.ReplaceAll(value, "\n", " "))
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", name, value)
		return
	}
	if paint != nil {
		value = paint(value)
	}
	fmt.Fprintf(w.Stdout, "  %s  %s\n", w.Dim(fmt.Sprintf("%-*s", fieldWidth, name)), value)
}

// Hint says what to do about an error that a run ended with, empty where its message says enough.
func Hint(code string) string {
	if code == string(agent.CodeSandboxUnavailable) {
		return runner.SandboxHint()
	}
	return ""
}

// errorsOfRun joins the error of a run and that of its after_run hook.
func errorsOfRun(r view.RunRow) string {
	line := orEmpty(r.Error)
	if r.AfterRunError != nil {
		line = strings.TrimPrefix(line+"; hook failed: "+*r.AfterRunError, "; ")
	}
	return line
}

func orEmpty[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}
