package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// ghBound is how long gh may take to print its token, for which it needs no network.
const ghBound = 10 * time.Second

// GhToken returns gh's token for an API; empty if gh is not on the PATH, or not
// logged in. A project asks gh once.
func (p *Project) GhToken(api string) string {
	if p.gh == nil {
		return ""
	}
	token, known := p.gh.Load(api)
	if !known {
		// Tokens in variables were looked for before.
		env := host.Scrub(
			p.Env.Environ,
			"GH_TOKEN",
			"GITHUB_TOKEN",
			"GH_ENTERPRISE_TOKEN",
			"GITHUB_ENTERPRISE_TOKEN",
		)
		stored, _ := askGh(p.Env.Context(), api, env) // empty without a stored token
		token, _ = p.gh.LoadOrStore(api, stored)
	}
	return token.(string)
}

const mostSaid = 300 // bytes of what gh says

// askGh asks gh for its token. gh prints the token of a variable in env, such as GH_TOKEN,
// otherwise its stored token. The error is why there is none.
func askGh(ctx context.Context, api string, env []string) (string, error) {
	program := proc.LookPath("gh", env)
	name := workflow.GhHost(api)
	if program == "" {
		return "", errors.New("gh is not installed")
	}
	bounded, cancel := context.WithTimeout(ctx, ghBound)
	defer cancel()
	cmd := exec.CommandContext(bounded, program, "auth", "token", "--hostname", name)
	cmd.Dir = "/"
	cmd.Env = append(
		host.Scrub(env, "GH_DEBUG"),
		"GH_PROMPT_DISABLED=1",
		"GH_NO_UPDATE_NOTIFIER=1",
		"NO_COLOR=1",
		"GH_FORCE_TTY=",
	)
	out, said, err := proc.Output(cmd)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if bounded.Err() != nil {
		return "", fmt.Errorf("gh auth token did not answer within %v", ghBound)
	}
	token := strings.TrimSpace(out)
	if err != nil || token == "" || strings.ContainsAny(token, " \n") {
		why := cmp.Or(text.Short(text.Visible(text.OneLine(said)), mostSaid), fmt.Sprint(err))
		return "", fmt.Errorf("gh is not logged in to %s (%s)", name, why)
	}
	return token, nil
}

// ghFiles is the directory in which gh stores its token, if the system provides no keyring.
func (p *Project) ghFiles() string {
	config := cmp.Or(p.Env.Getenv("XDG_CONFIG_HOME"), filepath.Join(p.Env.Home, ".config"))
	return paths.Real(cmp.Or(p.Env.Getenv("GH_CONFIG_DIR"), filepath.Join(config, "gh")))
}
