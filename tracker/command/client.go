package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	timeout   = 30 * time.Second
	maxOutput = 16 << 20 // bytes of an answer
)

// The verbs of a program. It must have the first two.
const (
	verbCandidates = "candidates"
	verbByIDs      = "by-ids"
	verbTool       = "tool"
	verbComment    = "comment"
	verbMove       = "move"
)

// KeyVar is the variable in which the program gets the value of tracker.api_key.
const KeyVar = "SYMPHONY_TRACKER_API_KEY"

// ErrNoProgram means that PATH has no program of the name, such as "tracker".
var ErrNoProgram = errors.New("there is no such program in PATH")

// Options configure an Adapter.
type Options struct {
	Command []string // the program and its arguments, without the verb
	Verbs   []string // the optional verbs of the program
	// Run runs a program to its end, and ends all of its processes. Its error reports that the
	// program could not be run, or is the error of ctx. It wraps ErrNoProgram if the program
	// is not in PATH. If there is more output than limit bytes, Run returns limit+1 bytes.
	Run func(ctx context.Context, argv []string, stdin []byte, limit int) (Output, error)
	// Key is the value of tracker.api_key, which Run passes to the program in the variable
	// KeyVar; empty if there is none.
	Key string
	// Redact removes secrets from a text; nil changes nothing.
	Redact func(string) string
	// ReadOnly makes the agent's tools refuse every call.
	ReadOnly bool
	// States are all states that the workflow names, in which Find looks for an identifier.
	States  []string
	Now     func() time.Time // time.Now if nil
	Timeout time.Duration    // 30 s if zero
}

// Output is the output of a program, and how it ended.
type Output struct {
	Stdout, Stderr []byte // Stderr may be the end of it
	Exit           int    // negative for a signal
	Status         string // how it ended, in words
}

// client runs the program.
type client struct{ Options }

// ask runs the program once and returns the fields of its answer.
func (c *client) ask(ctx context.Context, verb string, request any) (record, error) {
	stdin := text.JSON(request)
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	out, err := c.Run(bounded, append(slices.Clone(c.Command), verb), stdin, maxOutput)
	if len(out.Stdout) > maxOutput {
		return record{}, c.fail(
			verb,
			"answer_too_large",
			fmt.Sprintf("more than %d MiB on its standard output", maxOutput>>20),
			"print fewer issues: leave out issues in other states than the request names",
			nil,
		)
	}
	if err != nil {
		return record{}, c.notEnded(ctx, verb, out, stdin, err)
	}
	if out.Exit != 0 {
		return record{}, c.exit(verb, out, stdin)
	}
	if c.Key != "" {
		out.Stdout = bytes.ReplaceAll(out.Stdout, []byte(c.Key), []byte("[key]"))
	}
	answer, err := parse(out.Stdout)
	if err != nil {
		return record{}, c.invalid(verb, err)
	}
	return answer, nil
}
