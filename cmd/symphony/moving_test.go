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
	text := movingScript + "-- old --\nset -ex\n" + stop + "-- archive --\nset -ex\ntar " + archive + "-- new --\nset -ex\n" + blocks[1]
	runScripts(t, params(t, "script"), map[string]string{"moving": text})
}

const movingScript = `
[!unshare] skip 'there can be no second machine here'
env SYMPHONY_STATE_DIR=
mkdir home/web-shop home/.codex
exec sed 's|root: .*|root: ~/symphony/web-shop|; s|--home .*|--home '$HOME'/.codex|' WORKFLOW.md
cp stdout home/web-shop/WORKFLOW.md
exec sh -c 'symphony check home/web-shop/WORKFLOW.md | sed "s/.* its environment file is //" > name'
exec sh -c 'mkdir -p home/.config/symphony && umask 077 && echo "LINEAR_API_KEY=$LINEAR_API_KEY" > "$(cat name)"'
env LINEAR_API_KEY=

# An issue under way, one turn done, and one that is held.
exec env -u LINEAR_API_KEY symphony tick home/web-shop/WORKFLOW.md
linear add ABC-1 work.agent
linear add ABC-2 work.agent
exec env -u LINEAR_API_KEY symphony hold ABC-2 -w home/web-shop/WORKFLOW.md
exec env -u LINEAR_API_KEY symphony tick home/web-shop/WORKFLOW.md
stdout '^dispatch ABC-1'
! stdout 'dispatch ABC-2'
until '^running\tABC-1\tTodo\tstreaming_turn\t2\t' symphony ps home/web-shop/WORKFLOW.md

exec env -u LINEAR_API_KEY sh old
stdout '^stop ABC-1'
gone symphony
exec sh archive

# The new machine has nothing but the archive.
mkdir home2
cp home/symphony.tar.gz home2/symphony.tar.gz
linear edit ABC-1 done.agent
exec env -u LINEAR_API_KEY sh machine
stdout '^dispatch ABC-1 run=\S+ reason=interrupted$'
! stdout 'dispatch ABC-2'
linear is ABC-1 Human Review
exec cat home2/symphony/web-shop/ABC-1/work.txt
stdout '^begun\nfinished$'
exec sh -c 'echo home2/.local/state/symphony/*'
exec sh -c 'for f in home2/.local/state/symphony/*-*; do ln -s $f moved; done'
env STATE=$WORK/moved
sql 'SELECT outcome FROM runs WHERE kind = ''agent'' ORDER BY id'
cmp stdout runs.txt
sql 'SELECT count(DISTINCT thread_id) FROM runs WHERE identifier = ''ABC-1'''
stdout '^1$'
sql 'SELECT identifier, status, hold_reason FROM claims'
stdout '^ABC-2\theld\toperator$'
gone symphony
-- runs.txt --
canceled
succeeded
-- boot_id --
11111111-2222-4333-8444-555555555555
-- machine --
exec unshare --pid --mount --fork --mount-proc sh -ec '
	mount --bind boot_id /proc/sys/kernel/random/boot_id
	mount --bind home2 home
	(cd home && . "$WORK/new")
	cd home/web-shop
	until symphony tick --lock-timeout 10s | grep -q " 0 running, 0 waiting"; do sleep 0.1; done'
-- work.agent --
sh echo begun >> work.txt
turn 2:
sleep 60s
-- done.agent --
sh echo finished >> work.txt
{move Human Review}
`
