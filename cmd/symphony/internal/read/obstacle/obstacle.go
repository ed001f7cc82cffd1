// Package obstacle describes what stops a project, or a part of it. Package view lists the
// obstacles of a project, and Words makes the sentences of the terminal, the pages and all other
// views.
package obstacle

import (
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// The codes of obstacles. Blocked, DiskLow, Budget, RateLimited and Paused are also reasons for
// which a pass skips issues.
const (
	Unreadable  = "unreadable"  // the state of the project can't be read
	NoSchedule  = "no_schedule" // nothing runs passes
	Workflow    = "workflow_invalid"
	Blocked     = reconcile.SkipBlocked // by a fault of the machine, the tracker or the account
	DiskLow     = reconcile.SkipDiskLow
	PassFailed  = "pass_failed"
	PullsUnread = "pull_requests_unread" // the last look at pull requests failed
	Host        = "host"                 // one of the machines gets no runs
	Instead     = "instead"              // another agent works in place of one that can't
	Budget      = reconcile.SkipBudget
	RateLimited = reconcile.SkipRateLimited // in a pass, of an account
	Paused      = reconcile.SkipPaused
)

// Level is how much an obstacle matters.
type Level string

// The levels, the worst first.
const (
	Error   Level = "error"   // it lasts until a person acts
	Warning Level = "warning" // a person wants it, and ends it
	Note    Level = "note"    // it ends by itself, or work goes on in spite of it
)

// Obstacle is something that stops a project, or a part of it.
type Obstacle struct {
	Code  string `json:"code"`
	Args  Args   `json:"args"`
	Level Level  `json:"level"`
	// Stops is set if no new run starts as long as the obstacle is there.
	Stops bool `json:"stops"`
	// Next is the next command; nil where waiting is enough.
	Next *reconcile.CommandLine `json:"-"`
	// Until is when it ends by itself; null if that is not a matter of time.
	Until *time.Time `json:"until"`
	// Verb is the command of an operator that ends it: resume, or refresh, which runs a pass.
	// Empty if none does.
	Verb string `json:"verb"`
}

// Args are what the sentence about an obstacle names. Those that it does not name are left out.
type Args struct {
	Fault   string `json:"fault,omitzero"` // the code of an error
	Message string `json:"message,omitzero"`
	Hint    string `json:"hint,omitzero"` // the next step after the error, where it has its own
	// Subject is a machine, an agent that can't work, or what pull requests are called.
	Subject  string    `json:"subject,omitzero"`
	Instead  string    `json:"instead,omitzero"`   // the agent that works in place of the subject
	Since    time.Time `json:"since,omitzero"`     // of no_schedule and pass_failed: when that pass began
	NextTry  time.Time `json:"next_try,omitzero"`  // when a pass tests whether it is over
	TestedBy string    `json:"tested_by,omitzero"` // the issue whose run tests that
	// FirstPass of no_schedule: no pass has run yet.
	FirstPass bool `json:"first_pass,omitzero"`

	status int // of an HTTP answer
}

// OfPart reports whether it stops only a part of the project, such as a machine.
func (o Obstacle) OfPart() bool { return o.Code == Host || o.Code == Instead || o.Code == PullsUnread }

// FirstStop returns the first obstacle as long as which no new run starts; nil for none.
func FirstStop(list []Obstacle) *Obstacle {
	i := slices.IndexFunc(list, func(o Obstacle) bool { return o.Stops })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// levelOf is the level of a fault. status is that of an HTTP answer, or 0.
func levelOf(code string, status int) Level {
	if reconcile.EndsByItself(code, status) {
		return Note
	}
	return Error
}

// ofError makes the arguments of an error.
func ofError(e reconcile.Error) Args {
	return Args{Fault: e.Code, Message: e.Message, Hint: e.Hint, status: e.Status}
}

// NewUnreadable is the obstacle of a project whose state can't be read.
func NewUnreadable(e reconcile.Error) Obstacle {
	return Obstacle{Code: Unreadable, Args: ofError(e), Level: Error}
}

// NewNoSchedule is the obstacle of a project without a schedule, whose last pass was then; the
// zero time if it has run none. first is set if no pass has run at all.
func NewNoSchedule(last time.Time, first bool) Obstacle {
	return Obstacle{
		Code:  NoSchedule,
		Args:  Args{Since: last, FirstPass: first},
		Level: Error,
		Next:  &reconcile.CommandLine{Verb: "schedule", Rest: "install"},
		Verb:  "refresh",
	}
}

// NewWorkflow is the obstacle of a workflow that is not valid.
func NewWorkflow(e reconcile.Error) Obstacle {
	return Obstacle{
		Code:  Workflow,
		Args:  ofError(e),
		Level: Error,
		Stops: true,
		Next:  &reconcile.CommandLine{Verb: "check"},
		Verb:  "refresh",
	}
}

// NewBlocked is the obstacle of a block. The limit of an account ends by itself.
func NewBlocked(b wiring.BlockedRow) Obstacle {
	o := Obstacle{
		Code: Blocked,
		Args: Args{
			Fault:   b.Reason,
			Message: b.Message,
			Since:   b.Since,
			status:  b.Status,
		},
		Level: levelOf(b.Reason, b.Status),
		Stops: true,
		Next:  &reconcile.CommandLine{Verb: "resume"},
		Until: b.Until,
		Verb:  "resume",
	}
	if b.Until == nil {
		o.Args.NextTry = b.NextTry
	}
	if o.Level == Error {
		o.Next = &reconcile.CommandLine{Verb: "doctor"}
	}
	return o
}

// NewDiskLow is the obstacle of too little space for workspaces.
func NewDiskLow(message string) Obstacle {
	return Obstacle{
		Code:  DiskLow,
		Args:  Args{Message: message},
		Level: Error,
		Stops: true,
		Next:  &reconcile.CommandLine{Verb: "prune"},
	}
}

// NewPassFailed is the obstacle of an error of the last pass, which began then. stops is set if
// the pass started nothing for it.
func NewPassFailed(e reconcile.Error, at time.Time, stops bool) Obstacle {
	args := ofError(e)
	args.Since = at
	return Obstacle{
		Code:  PassFailed,
		Args:  args,
		Level: levelOf(e.Code, e.Status),
		Stops: stops,
		Next:  &reconcile.CommandLine{Verb: "tick"},
		Verb:  "refresh",
	}
}

// NewPullsUnread is the obstacle of a look at pull requests, which are called so, that failed.
func NewPullsUnread(e state.LookError, called string) Obstacle {
	return Obstacle{
		Code: PullsUnread,
		Args: Args{
			Fault:   e.Code,
			Message: e.Message,
			Subject: called,
			Since:   e.Since,
		},
		Level: levelOf(e.Code, 0),
		Next:  &reconcile.CommandLine{Verb: "tick"},
		Verb:  "refresh",
	}
}

// NewHost is the obstacle of a machine that gets no runs.
func NewHost(name, message string) Obstacle {
	return Obstacle{
		Code:  Host,
		Args:  Args{Subject: name, Message: message},
		Level: Note,
		Next:  &reconcile.CommandLine{Verb: "resume"},
		Verb:  "resume",
	}
}

// NewInstead is the obstacle of an agent that can't work, in whose place another one does.
func NewInstead(agent, instead string, b wiring.BlockedRow) Obstacle {
	o := NewBlocked(b)
	o.Code = Instead
	o.Args.Subject = agent
	o.Args.Instead = instead
	o.Level = Note
	o.Stops = false
	o.Verb = ""
	return o
}

// NewBudget is the obstacle of a budget of the day that is used up until then.
func NewBudget(message string, until time.Time) Obstacle {
	return Obstacle{
		Code:  Budget,
		Args:  Args{Message: message},
		Level: Note,
		Stops: true,
		Next:  &reconcile.CommandLine{Verb: "run", Name: "ISSUE"},
		Until: text.OrNull(until),
	}
}

// NewRateLimited is the obstacle of an allowance of an account that is used up until then.
func NewRateLimited(message string, until time.Time) Obstacle {
	return Obstacle{
		Code:  RateLimited,
		Args:  Args{Message: message},
		Level: Note,
		Stops: true,
		Until: text.OrNull(until),
	}
}

// NewPaused is the obstacle of a project that is paused.
func NewPaused() Obstacle {
	return Obstacle{
		Code:  Paused,
		Level: Warning,
		Stops: true,
		Next:  &reconcile.CommandLine{Verb: "resume"},
		Verb:  "resume",
	}
}

// OfPass is why a pass started nothing. An error of the pass is named by its code alone if said
// is set: it is printed with the pass.
func OfPass(o reconcile.Obstacle, said bool) Obstacle {
	switch o.Reason {
	case reconcile.SkipPaused:
		return NewPaused()
	case reconcile.SkipDiskLow:
		return NewDiskLow(o.Message)
	case reconcile.SkipBudget:
		return NewBudget(o.Message, o.Until)
	case reconcile.SkipRateLimited:
		return NewRateLimited(o.Message, o.Until)
	case reconcile.SkipBlocked:
		out := NewBlocked(wiring.BlockedRow{Message: o.Message, NextTry: o.Until})
		out.Args.TestedBy = o.Tester
		return out
	}
	b := wiring.BlockedRow{Reason: o.Reason, Message: o.Message, NextTry: o.Until}
	if said {
		b.Message = ""
	}
	return NewBlocked(b)
}
