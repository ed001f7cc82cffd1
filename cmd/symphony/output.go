package main

import (
	"reflect"

	"github.com/urfave/cli/v2"
)

// jsonFlags returns more followed by --json. The command prints a T.
func jsonFlags[T any](more ...cli.Flag) []cli.Flag {
	return jsonFlagsOf([]jsonDocument{{"", reflect.TypeFor[T]()}}, more...)
}

// jsonFlagsOf is jsonFlags for a command that prints different documents.
func jsonFlagsOf(documents []jsonDocument, more ...cli.Flag) []cli.Flag {
	return append(more, jsonFlag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}, documents})
}

// jsonFlag is --json. The published schemas are made from its documents.
type jsonFlag struct {
	*cli.BoolFlag
	documents []jsonDocument
}

// jsonDocument is the output of a command with --json, and the argument or flag with which it is
// printed; empty for the usual one.
type jsonDocument struct {
	verb string
	typ  reflect.Type
}
