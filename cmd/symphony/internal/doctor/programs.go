package doctor

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"
)

// checkGit looks for git as hooks and agent would.
func checkGit(ctx context.Context, at *place) []finding {
	return at.tool(ctx, "git", "agents can't commit, and hooks can't clone", `\bgit\b`)
}

// checkGh looks for GitHub's own tool, which many workflows open pull requests with.
func checkGh(ctx context.Context, at *place) []finding {
	found := at.tool(ctx, "gh", "the workflow names it", ghNamed)
	if found[0].Status != statusOK || strings.HasPrefix(found[0].Message, "not found") {
		return found
	}
	if login := at.ghLogin(ctx); login != nil {
		return login
	}
	return found
}

// tool finds a program and its version. One that is missing matters where the workflow names it; git always does.
func (at *place) tool(ctx context.Context, name, matters, mention string) []finding {
	path, err := at.program(ctx, name)
	if err != nil {
		return failed(err)
	}
	if path == "" {
		named := regexp.MustCompile(mention).Match(at.cfg.Redacted())
		if !named && name != "git" {
			return []finding{well("not found, and the workflow does not name it")}
		}
		return []finding{wary("not found: "+matters, at.pathHint(ctx, name))}
	}
	version, err := at.shell(ctx, name+" --version | head -n 1")
	if err != nil {
		return failed(err)
	}
	if version == "" {
		return []finding{wary(path+" does not say its version", "try it: "+path+" --version")}
	}
	return []finding{well("%s, %s", path, version)}
}

// pathHint says how a program comes to be found here, if it is found as called.
func (at *place) pathHint(ctx context.Context, name string) string {
	hint := fmt.Sprintf("install it where bash -lc finds it, or add its folder to PATH in %s", at.profile())
	if at.as == asCalled {
		return hint
	}
	if path, err := at.d.called.program(ctx, name); err == nil && len(path) > len(name)+1 && path[0] == '/' {
		hint = fmt.Sprintf("put it into %s: export PATH=%s:$PATH", at.profile(), path[:len(path)-len(name)-1])
	}
	return hint
}

// usesSSH finds addresses of repositories that are reached by ssh.
var usesSSH = `git@|ssh://`

// checkSSHAgent says whether hooks and agents have one.
func checkSSHAgent(ctx context.Context, at *place) []finding {
	socket, err := at.shell(ctx, `printf %s "$SSH_AUTH_SOCK"`)
	if err != nil {
		return failed(err)
	}
	const hint = "give hooks a key without a passphrase of its own (IdentityFile in ~/.ssh/config), or set SSH_AUTH_SOCK to a lasting agent's in the environment file"
	if socket == "" {
		if regexp.MustCompile(usesSSH).Match(at.cfg.Redacted()) {
			return []finding{wary("none, and the workflow names a repository by ssh", hint)}
		}
		return []finding{well("none")}
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return []finding{wary("SSH_AUTH_SOCK names "+socket+", where none answers", hint)}
	}
	_ = conn.Close() // nothing was said
	return []finding{well("%s", socket)}
}
