package host_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// The message has the last lines that git, ssh and the remote printed. The rest is for the log.
func TestGitError(t *testing.T) {
	t.Parallel()
	failed := errors.New("exit status 1")
	for _, c := range []struct{ output, want string }{
		{
			"Warning: x\nremote: no space for you        \nTo ../remote\n ! [remote rejected] 1a2b -> w (pre-receive " +
				"hook declined)\nerror: failed to push some refs to '../remote'\n",
			"Warning: x; remote: no space for you; ! [remote rejected] 1a2b -> w (pre-receive hook declined)",
		},
		{
			"remote: \nremote: =======\nremote: \nremote: ERROR: You are not allowed to push code to this project.\n" +
				"remote: \nremote: =======\nfatal: Could not read from remote repository.\n",
			"remote: ERROR: You are not allowed to push code to this project.; " +
				"fatal: Could not read from remote repository.",
		},
		{
			"** Authorized users only **\ngit@host: Permission denied (publickey).\nfatal: Could not " +
				"read from remote repository.\n\n" +
				"Please make sure you have the correct access rights\nand the repository exists.\n",
			"** Authorized users only **; git@host: Permission denied (publickey).; " +
				"fatal: Could not read from remote repository.",
		},
		{"one\rtwo\nthree\nfour\n", "two; three; four"},
		{"remote: " + strings.Repeat("x", 1000), "remote: " + strings.Repeat("x", 200-len("remote: ")) + "…"},
		{"hint: try again\n", "exit status 1"},
		{"", "exit status 1"},
	} {
		err := host.NewGitError("git push", []byte(c.output), failed)
		test.Equal(t, c.output, err.Error(), "git push: "+c.want)
		test.ErrorIs(t, "the error of the process", err, failed)
	}
	err := host.NewGitError("git push", []byte("remote: no\nremote: -----\nhint: ask someone\n"), failed)
	test.Equal(t, "for the log", err.Output(), "remote: no; hint: ask someone")
}
