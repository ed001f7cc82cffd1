package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

	// counts are the reasons that are numbers, and numbers the texts of these.
	counts  []count
	numbers []string
}

// count is how many of something need a person: of issues with a status, of requests, or of
// unreadable records.
type count struct {
	of Status
	n  int
}

// What is counted beside the issues of a status.
const (
	ofRequests   Status = "request"
	ofUnreadable Status = "unreadable record"
)

// String is such as "2 requests to answer" or "1 held".
func (c count) String() string {
	if c.of == ofRequests {
		return text.Plural(c.n, string(ofRequests)) + " to answer"
	}
	if c.of == ofUnreadable {
		return text.Plural(c.n, string(ofUnreadable))
	}
	return c.of.Counted(c.n)
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
	v, err := Read(ctx, p, Options{Folder: new(FolderCache)})
	if wiring.BeforeFirstPass(err) && p.SourceErr == nil {
		f := Facts{Project: p, Now: p.Env.Now().UTC()}
		if err := f.readAlerts(ctx); err != nil {
			return Overview{}, err
		}
		return Overview{
			GeneratedAt:  f.Now,
			Project:      newProjectRow(p.Path, p.StateDir),
			ProjectBlock: f.Block,
		}.confine(nil), nil
	}
	return v, err
}

// Verdict judges the overview. A block that ends by itself, such as a used-up limit, needs no
// person; a project that can't be read does.
func (v Overview) Verdict() Verdict {
	if e := v.Error; e != nil {
		return Verdict{
			Level:   LevelNeedsPerson,
			Reasons: []string{e.Code + ": " + e.Message},
			Brief:   []string{e.Code},
		}
	}
	out := Verdict{Level: LevelOK, Reasons: []string{}}
	if reason := v.notTicking(); reason != "" {
		out.add(LevelNotTicking, reason, "")
	}
	v.addStops(&out, LevelNeedsPerson)
	if v.Disk != nil {
		out.add(LevelNeedsPerson, nothingStarts, ": "+reconcile.SkipDiskLow+": "+v.Disk.Message)
	}
	out.addCount(count{ofRequests, len(v.Requests)}, "")
	counts := map[Status]int{}
	var unreadable []string
	for _, r := range v.Rows {
		counts[r.Status]++
		if r.unreadable != "" {
			unreadable = append(unreadable, r.Identifier)
		}
	}
	out.addCount(count{ofUnreadable, len(unreadable)}, ": "+firstOf(unreadable))
	for _, s := range StuckStatuses {
		out.addCount(count{s, counts[s]}, "")
	}
	v.addStops(&out, LevelOK)
	if b := v.Budget; b != nil && b.Reached {
		out.add(LevelOK, nothingStarts, ": "+*b.Message)
	}
	if v.Paused {
		out.add(LevelNeedsPerson, "paused", "")
	}
	return out
}

// add adds a reason. The first level that is not ok stays, unless nothing runs passes.
func (v *Verdict) add(level Level, brief, more string) {
	if level == LevelNotTicking || v.Level == LevelOK {
		v.Level = level
	}
	v.Reasons = append(v.Reasons, brief+more)
	if !slices.Contains(v.Brief, brief) {
		v.Brief = append(v.Brief, brief)
	}
}

// addCount adds a reason that is a number, unless that is 0.
func (v *Verdict) addCount(c count, more string) {
	if c.n == 0 {
		return
	}
	v.add(LevelNeedsPerson, c.String(), more)
	v.counts = append(v.counts, c)
	v.numbers = append(v.numbers, c.String(), c.String()+more)
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

// notTicking is why nothing runs passes; empty if something does.
func (v Overview) notTicking() string {
	switch {
	case v.Schedule, v.Demo:
		return ""
	case v.LastPass == nil:
		return "no pass has run yet"
	case v.scheduledAt.IsZero(): // passes of workers and operators have run
		return "no schedule is active; no scheduled pass has run yet"
	}
	return "no schedule is active; its last pass was " + text.Age(v.GeneratedAt, v.scheduledAt) + " ago"
}

const nothingStarts = "nothing new starts"

// addStops adds the block and the error that stop the project, if they have that level.
func (v Overview) addStops(out *Verdict, level Level) {
	block := v.ProjectBlock
	if block != nil && levelOf(block.Reason, block.Status) == level {
		out.add(level, nothingStarts, ": "+block.Reason+": "+block.Message)
	}
	if v.LastPass == nil || len(v.LastPass.Errors) == 0 {
		return
	}
	e := v.LastPass.Errors[0]
	isBlock := block != nil && block.Reason == e.Code
	if !isBlock && levelOf(e.Code, e.Status) == level {
		out.add(level, "the last pass failed", ": "+e.Code+": "+e.Message)
	}
}

// levelOf is the level of a fault that stops a project.
func levelOf(code string, status int) Level {
	if reconcile.EndsByItself(code, status) {
		return LevelOK
	}
	return LevelNeedsPerson
}
