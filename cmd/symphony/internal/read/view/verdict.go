package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Verdict answers whether a project needs a person.
type Verdict struct {
	Level Level `json:"level"`
	// Reasons are sentences, the most important first. Where all is well, they explain why
	// nothing starts nevertheless.
	Reasons []string `json:"reasons"`
	// Brief are the reasons for a page that shows the messages of blocks, errors and budgets
	// elsewhere.
	Brief []string `json:"-"`
}

// Level is the severity of a verdict.
type Level string

// The levels, from the best to the worst.
const (
	LevelOK          Level = "ok"
	LevelNeedsPerson Level = "needs_person"
	LevelNotTicking  Level = "not_ticking" // nothing runs passes, so that no other promise is kept
)

// Judgement is the answer of status: the verdict on all its projects, and on each.
type Judgement struct {
	Verdict
	Projects []JudgedProject `json:"projects"`
}

// JudgedProject is a project with its verdict.
type JudgedProject struct {
	Project ProjectRow `json:"project"`
	Verdict
	Counts reconcile.Counts `json:"counts"`
}

// NewJudgement judges projects. An account without a project does not tick.
func NewJudgement(all []Overview) Judgement {
	out := Judgement{Verdict: Judge(all)}
	if len(all) == 0 {
		out.Verdict = Verdict{
			Level:   LevelNotTicking,
			Reasons: []string{"no pass has run yet as this account"},
		}
	}
	out.Projects = text.Map(all, func(v Overview) JudgedProject {
		return JudgedProject{v.Project, v.Verdict(), v.Counts}
	})
	return out
}

// ReadUnstarted reads the overview of a project, which is empty before its first pass.
func ReadUnstarted(ctx context.Context, p *wiring.Project) (Overview, error) {
	v, err := Read(ctx, p, Options{})
	if wiring.BeforeFirstPass(err) && p.SourceErr == nil {
		f := Facts{Project: p, Now: p.Env.Now().UTC()}
		if err := f.readAlerts(ctx); err != nil {
			return Overview{}, err
		}
		v := Overview{
			GeneratedAt:  f.Now,
			Project:      newProjectRow(p.Path, p.StateDir),
			ProjectBlock: f.Block,
		}.confine(nil)
		v.SetObstacles(nil)
		return v, nil
	}
	return v, err
}

// Verdict judges the overview. An obstacle that ends by itself, such as a used-up limit, needs no
// person.
func (v Overview) Verdict() Verdict {
	out := Verdict{Level: LevelOK, Reasons: []string{}}
	isWorst := func(o ObstacleRow) bool { return o.Level == obstacle.Error }
	for _, o := range v.Obstacles {
		if isWorst(o) {
			out.addObstacle(o.Obstacle, v.GeneratedAt)
		}
	}
	if v.Error != nil {
		return out
	}
	if n := len(v.Requests); n > 0 {
		out.add(LevelNeedsPerson, text.Plural(n, "request")+" to answer")
	}
	counts := map[Status]int{}
	var unreadable []string
	for _, r := range v.Rows {
		counts[r.Status]++
		if r.unreadable != "" {
			unreadable = append(unreadable, r.Identifier)
		}
	}
	if n := len(unreadable); n > 0 {
		out.add(LevelNeedsPerson, text.Plural(n, "unreadable record")+": "+firstOf(unreadable))
	}
	for _, s := range StuckStatuses {
		if counts[s] > 0 {
			out.add(LevelNeedsPerson, s.Counted(counts[s]))
		}
	}
	for _, o := range v.Obstacles {
		if !isWorst(o) {
			out.addObstacle(o.Obstacle, v.GeneratedAt)
		}
	}
	return out
}

// addObstacle adds an obstacle, unless it is one of a part of the project.
func (v *Verdict) addObstacle(o obstacle.Obstacle, now time.Time) {
	if o.OfPart() {
		return
	}
	level := LevelNeedsPerson
	switch {
	case o.Code == obstacle.NoSchedule:
		level = LevelNotTicking
	case o.Level == obstacle.Note:
		level = LevelOK
	}
	w := o.Words(now)
	v.add(level, w.Text)
	v.Brief[len(v.Brief)-1] = w.Brief
	v.Brief = slices.Compact(v.Brief)
}

// add adds a reason. The first level that is not ok stays, unless nothing runs passes.
func (v *Verdict) add(level Level, reason string) {
	if level == LevelNotTicking || v.Level == LevelOK {
		v.Level = level
	}
	v.Reasons = append(v.Reasons, reason)
	v.Brief = append(v.Brief, reason)
}

// firstOf lists the first names, such as "WEB-1, WEB-2, WEB-3 and 4 more".
func firstOf(names []string) string {
	const most = 3
	list := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		list += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return list
}
