//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

// systemCommands: scripts that want a terminal or a small disk run on linux only.
func systemCommands() map[string]func(*testscript.TestScript, bool, []string) { return nil }

func systemPrograms() map[string]func() { return nil }

func canMount() bool { return false }

func canFreeze() bool { return false }
