package project

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// ghBound is how long gh may take to print its token, for which it needs no network.
const ghBound = 10 * time.Second

// GhToken returns the token that gh has for an API of GitHub; empty if gh is not on the PATH, or not logged in. A project asks gh once.
func (p *Project) GhToken(api string) string {
	if p.gh == nil {
		return ""
	}
	token, known := p.gh.Load(api)
	if !known {
		token, _ = p.gh.LoadOrStore(api, p.askGh(api))
	}
	return token.(string)
}

func (p *Project) askGh(api string) string {
	program := proc.LookPath("gh", p.Env.Environ)
	if program == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), ghBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "auth", "token", "--hostname", host.GhHost(api))
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	// It answers with the token that it has stored. Those in variables were looked for before.
	cmd.Env = append(host.Scrub(p.Env.Environ, "GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_DEBUG"),
		"GH_PROMPT_DISABLED=1", "GH_NO_UPDATE_NOTIFIER=1")
	out, err := cmd.Output()
	if token := strings.TrimSpace(string(out)); err == nil && !strings.ContainsAny(token, " \n") {
		return token
	}
	return ""
}

// ghFiles is the directory in which gh stores its token, if the system has no keyring.
func (p *Project) ghFiles() string {
	config := cmp.Or(p.Env.Getenv("XDG_CONFIG_HOME"), filepath.Join(p.Env.Home, ".config"))
	return paths.Real(cmp.Or(p.Env.Getenv("GH_CONFIG_DIR"), filepath.Join(config, "gh")))
}
