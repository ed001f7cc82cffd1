package operate

import (
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Order is something that a person can do about an issue or a request. The commands, the addresses
// of the API, the buttons of the page, the keys of symphony top and the tools for MCP hosts are
// those of Orders.
type Order struct {
	Name  string // the last part of its address, such as "hold"
	Words string // the command, such as "stop --after-run"
	Does  string // in a line: "end its run and hold it"
	// Tool describes it to the model of an MCP host; empty if only a person may give it.
	Tool string
	Key  string // of symphony top; empty if it has none
	// AboutRequest: it is about a request and not about an issue.
	AboutRequest bool
	TakesText    bool
	Several      bool // a page gives it for several at once
	// Possible reports whether it would take effect for an issue.
	Possible func(Row) bool
	Command  func(Arguments) Command
}

// Arguments are what an order may need besides the issue.
type Arguments struct {
	Texts      []string
	Becomes    string // what the person was told that the text becomes; empty if nothing
	Choices    []int
	Reason     string // of a denial
	ForSession bool   // approve similar requests, too
}

// Row is what an overview shows of an issue, as far as it decides what a person can do about it.
type Row struct {
	Status      view.Status
	Hold        string // the reason of its hold; empty if it is not held
	Claimed     bool
	HeldNext    bool // it is held when its run ends
	Undelivered bool // some commits of its claim are not delivered
}

// RowOf is a row of an overview.
func RowOf(r view.Row) Row {
	row := Row{
		Status:      r.Status,
		Claimed:     r.Claimed,
		HeldNext:    r.HeldNext,
		Undelivered: r.Undelivered,
	}
	if held, is := r.Entry.(view.HeldRow); is {
		row.Hold = held.Reason
	}
	return row
}

// RowOfIssue is the row of an issue.
func RowOfIssue(v detail.Issue) Row {
	row := Row{Status: v.Status}
	if c := v.Claim; c != nil {
		row.Hold = text.OrEmpty(c.HoldReason)
		row.Claimed = true
		row.HeldNext = c.HeldNext
		row.Undelivered = c.Delivery != nil && c.Delivery.Due
	}
	return row
}

func (r Row) is(statuses ...view.Status) bool { return slices.Contains(statuses, r.Status) }

func (r Row) isRunning() bool { return r.is(reconcile.StatusRunning, reconcile.StatusNeedsAnswer) }

// TellComments reports whether a text for its agent becomes a comment on the issue, which then goes
// back to the agent.
func (r Row) TellComments() bool {
	return r.is(reconcile.StatusHandedOver, reconcile.StatusNeedsHelp) ||
		r.is(reconcile.StatusHeld) && r.Hold != reconcile.HoldOperator
}

// Becomes is what a text for the agent of the issue becomes, such as BecomesComment.
func (r Row) Becomes() string {
	if r.TellComments() {
		return BecomesComment
	}
	return BecomesMessage
}

// TellBecomes says what a text for the agent of the issue becomes.
func (r Row) TellBecomes(identifier string) string {
	if r.TellComments() {
		return "becomes a comment on " + identifier + ", which goes back to its agent"
	}
	return "its present or next run gets it"
}

// Orders are all orders, the most frequent first.
var Orders = []Order{
	{
		Name:  "tell",
		Words: "tell",
		Does:  "say something to the agent of an issue: answer it, guide it, or send its result back",
		Tool: "Say something to the agent of an issue. A running agent gets it in its turn, otherwise the next run does. " +
			"For an issue that was handed over, needs help or is held it becomes a comment on the issue, " +
			"which goes back to its agent. Do not use it to answer an open question: decide_request does.",
		Key:       "m",
		TakesText: true,
		Possible:  func(r Row) bool { return !r.is(detail.StatusReleased, detail.StatusUnknown) },
		Command: func(a Arguments) Command {
			return Tell{Texts: a.Texts, Choices: a.Choices, Becomes: a.Becomes}
		},
	},
	{
		Name:  "retry",
		Words: "retry",
		Does:  "let an issue go on now: end its hold or its wait, or repeat its delivery or its proof",
		Tool: "Let an issue go on now: end its hold or its wait, or repeat a delivery that failed. " +
			"Use it after the cause is gone. Do not use it if its agent asks for help: tell_issue does that.",
		Key:     "r",
		Several: true,
		Possible: func(r Row) bool {
			if r.isRunning() {
				return r.HeldNext
			}
			if r.is(detail.StatusReady, reconcile.StatusQueued) {
				return true
			}
			return r.Claimed && r.is(reconcile.StatusHeld, reconcile.StatusWaiting, reconcile.StatusUndelivered)
		},
		Command: func(Arguments) Command { return Retry{NoWait: true} },
	},
	{
		Name:     "stop",
		Words:    "stop",
		Does:     "end the run of an issue, now or later, and hold it; or pause the project and end every run",
		Key:      "s",
		Several:  true,
		Possible: Row.isRunning,
		Command:  func(Arguments) Command { return Stop{NoWait: true} },
	},
	{
		Name:  "hold",
		Words: "stop --after-run",
		Does:  "let its run end by itself, and start no further one",
		Tool: "Start no further run of an issue. Use it to postpone an issue. " +
			"Do not use it to end the current run, which continues.",
		Key:     "h",
		Several: true,
		Possible: func(r Row) bool {
			if r.isRunning() {
				return !r.HeldNext
			}
			return r.is(reconcile.StatusQueued, reconcile.StatusBlocked, reconcile.StatusWaiting,
				reconcile.StatusSkipped, view.StatusStuck, detail.StatusReady)
		},
		Command: func(Arguments) Command { return Stop{AfterRun: true} },
	},
	{
		Name:     "done",
		Words:    "done",
		Does:     "take the result of an issue: merge it if merge is set, and close the issue",
		Key:      "c",
		Several:  true,
		Possible: func(r Row) bool { return r.is(reconcile.StatusHandedOver, reconcile.StatusNeedsHelp) },
		Command:  func(Arguments) Command { return Finish{} },
	},
	{
		Name:         "approve",
		Words:        "approve",
		Does:         "allow what a running agent asks for (to accept a result: symphony done)",
		AboutRequest: true,
		Several:      true,
		Possible:     func(r Row) bool { return r.is(reconcile.StatusNeedsAnswer) },
		Command: func(a Arguments) Command {
			return Decision{Decision: requests.Approval(a.ForSession)}
		},
	},
	{
		Name:         "deny",
		Words:        "deny",
		Does:         "refuse what a running agent asks for; it goes on without that",
		AboutRequest: true,
		Several:      true,
		Possible:     func(r Row) bool { return r.is(reconcile.StatusNeedsAnswer) },
		Command: func(a Arguments) Command {
			return Decision{Decision: requests.Decision{How: reconcile.DecideDeny, Reason: a.Reason}}
		},
	},
}

// OrderOf returns the order with a name; false if there is none.
func OrderOf(name string) (Order, bool) {
	at := slices.IndexFunc(Orders, func(o Order) bool { return o.Name == name })
	if at < 0 {
		return Order{}, false
	}
	return Orders[at], true
}

// Possible returns the orders about an issue that would take effect.
func (r Row) Possible() []Order {
	return text.Filter(Orders, func(o Order) bool { return !o.AboutRequest && o.Possible(r) })
}

// WordsOf is a verb as an operator types it: "stop --after-run" for hold.
func WordsOf(verb reconcile.Verb) string {
	o, known := OrderOf(string(verb))
	if known {
		return o.Words
	}
	return string(verb)
}
