//go:build !linux

package main

// systemCommands returns nothing: scripts that need a terminal or a small disk run only on
// linux.
func systemCommands() map[string]scriptCommand { return nil }

func systemPrograms() map[string]func() { return nil }

func canMount() bool { return false }

func canFreeze() bool { return false }
