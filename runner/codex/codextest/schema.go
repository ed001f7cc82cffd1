package codextest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/symphony-cron/symphony/runner/codex/compat"
)

const schemaCommand = "generate-json-schema"

// printSchema serves "app-server [flags] generate-json-schema --out DIR": the schema of what the server speaks.
func printSchema(args []string, errw io.Writer) int {
	flags := flag.NewFlagSet(schemaCommand, flag.ContinueOnError)
	flags.SetOutput(errw)
	out := flags.String("out", "", "folder for the schema")
	flags.Bool("experimental", false, "its experimental members, too: they are always there")
	err := flags.Parse(args[slices.Index(args, schemaCommand)+1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case *out == "":
		fmt.Fprintln(errw, schemaCommand+" needs --out DIR")
		return 2
	}
	if err := compat.Print(*out); err != nil {
		fmt.Fprintln(errw, "Error:", err)
		return 1
	}
	return 0
}
