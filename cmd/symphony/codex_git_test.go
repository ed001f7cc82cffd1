package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// gitCommands are those of the scripts that try git inside the agent's sandbox.
func gitCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){"git-serve": gitServeCmd, "tries": triesCmd}
}

// gitServeCmd serves the repositories in the script's directory to who may push to them, by git's own daemon at
// $GIT_REMOTE on the loopback interface, until the script's end: git-serve
//
// The daemon is given its connections, one process each: so there is no port to guess that another could take, and
// each of them is known and waited for.
func gitServeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: git-serve")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	d := &gitDaemon{dir: ts.MkAbs("."), env: scriptEnv(ts)}
	d.wg.Go(func() { d.accept(ctx, listener) })
	ts.Setenv("GIT_REMOTE", "git://"+listener.Addr().String())
	ts.Defer(func() {
		listener.Close()
		cancel() // ends the daemons that still have a connection
		d.wg.Wait()
	})
}

type gitDaemon struct {
	dir string
	env []string
	wg  sync.WaitGroup
}

func (d *gitDaemon) accept(ctx context.Context, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed: the script is over
		}
		d.wg.Go(func() {
			defer conn.Close()
			d.answer(ctx, conn)
		})
	}
}

// answer has git's daemon speak over the very connection, as inetd would. It ends with the client, whom a failure of
// the daemon's shows itself.
func (d *gitDaemon) answer(ctx context.Context, conn net.Conn) {
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, "git", "daemon", "--inetd", "--export-all", "--enable=receive-pack", "--base-path="+d.dir, d.dir)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = d.dir, d.env, file, file, io.Discard, time.Second
	_ = cmd.Run()
}

// trier goes through a list of commands and writes it anew, each with what came of it: "works", "partly" where the
// command ends well but complains, or "fails"; under it what it said, of complaints only the first. What changes
// from one run to the next, the script's directory, the remote's port and the ids of commits, becomes a word.
const trier = `export LC_ALL=C
work=$(cd "$(dirname "$0")" && pwd -P)
complaint() {
	grep -E '(^|: )(error|fatal|warning): |^CONFLICT|rejected[]]|Read-only file system' | head -n 1
}
while IFS= read -r line; do
	case $line in
	works\ * | partly\ * | fails\ *) command=$(printf '%s\n' "$line" | sed 's/^[a-z]* *//') ;;
	' '*) continue ;;
	*) printf '%s\n' "$line"; continue ;;
	esac
	result=works
	said=$(sh -c "$command" </dev/null 2>&1) || result=fails
	why=
	if [ -n "$said" ]; then why=$(printf '%s\n' "$said" | complaint); fi
	case $result$why in
	works) why=$said ;;
	works*) result=partly ;;
	fails) why=$(printf '%s\n' "$said" | head -n 1) ;;
	esac
	printf '%-8s %s\n' $result "$command"
	if [ -n "$why" ]; then
		printf '%s\n' "$why" | sed -e "s|$work|WORK|g" -e 's|127[.]0[.]0[.]1[:[][^]/ ]*[]]\{0,1\}|REMOTE|g' \
			-e 's/[0-9a-f]\{7,\}[.][.][.]/ID.../' -e 's/^ */         /'
	fi
done <"$1"
`

// triesCmd writes try.sh: an agent that runs it with a list of commands as it stands in the script gets the list back
// with the results of now, to be compared with it: tries
func triesCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: tries")
	}
	ts.Check(os.WriteFile(ts.MkAbs("try.sh"), []byte(trier), 0o600))
}
