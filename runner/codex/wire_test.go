package codex

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestShellText(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`/bin/bash -lc 'touch a'`, "touch a"},
		{`/bin/bash -c 'touch a'`, "touch a"},
		{`bash -lc ls`, "ls"},
		{`/usr/bin/zsh -lc "echo 'x'"`, "echo 'x'"},
		{`bash -lc 'it'\''s'`, "it's"},
		{`grep -c 'x' file`, "grep -c 'x' file"},
		{`make -lc x`, "make -lc x"},
		{`ls`, "ls"},
		{`/bin/bash -lc`, "/bin/bash -lc"},
		{`/bin/bash -lc ''`, "/bin/bash -lc ''"},
		{`/w/evilsh -lc ls`, "/w/evilsh -lc ls"},
		{`./bash -lc ls`, "./bash -lc ls"},
		{`/bin/bash -lc 'ls' rm`, "/bin/bash -lc 'ls' rm"},
		{`/bin/bash -lc 'a' 'b'`, "/bin/bash -lc 'a' 'b'"},
		{`/bin/bash -lc 'a`, "/bin/bash -lc 'a"},
		{`/bin/bash -lc "echo it's \$HOME \n"`, `echo it's $HOME \n`},
		{`/bin/bash -lc a\ b`, "a b"},
	} {
		test.Equal(t, c.raw, shellText(c.raw), c.want)
	}
}
