package doctor

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// checkCodex finds codex as a worker would, and starts it.
func checkCodex(ctx context.Context, at *place) []finding {
	name := programOf(at.cfg.Codex.Command)
	path := ""
	if name != "" {
		var err error
		if path, err = at.program(ctx, name); err != nil {
			return failed(err)
		}
		if path == "" {
			return []finding{bad("not found: bash -lc knows no "+name, at.codexHint(ctx, name))}
		}
	}
	i, err := at.agent()
	if err != nil {
		return failed(err)
	}
	text := cmp.Or(i.Server.Version, "of a version that it does not tell")
	if path != "" {
		text += ", " + path
	}
	return []finding{well("%s", text)}
}

// homeless is an error where codex has no home. Where one is named it ends at once; its usual one it would make, and find
// nobody logged in.
func (at *place) homeless() error {
	home := at.codexHome()
	if project.Exists(home) || strings.Contains(at.cfg.Codex.Command, "CODEX_HOME") {
		return nil
	}
	return &reconcile.Error{Code: string(agent.CodeAgentAuth), Message: "codex has no home: " + home + " does not exist", Hint: at.loginHint()}
}

// codexHint is pathHint, and a path of its own in the workflow.
func (at *place) codexHint(ctx context.Context, name string) string {
	return at.pathHint(ctx, name) + "; or write its path into codex.command"
}

// programOf is the word of a shell command that names the program, empty where only a shell could tell.
func programOf(command string) string {
	for _, word := range strings.Fields(command) {
		if strings.ContainsAny(word, "\"'`$(){}[]|&;<>*?!#\\") {
			return ""
		}
		if name, _, assigned := strings.Cut(word, "="); assigned && !strings.Contains(name, "/") || word == "exec" || word == "env" {
			continue
		}
		return word
	}
	return ""
}

// codexHome is the codex home of agents here: that of the account.
func (at *place) codexHome() string {
	if home, set := at.p.Lookup("CODEX_HOME"); set && at.cfg.Codex.Home == "" && home != "" {
		return home
	}
	return cmp.Or(at.cfg.Codex.Home, filepath.Join(at.p.Env.Home, ".codex"))
}

// checkSandbox has codex try the very sandbox that a turn would get.
func checkSandbox(ctx context.Context, at *place) []finding {
	i, err := at.agent()
	if err != nil {
		return nil
	}
	if !agent.Confines(i.Policy) {
		return []finding{wary("codex.turn_sandbox_policy has codex sandbox nothing: agents can do what confines symphony itself lets them",
			"leave it out, unless this is a container or virtual machine of its own")}
	}
	err = runner.ProbeSandbox(ctx, i.Session, i.Policy, i.Cwd, i.Elsewhere)
	if errors.Is(err, agent.ErrNoProbe) {
		return []finding{wary("could not be tried: "+err.Error(), "the first command of a run will tell")}
	}
	if err != nil {
		return failed(err)
	}
	return []finding{well("tried, it works")}
}
