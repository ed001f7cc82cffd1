package repoissue

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Record is an issue as a tracker describes it. It is stored, so that settings such as the
// labels of priorities may change.
type Record struct {
	Repo      string    `json:"repo"` // as in Options.Repositories
	Number    int       `json:"number"`
	ID        int64     `json:"id"`
	Title     string    `json:"title"`
	Body      string    `json:"body,omitempty"`
	URL       string    `json:"url"`
	Closed    bool      `json:"closed,omitempty"`
	Labels    []string  `json:"labels,omitempty"`
	Assignees []string  `json:"assignees,omitempty"` // logins
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Blockers  []Blocker `json:"blockers,omitempty"`
	// Project and Path are the number and the present name of the repository, where a tracker tells
	// both with an issue.
	Project int64  `json:"project,omitempty"`
	Path    string `json:"path,omitempty"`
	// why the record is no issue; empty if it is an issue
	Malformed string `json:"malformed,omitempty"`
}

// Blocker is an issue that blocks another.
type Blocker struct {
	Repo   string `json:"repo"` // as the tracker names it
	Number int    `json:"number"`
	Closed bool   `json:"closed,omitempty"`
}

// Malformed returns a record with the reason why it is not an issue.
func Malformed(repo string, data []byte, err error) Record {
	var known struct {
		Number int `json:"number"`
	}
	_ = json.Unmarshal(data, &known) // the number stays 0 if the number itself is wrong
	reason := err.Error()
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if ok && wrong.Field != "" {
		reason = wrong.Field + " has an unexpected type"
	}
	return Record{Repo: repo, Number: known.Number, Malformed: reason}
}

// Complete sets labels and assignees, sorted because a tracker may order them differently each
// time, and checks the required fields. state is open or closed.
func (r *Record) Complete(state string, labels, assignees []string) {
	ordered := func(names []string) []string { return slices.Sorted(slices.Values(text.Unique(names))) }
	r.Closed = strings.EqualFold(state, "closed")
	r.Labels = ordered(text.Map(labels, strings.ToLower))
	r.Assignees = ordered(assignees)
	switch {
	case r.Number < 1:
		r.Malformed = "number is missing"
	case strings.TrimSpace(r.Title) == "":
		r.Malformed = "title is missing"
	case !r.Closed && !strings.EqualFold(state, "open"):
		r.Malformed = fmt.Sprintf("state is %q instead of open or closed", state)
	case r.Updated.IsZero():
		r.Malformed = "the time of the last change is missing"
	}
}

// Has reports whether the label is set on the issue.
func (r Record) Has(label string) bool {
	return slices.Contains(r.Labels, reconcile.NormalizeState(label))
}

// Ref names the issue.
func (r Record) Ref() Ref { return Ref{r.Repo, r.Number} }

func (r Record) core() Record { return r }

// Recorded is a Record, or a type that embeds one.
type Recorded interface{ core() Record }

// Set is a set of records of a repository, each issue once. Malformed records without a number
// are all different.
type Set[R Recorded] struct {
	numbered   map[int]R
	unnumbered []R
}

// Put adds a record, or replaces the record with its number.
func (s *Set[R]) Put(r R) {
	number := r.core().Number
	if number == 0 {
		s.unnumbered = append(s.unnumbered, r)
		return
	}
	if s.numbered == nil {
		s.numbered = map[int]R{}
	}
	s.numbered[number] = r
}

// Remove removes the record with a number.
func (s *Set[R]) Remove(number int) { delete(s.numbered, number) }

// Sorted returns the records by their numbers.
func (s *Set[R]) Sorted() []R {
	all := slices.AppendSeq(slices.Clone(s.unnumbered), maps.Values(s.numbered))
	slices.SortFunc(all, func(a, b R) int {
		return cmp.Or(a.core().Number-b.core().Number, strings.Compare(a.core().Malformed, b.core().Malformed))
	})
	return all
}

// NewestFirst sorts candidates: the newest first.
func NewestFirst[R Recorded](records []R) {
	slices.SortStableFunc(records, func(a, b R) int {
		x := a.core()
		y := b.core()
		return cmp.Or(y.Created.Compare(x.Created), strings.Compare(x.Repo, y.Repo), y.Number-x.Number)
	})
}

// Merge returns the records with the changes, the later the more recent, without issues that
// are no candidates, of which is returns false.
func Merge[R Recorded](records, changes []R, is func(R) bool) []R {
	var merged Set[R]
	for _, r := range records {
		if r.core().Number != 0 { // else the changes contain it again, or it was mended
			merged.Put(r)
		}
	}
	for _, r := range changes {
		if r.core().Number == 0 || is(r) {
			merged.Put(r)
			continue
		}
		merged.Remove(r.core().Number)
	}
	return merged.Sorted()
}
