package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Selection chooses the rows of overviews to keep, and their order. The zero value keeps all
// rows in their order.
type Selection struct {
	filters map[string][]string // by key
	sort    string
	reverse bool
	limit   int // 0: no limit
}

// FilterKeys are the keys of a filter, as in status=held; SortKeys are the keys of an order.
var (
	FilterKeys = []string{"status", "project", "label", "text"}
	SortKeys   = []string{"status", "issue", "title", "time", "tokens"}
)

// NewSelection reads filters of the form KEY=VALUE and the key of an order, which a "-" before
// it reverses. An empty order sorts by the statuses. Filters with different keys must all
// match; of several filters with the same key, any match is enough.
func NewSelection(filters []string, order string, limit int) (Selection, error) {
	s := Selection{filters: map[string][]string{}, limit: limit}
	for _, filter := range filters {
		key, value, _ := strings.Cut(filter, "=")
		switch {
		case value == "":
			return s, exit.Usage("--filter needs KEY=VALUE with one of the keys %s, not %q",
				strings.Join(FilterKeys, ", "), filter)
		case !slices.Contains(FilterKeys, key):
			return s, unknownWord("--filter has no key %q, %s", key, FilterKeys)
		case key == "status" && !slices.Contains(Statuses, Status(value)):
			names := text.Map(Statuses, func(s Status) string { return string(s) })
			return s, unknownWord("there is no status %q, %s", value, names)
		}
		s.filters[key] = append(s.filters[key], value)
	}
	s.sort, s.reverse = strings.CutPrefix(order, "-")
	if s.sort != "" && !slices.Contains(SortKeys, s.sort) {
		return s, unknownWord("--sort has no key %q, %s", s.sort, SortKeys)
	}
	return s, nil
}

// CheckProjects refuses a filter for a project that is none of the overviews.
func (s Selection) CheckProjects(all []Overview) error {
	names := text.Map(all, func(v Overview) string { return v.Project.Name })
	for _, name := range s.filters["project"] {
		isName := func(other string) bool { return strings.EqualFold(name, other) }
		if !slices.ContainsFunc(names, isName) {
			return unknownWord("there is no project %q, %s", name, names)
		}
	}
	return nil
}

// unknownWord is the error for a word that is not among the known ones.
func unknownWord(format, word string, known []string) error {
	return exit.Usage(format, word, suggest.Instead(word, known))
}

// requestedOnly are the statuses with rows that are read on request only.
var requestedOnly = []Status{
	reconcile.StatusQueued,
	reconcile.StatusBlocked,
	reconcile.StatusWaiting,
	reconcile.StatusHandedOver,
	reconcile.StatusSkipped,
	StatusEnded,
}

// Needs reports whether the selection names a status whose rows are read on request only.
func (s Selection) Needs() bool {
	return slices.ContainsFunc(s.filters["status"], func(status string) bool {
		return slices.Contains(requestedOnly, Status(status))
	})
}

// Search finds the ended runs that the selection may keep.
func (s Selection) Search() state.Search {
	return state.Search{Texts: s.filters["text"], Labels: s.filters["label"]}
}

// Select returns the overviews confined to the issues that the selection keeps, the rows of
// all of them in the selection's order, and how many more rows its limit cut off.
func (s Selection) Select(all []Overview) (confined []Overview, rows []Row, more int) {
	type ownedRow struct {
		Row
		owner int
	}
	var kept []ownedRow
	for i, v := range all {
		for _, r := range v.Rows {
			if s.keeps(r) {
				kept = append(kept, ownedRow{r, i})
			}
		}
	}
	slices.SortStableFunc(kept, func(a, b ownedRow) int {
		if s.reverse {
			a, b = b, a
		}
		return s.compare(a.Row, b.Row)
	})
	if s.limit > 0 && len(kept) > s.limit {
		more = len(kept) - s.limit
		kept = kept[:s.limit]
	}
	own := make([][]Row, len(all))
	confined = []Overview{}
	rows = []Row{}
	for _, r := range kept {
		rows = append(rows, r.Row)
		own[r.owner] = append(own[r.owner], r.Row)
	}
	for i, v := range all {
		if len(s.filters) > 0 || s.sort != "" || s.limit > 0 {
			v = v.confine(own[i])
		}
		confined = append(confined, v)
	}
	return confined, rows, more
}

func (s Selection) keeps(r Row) bool {
	for key, values := range s.filters {
		matches := func(value string) bool { return r.matches(key, value) }
		if !slices.ContainsFunc(values, matches) {
			return false
		}
	}
	return true
}

// matches reports whether the row has the value of a key in FilterKeys.
func (r Row) matches(key, value string) bool {
	switch key {
	case "status":
		return r.Status == Status(value)
	case "project":
		return strings.EqualFold(r.Project, value)
	case "label":
		return slices.ContainsFunc(r.Labels, func(label string) bool { return strings.EqualFold(label, value) })
	}
	all := strings.ToLower(strings.Join([]string{r.Identifier, r.Title, r.Text, r.found}, "\n"))
	return strings.Contains(all, strings.ToLower(value))
}

// CompareRows orders rows by any of SortKeys.
func CompareRows(key string, a, b Row) int { return Selection{sort: key}.compare(a, b) }

// compare orders rows: by tokens, the larger number first; by time, the older first. Among
// results that wait for a review the oldest is first, also in the order of the statuses.
func (s Selection) compare(a, b Row) int {
	switch s.sort {
	case "issue":
		return text.CompareNatural(a.Identifier, b.Identifier)
	case "title":
		return strings.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title))
	case "tokens":
		return cmp.Compare(b.Tokens, a.Tokens)
	case "time":
		return text.OrEmpty(a.At).Compare(text.OrEmpty(b.At))
	}
	byStatus := cmp.Compare(slices.Index(Statuses, a.Status), slices.Index(Statuses, b.Status))
	if byStatus != 0 || a.Status != reconcile.StatusHandedOver {
		return byStatus
	}
	return text.OrEmpty(a.At).Compare(text.OrEmpty(b.At)) // whatever their projects
}

// confine returns the overview with these rows, and with the entries of its other lists that
// belong to them.
func (v Overview) confine(rows []Row) Overview {
	v.Rows = append([]Row{}, rows...)
	v.Hosts = append([]HostRow{}, v.Hosts...)
	v.Accounts = append([]AccountRow{}, v.Accounts...)
	v.Obstacles = append([]ObstacleRow{}, v.Obstacles...)
	undelivered := v.Undelivered
	v.Claims = Claims{
		Running:   []RunningRow{},
		Retrying:  []RetryingRow{},
		Held:      []HeldRow{},
		NeedsHelp: []HeldRow{},
	}
	v.Kept = []KeptRow{}
	v.Reviews = []ReviewRow{}
	v.stuck = nil
	if v.Skipped != nil {
		v.Skipped = []SkippedRow{}
	}
	if v.Ended != nil {
		v.Ended = []RunRow{}
	}
	issues := map[string]bool{}
	counted := map[string]bool{}
	for _, r := range rows {
		issues[r.IssueID] = true
		counted[r.IssueID] = counted[r.IssueID] || r.Status != StatusEnded && r.Status != StatusKept
		r.Entry.addTo(&v)
	}
	v.Undelivered = text.Filter(undelivered, func(u UndeliveredRow) bool { return issues[u.IssueID] })
	v.PullRequests = text.Filter(v.PullRequests, func(p PullRequestRow) bool { return issues[p.IssueID] })
	v.Watched = text.Filter(v.Watched, func(w WatchedRow) bool { return issues[w.IssueID] })
	v.LookErrors = append([]LookErrorRow{}, v.LookErrors...)
	v.Requests = text.Filter(v.Requests, func(r RequestRow) bool { return issues[r.Request.IssueID] })
	v.Blocked = v.blockedSessions()
	v.claims = text.Filter(v.claims, func(c reconcile.Claim) bool { return counted[c.IssueID] })
	v.skips = text.Filter(v.skips, func(s reconcile.Skip) bool { return counted[s.IssueID] })
	v.count()
	return v
}
