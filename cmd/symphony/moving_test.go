package main

import (
	"strings"
	"testing"
)

// What the README says about moving to a second machine, command by command: on one machine with a home, then on another
// with another home in its place, another boot and other processes.
func TestMovingToAnotherMachine(t *testing.T) {
	const title = "## Backup, moving, upgrading\n"
	var blocks []string
	for _, block := range codeBlocks(between(t, document(t, "docs/operations.md"), title, "\n## ")) {
		var kept strings.Builder
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "systemctl ") { // there is none here
				kept.WriteString(line)
			}
		}
		blocks = append(blocks, kept.String())
	}
	if len(blocks) != 2 {
		t.Fatalf("not one block for each machine: %q", blocks)
	}
	// A person is slower than the last worker's own pass, which is just settling.
	stop, archive, found := strings.Cut(blocks[0], "tar ")
	if !found {
		t.Fatalf("no archive: %q", blocks[0])
	}
	text := made("moving.txtar") + "-- old --\nset -ex\n" + stop + "-- archive --\nset -ex\ntar " + archive + "-- new --\nset -ex\n" + blocks[1]
	runScripts(t, params(t, "script"), map[string]string{"moving": text})
}
