package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
)

// Choice is the choice of a reader of the overview: the query of its address.
type Choice struct {
	Query   string // q: a part of an identifier, of a title or of an agent's activity
	Project string // project: a name
	Status  view.Status
	From    int // the first row of a list that is longer than a page
}

// NewChoice reads the choice from the query of an address. It ignores an unknown status.
func NewChoice(q url.Values) Choice {
	c := Choice{
		Query:   strings.TrimSpace(q.Get("q")),
		Project: q.Get("project"),
		Status:  view.Status(q.Get("status")),
	}
	if !slices.Contains(view.Statuses, c.Status) {
		c.Status = ""
	}
	from, _ := strconv.Atoi(q.Get("from")) // 0 for anything but a number
	c.From = max(from, 0)
	return c
}

// Address is the address of the overview with this choice.
func (c Choice) Address() string { return c.With("from", rowNumber(c.From)) }

// With is the address of the overview with this choice, but other values of some keys, from
// the first row on.
func (c Choice) With(pairs ...string) string {
	chosen := []string{
		"q", c.Query,
		"project", c.Project,
		"status", string(c.Status),
	}
	return address("/", append(chosen, pairs...)...)
}

// mostEnded is how many ended runs a list of issues contains at most.
const mostEnded = 500

// Options select the overviews that the page needs. A search reaches all recorded runs.
func (c Choice) Options() view.Options {
	if !c.Lists() {
		return view.Options{All: true, Team: true}
	}
	return view.Options{All: true, List: true, Ended: mostEnded, Search: c.selection().Search()}
}

// selection keeps the issues that the search finds.
func (c Choice) selection() view.Selection {
	var filters []string
	if label, is := strings.CutPrefix(c.Query, labelPrefix); is {
		filters = append(filters, "label="+label)
	} else if c.Query != "" {
		filters = append(filters, "text="+c.Query)
	}
	s, _ := view.NewSelection(filters, "", 0) // the key is known
	return s
}

// labelPrefix begins a search for a label.
const labelPrefix = "label:"

// Results is the address of the results that the search finds.
func (c Choice) Results() string {
	r := ResultChoice{Project: c.Project, Query: c.Query}
	if label, is := strings.CutPrefix(c.Query, labelPrefix); is {
		r.Query = ""
		r.Label = label
	}
	return r.With()
}

// Lists reports whether the page is a list of issues that match, and nothing else.
func (c Choice) Lists() bool { return c.Query != "" || c.Status != "" }

// endedWith is the address of the overview with the runs of a project that ended so.
func endedWith(project, outcome string) string {
	return Choice{Project: project, Status: view.StatusEnded, Query: outcome + ":"}.Address()
}
