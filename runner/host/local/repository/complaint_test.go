package repository

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// The reason is one sentence, as the remotes and versions of git write it. The rest is for the
// log.
func TestReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ output, want string }{
		{
			"remote: no space for you        \nTo ../remote\n ! [remote rejected] 1a2b -> w (pre-receive " +
				"hook declined)\n" +
				"error: failed to push some refs to '../remote'\n",
			"remote: no space for you (pre-receive hook declined)",
		},
		{
			"remote: error: refusing to update checked out branch: refs/heads/w        \n" +
				"remote: error: By default, updating the current branch in a non-bare repository        \n" +
				"remote: is denied, because it will make the index and work tree inconsistent        \n" +
				"To ../p\n ! [remote rejected] 1a2b -> w (branch is currently checked out)\n",
			"remote: refusing to update checked out branch: refs/heads/w (branch is currently checked out)",
		},
		{
			"remote: error: GH013: Repository rule violations found for refs/heads/w.        \nremote: \n" +
				"remote: - Commits must have verified signatures.        \nremote:   Found 1 violation:  " +
				"      \nremote: \n" +
				"remote:   4f1c        \n ! [remote rejected] 1a2b -> w (push declined due to repository " +
				"rule violations)\n",
			"remote: GH013: Repository rule violations found for refs/heads/w. Commits must have " +
				"verified signatures. " +
				"(push declined due to repository rule violations)",
		},
		{
			"remote: warning: See https://gh.io/lfs for more information.        \nremote: error: Trace: " +
				"0a1b        \n" +
				"remote: error: See https://gh.io/lfs for more information.        \n" +
				"remote: error: File big.bin is 150.00 MB; this exceeds GitHub's file size limit of " +
				"100.00 MB        \n" +
				"remote: error: GH001: Large files detected.        \n ! [remote rejected] 1a2b -> w " +
				"(pre-receive hook declined)\n",
			"remote: File big.bin is 150.00 MB; this exceeds GitHub's file size limit of 100.00 MB " +
				"(pre-receive hook declined)",
		},
		{
			"remote: \nremote: ========================================================================\nremote: \n" +
				"remote: ERROR: You are not allowed to push code to this project.\nremote: \n" +
				"remote: ========================================================================\n" +
				"fatal: Could not read from remote repository.\n",
			"remote: You are not allowed to push code to this project.",
		},
		{
			"remote: busy\nfatal: unable to access 'https://h/app.git/': The requested URL returned error: 503\n",
			"remote: busy (HTTP 503)",
		},
		{
			"fatal: unable to access 'https://h/app.git/': The requested URL returned error: 404\n",
			"fatal: unable to access 'https://h/app.git/': The requested URL returned error: 404",
		},
		{
			" ! [rejected]        1a2b -> w (stale info)\nhint: Updates were rejected\n",
			"the remote refused the push: stale info",
		},
		{
			"** Authorized users only **\ngit@host: Permission denied (publickey).\nfatal: Could not " +
				"read from remote repository.\n\n" +
				"Please make sure you have the correct access rights\nand the repository exists.\n",
			"git@host: Permission denied (publickey).",
		},
		{
			"warning: redirecting to https://b/\nerror: unable to write file x: No space left on device\n" +
				"fatal: cannot store pack\n",
			"error: unable to write file x: No space left on device",
		},
		{"fatal: the remote end hung up unexpectedly\n", "fatal: the remote end hung up unexpectedly"},
		{"usage of something else\n", "usage of something else"},
		{"remote: " + strings.Repeat("x", 1000), "remote: " + strings.Repeat("x", maxReason-len("remote: ")) + "…"},
		{"hint: try again\n", ""},
	} {
		said := complaintOf(c.output, func(line string) string { return line })
		test.Equal(t, c.output, said.reason(), c.want)
	}
	said := complaintOf("remote: no\nhint: ask someone\n", func(line string) string { return line })
	test.Equal(t, "for the log", said.all(), "remote: no; hint: ask someone")
}
