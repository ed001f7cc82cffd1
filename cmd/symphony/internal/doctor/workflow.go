package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// checkWorkflow says what symphony check says, of the file as it is read here.
func checkWorkflow(_ context.Context, at *place) []finding {
	if err := at.p.Nested(); err != nil {
		return failed(err)
	}
	if at.cfgErr != nil {
		list := failed(at.cfgErr)
		for i := range list {
			if list[i].Hint == "" {
				list[i].Hint = "correct it there; symphony check tells whether the file is right"
			}
		}
		return list
	}
	var list []finding
	for _, w := range at.cfg.Warnings {
		list = append(list, wary(w.String(), "correct or remove it"))
	}
	for _, problem := range at.cfg.Prompt.Check() {
		list = append(list, bad(workflow.CodeTemplateRender+": "+problem.String(), "a run that renders it would fail"))
	}
	if _, err := project.MaxAgents(at.p); err != nil {
		list = append(list, failed(err)...)
	}
	if list == nil {
		list = append(list, well("%s", at.p.Path))
	}
	return list
}

// checkEnvFile looks at the file that makes cron, systemd and a person see the same. Of what it sets only the names
// are told.
func checkEnvFile(_ context.Context, at *place) []finding {
	path := at.p.EnvPath()
	if at.p.EnvErr != nil {
		return failed(at.p.EnvErr)
	}
	if !project.Exists(path) {
		return []finding{well("none, it would be %s", path)}
	}
	names := slices.Sorted(maps.Keys(at.p.EnvFile))
	if len(names) == 0 {
		return []finding{well("%s sets nothing", path)}
	}
	return []finding{well("%s sets %s", path, strings.Join(names, ", "))}
}

// checkKey says where the tracker's key comes from.
func checkKey(_ context.Context, at *place) []finding {
	envFile := at.p.EnvPath()
	switch {
	case at.cfg.KeyIsLiteral:
		return []finding{wary("stands in "+at.p.Path+" itself, where whoever reads the repository has it", fmt.Sprintf(
			"write api_key: $%s there, and %s=… into %s (mode 0600)", workflow.APIKeyVar, workflow.APIKeyVar, envFile))}
	case at.cfg.Tracker.APIKey == "":
		name := at.keyName()
		if v, set := at.p.Env.Lookup(name); set && v == "" && at.p.EnvFile[name] != "" {
			return []finding{bad("missing: the variable "+name+" is set and empty, which counts more than the environment file", "unset "+name)}
		}
		return []finding{bad("missing", fmt.Sprintf("put %s=… into %s (mode 0600)", name, envFile))}
	}
	for _, name := range at.cfg.SecretVars() {
		if v, set := at.p.Env.Lookup(name); set && v == at.cfg.Tracker.APIKey.Reveal() {
			return []finding{well("from the variable %s", name)}
		}
	}
	return []finding{well("from the environment file")}
}

// keyName is the variable that the workflow names for the key.
func (at *place) keyName() string {
	for _, name := range at.cfg.SecretVars() {
		if name != workflow.APIKeyVar && name != workflow.LiteralKeyVar {
			return name
		}
	}
	return workflow.APIKeyVar
}
