package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
)

// Choice is what a reader of the overview has chosen: the query of its address.
type Choice struct {
	Query   string // q: a part of an identifier, of a title or of what the agent does
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
	c.From, _ = strconv.Atoi(q.Get("from"))
	c.From = max(c.From, 0)
	return c
}

// Address is the address of the overview with this choice.
func (c Choice) Address() string { return c.With("from", rowNumber(c.From)) }

// With is the address of the overview with this choice, but other values of some keys, from
// the first row on.
func (c Choice) With(pairs ...string) string {
	return address(
		"/",
		append([]string{"q", c.Query, "project", c.Project, "status", string(c.Status)}, pairs...)...)
}

// address is a path with a query of keys and their values. The last value of a key counts;
// without one it is left out.
func address(path string, pairs ...string) string {
	q := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if q.Set(pair[0], pair[1]); pair[1] == "" {
			q.Del(pair[0])
		}
	}
	return strings.TrimSuffix(path+"?"+q.Encode(), "?")
}

// rowNumber is the number of a row in an address, empty for the first one.
func rowNumber(n int) string { return strings.TrimPrefix(strconv.Itoa(n), "0") }

// mostEnded is how many ended runs a list of issues has at most.
const mostEnded = 500

// Options are those of the overviews that the page needs. A search reaches all recorded runs.
func (c Choice) Options() view.Options {
	o := view.Options{All: true}
	if c.Lists() {
		o.List = true
		o.Ended = mostEnded
		o.Search = c.selection().Search()
	}
	return o
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
