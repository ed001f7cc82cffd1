//go:build !linux

package main

// systemCommands: scripts that want a terminal or a small disk run on linux only.
func systemCommands() map[string]scriptCommand { return nil }

func systemPrograms() map[string]func() { return nil }

func canMount() bool { return false }

func canFreeze() bool { return false }
