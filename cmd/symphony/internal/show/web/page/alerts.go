package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Alerts are the messages about all projects that every page shows, whatever its subject:
// alarms above the page, and news for notifications.
type Alerts struct {
	Alarms []obstacle // each stops a whole project until a person acts
	News   []News     // for notifications
	// Requests is how many requests wait for a person.
	Requests int
	// Shown are the projects whose alarms the page has among its own notices.
	Shown []string
}

// News is a request, an issue whose agent needs a person, or an alarm. A browser tells each of
// them once, by its ID.
type News struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// NewAlerts makes the alerts of all projects and of the requests of agents without an issue.
// back is the page that follows a command.
func NewAlerts(all []view.Overview, agents []view.RequestRow, back string, mayAct bool) *Alerts {
	a := &Alerts{News: []News{}}
	ask := func(requests []view.RequestRow) {
		a.Requests += len(requests)
		for _, r := range requests {
			form := Forms{Project: r.Project}.Request(r)
			a.News = append(a.News, News{form.Anchor(), text.Visible(r.Identifier + " " + form.Wants())})
		}
	}
	ask(agents)
	for _, v := range all {
		ask(v.Requests)
		for _, h := range v.NeedsHelp {
			id := fmt.Sprintf("help-%s-%s-%d", h.Project, h.Identifier, h.HeldAt.Unix())
			a.News = append(a.News, News{id, text.Visible(h.Identifier + " needs help")})
		}
		for _, o := range obstaclesOf(v, Forms{v.Project.Name, back, mayAct}, len(all) > 1) {
			if o.Alarm {
				a.Alarms = append(a.Alarms, o)
				a.News = append(a.News, News{o.Forms.Project + ": " + o.Title, text.Visible(o.Brief())})
			}
		}
	}
	return a
}

// Brief is the notice in a few words, for the title of a page.
func (o obstacle) Brief() string { return strings.TrimPrefix(o.Project+": "+o.Title, ": ") }

// obstacle is a notice about a project: why it starts no runs, or which error occurred.
type obstacle struct {
	Class, Icon string
	Project     string // empty with a single project
	Title, Text string
	Hint        string
	Code        string
	Began, Ends string     // the events at At and at Until
	At, Until   *time.Time // nil where no time is known
	// how to react to it; without a verb where only waiting helps
	ProjectButton
	Alarm       bool // it stops the whole project until a person acts
	Unscheduled bool // no schedule runs passes
}

// obstaclesOf are the notices of a project, the worst first.
func obstaclesOf(v view.Overview, forms Forms, several bool) []obstacle {
	var list []obstacle
	if v.Error != nil {
		list = unreadable(v.Error)
	} else {
		list = slices.Concat(
			unscheduled(v, several),
			blockOf(v),
			lowDisk(v),
			passErrors(v),
			lookErrors(v),
			unusableHosts(v),
			usedUp(v),
			paused(v),
		)
	}
	offered := map[string]bool{} // each button is there once
	for i := range list {
		list[i].Forms = forms
		if offered[list[i].Verb] {
			list[i].Verb = ""
		}
		offered[list[i].Verb] = true
		if several {
			list[i].Project = v.Project.Name
		}
	}
	return list
}

// unreadable is the notice of a project that can't be read. The page shows in another way that
// no pass ran yet.
func unreadable(err *reconcile.Error) []obstacle {
	if err.Code == "no_state" {
		return nil
	}
	return []obstacle{{
		Class: "bad",
		Icon:  "stop",
		Title: "The project can't be read",
		Text:  err.Message,
		Hint:  err.Hint,
		Code:  err.Code,
	}}
}

// unscheduled is the notice of a missing schedule.
func unscheduled(v view.Overview, several bool) []obstacle {
	if v.Schedule {
		return nil
	}
	command := "symphony"
	if several {
		command += " -w " + text.ShellQuote(v.Project.WorkflowPath)
	}
	o := obstacle{
		Class:         "bad",
		Icon:          "alert",
		Title:         "No schedule is active",
		Text:          "No new run starts, and nothing settles the runs that end.",
		Hint:          fmt.Sprintf("Install a schedule: `%s schedule install`; or run one pass: `%[1]s tick`", command),
		At:            v.LastScheduled(),
		Alarm:         true,
		Unscheduled:   true,
		ProjectButton: ProjectButton{Verb: "refresh"},
	}
	if o.At != nil {
		o.Began = "its last pass was"
	}
	return []obstacle{o}
}

// blockOf is the notice of a fault that stops the whole project.
func blockOf(v view.Overview) []obstacle {
	b := v.ProjectBlock
	if b == nil {
		return nil
	}
	o := obstacle{
		Title:         "Nothing new starts",
		Text:          b.Message,
		Hint:          words.BlockHint(b.Reason, b.Status),
		Code:          b.Reason,
		Began:         "began",
		At:            &b.Since,
		Ends:          "ends",
		Until:         b.Until,
		ProjectButton: ProjectButton{Verb: "resume"},
	}
	o.Class, o.Icon = severity(b.Reason, b.Status)
	o.Alarm = o.Class == "bad"
	if reconcile.ClassOf(&reconcile.Error{Code: b.Reason}) == reconcile.ClassTracker {
		o.Title += ": the tracker can't be used"
	}
	switch {
	case o.Until != nil:
		o.Title = "Nothing new starts: the limit of the agents' account is used up"
	case b.NextTry.After(v.GeneratedAt):
		o.Ends = "next try"
		o.Until = &b.NextTry
	}
	return []obstacle{o}
}

// lowDisk is the notice of too little space for workspaces.
func lowDisk(v view.Overview) []obstacle {
	if v.Disk == nil {
		return nil
	}
	return []obstacle{{
		Class: "bad",
		Icon:  "stop",
		Title: "Nothing new starts: too little disk space is free",
		Text:  v.Disk.Message,
		Hint:  words.DiskLowHint,
		Code:  reconcile.SkipDiskLow,
		Alarm: true,
	}}
}

// passErrors are the notices of the errors of the last pass, except the fault of blockOf.
func passErrors(v view.Overview) (list []obstacle) {
	if v.LastPass == nil {
		return nil
	}
	for _, e := range v.LastPass.Errors {
		if v.ProjectBlock != nil && v.ProjectBlock.Reason == e.Code {
			continue
		}
		o := obstacle{
			Title:         "The last pass failed",
			Text:          e.Message,
			Hint:          e.Hint,
			Code:          e.Code,
			At:            &v.LastPass.StartedAt,
			ProjectButton: ProjectButton{Verb: "refresh"},
		}
		o.Class, o.Icon = severity(e.Code, e.Status)
		list = append(list, o)
	}
	return list
}

// lookErrors are the notices of faults of the last look at pull requests, except those that
// the last pass had, too.
func lookErrors(v view.Overview) (list []obstacle) {
	for _, e := range v.LookErrors {
		if v.PassFailedSo(e.Code, e.Message) {
			continue
		}
		o := obstacle{
			Title:         "The last look at " + v.PullWords().Name + "s failed",
			Text:          e.Message,
			Code:          e.Code,
			At:            &e.Since,
			ProjectButton: ProjectButton{Verb: "refresh"},
		}
		o.Class, o.Icon = severity(e.Code, 0)
		list = append(list, o)
	}
	return list
}

// unusableHosts are the notices of the hosts that get no runs.
func unusableHosts(v view.Overview) (list []obstacle) {
	for _, h := range v.Hosts {
		if h.Usable() {
			continue
		}
		list = append(list, obstacle{
			Class:         "warn",
			Icon:          "alert",
			Title:         h.Name + " gets no further runs",
			Text:          h.Message,
			ProjectButton: ProjectButton{Verb: "resume"},
		})
	}
	return list
}

// usedUp are the notices of limits that end by themselves: the budget of the day and the
// allowance of the tracker.
func usedUp(v view.Overview) (list []obstacle) {
	if b := v.Budget; b != nil && b.Reached {
		list = append(list, obstacle{
			Class: "warn",
			Icon:  "clock",
			Title: "Nothing new starts: the budget of today is used up",
			Text:  *b.Message,
			Hint:  "raise `agent.budget_per_day`, or start one issue with `symphony run`",
			Ends:  "ends",
			Until: &b.Until,
		})
	}
	if v.LowUntil != nil {
		list = append(list, obstacle{
			Class: "warn",
			Icon:  "clock",
			Title: "Nothing new starts: less than a tenth of the tracker's allowance is left",
			Ends:  "ends",
			Until: v.LowUntil,
		})
	}
	return list
}

// paused is the notice of a paused project.
func paused(v view.Overview) []obstacle {
	if !v.Paused {
		return nil
	}
	return []obstacle{{
		Class:         "warn",
		Icon:          "pause",
		Title:         "Paused",
		Text:          "Nothing new starts before you resume it.",
		ProjectButton: ProjectButton{Verb: "resume"},
	}}
}

// severity returns the style and the icon of a notice about a fault: a warning if the fault
// ends by itself, as when the tracker does not answer, or else the red style, because a person
// must act.
func severity(code string, status int) (class, icon string) {
	if reconcile.EndsByItself(code, status) {
		return "warn", "clock"
	}
	return "bad", "stop"
}
