package view

import (
	"cmp"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ObstacleRow is an obstacle of a project.
type ObstacleRow struct {
	Project string `json:"project"`
	obstacle.Obstacle
	// Command is the next command; null where waiting is enough.
	Command *string `json:"next"`
}

// Obstacles lists what stops a project or a part of it, the worst first. configErr is the fault
// of its workflow, nil for none.
func Obstacles(v Overview, configErr error) []obstacle.Obstacle {
	if v.Error != nil {
		return []obstacle.Obstacle{obstacle.NewUnreadable(*v.Error)}
	}
	var list []obstacle.Obstacle
	add := func(is bool, make func() obstacle.Obstacle) {
		if is {
			list = append(list, make())
		}
	}
	add(!v.Schedule && !v.Demo, func() obstacle.Obstacle {
		return obstacle.NewNoSchedule(v.scheduledAt, v.LastPass == nil)
	})
	add(configErr != nil, func() obstacle.Obstacle { return obstacle.NewWorkflow(*exit.From(configErr)) })
	add(v.ProjectBlock != nil, func() obstacle.Obstacle { return obstacle.NewBlocked(*v.ProjectBlock) })
	add(v.Disk != nil, func() obstacle.Obstacle { return obstacle.NewDiskLow(v.Disk.Message) })
	list = append(list, v.failures(list)...)
	for _, h := range v.Hosts {
		add(!h.Usable(), func() obstacle.Obstacle { return obstacle.NewHost(h.Name, h.Message) })
	}
	for _, a := range v.Accounts {
		add(a.Blocked != nil && a.Instead != nil, func() obstacle.Obstacle {
			return obstacle.NewInstead(a.Name, *a.Instead, *a.Blocked)
		})
	}
	add(v.Budget != nil && v.Budget.Reached, func() obstacle.Obstacle {
		return obstacle.NewBudget(*v.Budget.Message, v.Budget.Until)
	})
	add(v.Paused, obstacle.NewPaused)
	levels := []obstacle.Level{obstacle.Error, obstacle.Warning, obstacle.Note}
	slices.SortStableFunc(list, func(a, b obstacle.Obstacle) int {
		return cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level))
	})
	return list
}

// failures are the errors of the last pass, and of the last look at pull requests, that none of
// the obstacles is about already.
func (v Overview) failures(known []obstacle.Obstacle) (list []obstacle.Obstacle) {
	if v.LastPass != nil {
		stopping := v.LastPass.Obstacle()
		for _, e := range v.LastPass.Errors {
			isKnown := func(o obstacle.Obstacle) bool { return o.Args.Fault == e.Code }
			if !slices.ContainsFunc(known, isKnown) {
				stops := stopping != nil && stopping.Code == e.Code
				list = append(list, obstacle.NewPassFailed(e, v.LastPass.StartedAt, stops))
			}
		}
	}
	for _, e := range v.LookErrors {
		if !v.passFailedSo(e.Code, e.Message) {
			list = append(list, obstacle.NewPullsUnread(e.LookError, v.PullWords().Name))
		}
	}
	return list
}

// passFailedSo reports whether the last pass had this error, so that it is listed already.
func (v Overview) passFailedSo(code, message string) bool {
	return v.LastPass != nil && slices.ContainsFunc(v.LastPass.Errors, func(e reconcile.Error) bool {
		return e.Code == code && e.Message == message
	})
}

// SetObstacles lists the obstacles of the overview.
func (v *Overview) SetObstacles(configErr error) {
	list := Obstacles(*v, configErr)
	v.stop = ""
	if stop := obstacle.FirstStop(list); stop != nil {
		v.stop = stop.Words(v.GeneratedAt).Clause
	}
	v.Obstacles = text.Map(list, func(o obstacle.Obstacle) ObstacleRow {
		row := ObstacleRow{Project: v.Project.Name, Obstacle: o}
		if o.Next != nil {
			row.Command = new(o.Next.String())
		}
		return row
	})
}

// Has reports whether the project has an obstacle with a code.
func (v Overview) Has(code string) bool {
	return slices.ContainsFunc(v.Obstacles, func(o ObstacleRow) bool { return o.Code == code })
}
