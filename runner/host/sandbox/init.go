package sandbox

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Exit codes of [Init] itself. Others are the command's, which has 128 and its number if a
// signal ended it.
const (
	ExitInitFailed = 125 // no command was started
	ExitNotRun     = 126 // the command can't be executed
	ExitNotFound   = 127 // there is no such command
)

// noLandlock is what Init says where runs could not be kept from passing each other open files.
const noLandlock = "this kernel has no Landlock of version 2 or newer"

// InitOptions are the command line of [Init].
type InitOptions struct {
	Proxy     string // the socket of the proxy; empty if there is none
	Processes int    // see Box.Processes
	Terminal  bool   // see Box.Terminal
	// Own are directories that no other run can write. Sockets can be made there alone.
	Own     []string
	Command []string
}

// ParseInit reads the command line of Init, without the name of the program and the command.
func ParseInit(args []string) (InitOptions, error) {
	var o InitOptions
	flags := flag.NewFlagSet(InitCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.Proxy, "proxy", "", "the socket of the proxy")
	flags.IntVar(&o.Processes, "processes", 0, "how many processes")
	flags.BoolVar(&o.Terminal, "terminal", false, "at a terminal")
	flags.Func("own", "a directory that no other run can write", func(dir string) error {
		o.Own = append(o.Own, dir)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("%s: %w", InitCommand, err)
	}
	o.Command = flags.Args()
	if len(o.Command) == 0 {
		return o, errors.New(InitCommand + " needs a command")
	}
	return o, nil
}
