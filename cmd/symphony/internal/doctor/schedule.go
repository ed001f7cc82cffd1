package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/state"
)

// checkSchedule says whether somebody runs passes, what is wrong with what is installed for that, and how the last one
// went.
func checkSchedule(ctx context.Context, at *place) []finding {
	there, err := schedule.InstalledStatus(ctx, at.p)
	if err != nil {
		return failed(err)
	}
	list := at.alive(ctx, there)
	for _, text := range there.Problems {
		list = append(list, wary(text, "")) // what to do stands in it
	}
	return list
}

// carriedBySchedule says what an installed schedule has of that which else only this shell knows: the state directory, by
// --state-dir, and the variables that say where files are. What can't be read carries nothing; the check of the schedule
// says so.
func carriedBySchedule(ctx context.Context, p *project.Project) (stateDir string, vars []string) {
	there, err := schedule.FindInstalled(ctx, p)
	if err != nil {
		return "", nil
	}
	texts := []string{there.Line}
	for _, u := range there.Units {
		if service, err := os.ReadFile(u.Service); err == nil {
			texts = append(texts, string(service))
		}
	}
	written := func(forms ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
		})
	}
	// As cron's line has it, and as a unit has it.
	cron := func(text string) string { return strings.ReplaceAll(term.ShellQuote(text), "%", `\%`) }
	if written(" --state-dir "+cron(p.StateDir)+" ", " --state-dir "+strings.ReplaceAll(schedule.UnitWord(p.StateDir), "$", "$$")+" ") {
		stateDir = p.StateDir
	}
	for _, name := range schedule.PathVars {
		v := p.Env.Getenv(name)
		if v != "" && written(" "+name+"="+cron(v)+" ", "\nEnvironment="+schedule.UnitWord(name+"="+v)+"\n") {
			vars = append(vars, name+"="+v)
		}
	}
	return stateDir, vars
}

// alive looks at the passes that there have been.
func (at *place) alive(ctx context.Context, there schedule.Status) (list []finding) {
	which := " -w " + term.ShellQuote(at.p.Path)
	hint := "symphony schedule install" + which + ", or keep symphony tick --loop" + which + " running"
	if len(there.Timers) > 0 || there.Cron != nil {
		hint = "it is installed: symphony schedule status" + which + " says what it does"
	}
	db, err := state.OpenReadOnly(ctx, at.p.StateDir)
	if err != nil {
		if errors.Is(err, state.ErrNoState) {
			return []finding{wary("no pass has run yet", hint)}
		}
		return nil // the check of the state directory says so
	}
	defer db.Close()
	now := at.p.Env.Now()
	alive, err := project.ScheduleAlive(ctx, db, now)
	if err != nil {
		return failed(err)
	}
	passes, err := db.ScheduleGaps(ctx)
	if err != nil {
		return failed(err)
	}
	switch {
	case there.Loop:
		list = append(list, well("symphony tick --loop is running"))
	case len(passes) == 0:
		list = append(list, wary("no pass was ever run by cron, a timer or --loop: only what you run yourself is started", hint))
	case alive:
		list = append(list, well("alive, last pass %s ago (%s)", term.Age(now, passes[0].StartedAt), passes[0].Trigger))
	default:
		list = append(list, wary(fmt.Sprintf("it has stopped: the last pass of %s began %s ago", passes[0].Trigger, term.Age(now, passes[0].StartedAt)), hint))
	}
	return append(list, lastPass(ctx, at, db)...)
}
