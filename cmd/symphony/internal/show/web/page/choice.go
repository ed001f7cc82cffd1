package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/state"
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
		return view.Options{All: true}
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

// ResultChoice is the choice of a reader of the results: the query of the address as it was
// written, without the first row.
type ResultChoice struct {
	Query   string
	Outcome string // such as handed_over
	Label   string
	Project string
	Since   string // a day, such as 2026-01-31
	Until   string // a day
	By      string // how the sums are grouped: label, day or project
}

// NewResultChoice reads the query of an address.
func NewResultChoice(q url.Values) ResultChoice {
	given := func(key string) string { return strings.TrimSpace(q.Get(key)) }
	return ResultChoice{
		Query:   given("q"),
		Outcome: given("outcome"),
		Label:   given("label"),
		Project: given("project"),
		Since:   given("since"),
		Until:   given("until"),
		By:      given("by"),
	}
}

// With is the address of the results with this choice, but other values of some keys.
func (c ResultChoice) With(pairs ...string) string {
	chosen := []string{
		"q", c.Query,
		"outcome", c.Outcome,
		"label", c.Label,
		"project", c.Project,
		"since", c.Since,
		"until", c.Until,
		"by", c.By,
	}
	return address("/results", append(chosen, pairs...)...)
}

// endedWith is the address of the overview with the runs of a project that ended so.
func endedWith(project, outcome string) string {
	return Choice{Project: project, Status: view.StatusEnded, Query: outcome + ":"}.Address()
}

// resultsWith is the address of the results of a project that a query finds.
func resultsWith(project, query string) string {
	return ResultChoice{Project: project, Query: query}.With()
}

// handedOver is the address of the results that a project handed over on a day.
func handedOver(project, day string) string {
	c := ResultChoice{Project: project, Outcome: state.ResultHandedOver, Since: day, Until: day}
	return c.With()
}
