package repoissue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// LargestList bounds the list that is stored, in bytes. A larger list is read anew by every
// pass.
const LargestList = 16 << 20

// Memory keeps the list of candidates between processes. Its lock is held while the list is
// read and written.
type Memory[R Recorded] struct {
	sync.Mutex
	Store reconcile.TrackerMemory // nil: nothing is kept
	Key   string                  // the name of the list in Store
	Warn  func(string)
}

// List is the list that is stored: the candidates of each repository by the last answers.
type List[R Recorded] struct {
	For string `json:"for"` // the settings that it was read for
	// the login of the token's account; empty if the settings do not ask for it
	Me    string              `json:"me,omitempty"`
	Repos map[string]*Part[R] `json:"repos"`
}

// Part is the list of a single repository.
type Part[R Recorded] struct {
	Name   string    `json:"name,omitempty"` // its present name, if it was renamed
	ETag   string    `json:"etag,omitempty"`
	Mark   time.Time `json:"mark"` // the time since which changes are read next
	At     time.Time `json:"at"`   // when all open issues were read
	Issues []R       `json:"issues"`
}

// Read returns the list that is stored. It is empty if there is none or it cannot be read.
func (m *Memory[R]) Read(ctx context.Context) List[R] {
	if m.Store == nil {
		return List[R]{}
	}
	stored, _, err := m.Store.Meta(ctx, m.Key)
	if err != nil {
		return List[R]{}
	}
	decoder := json.NewDecoder(strings.NewReader(stored))
	decoder.DisallowUnknownFields()
	var l List[R]
	if decoder.Decode(&l) != nil || l.Repos == nil {
		return List[R]{}
	}
	return l
}

// Write stores a list.
func (m *Memory[R]) Write(ctx context.Context, l List[R]) error {
	stored := string(text.JSON(l))
	if len(stored) > LargestList {
		const warning = "the open issues take more than %d MiB: every pass reads all of them"
		m.Warn(fmt.Sprintf(warning, LargestList>>20))
		stored = ""
	}
	return m.Store.SetMeta(ctx, m.Key, stored)
}

// Forget drops issues that no longer exist from the list that is stored.
func (m *Memory[R]) Forget(ctx context.Context, gone []Ref) error {
	if len(gone) == 0 {
		return nil
	}
	m.Lock()
	defer m.Unlock()
	l := m.Read(ctx)
	changed := false
	for _, p := range l.Repos {
		before := len(p.Issues)
		p.Issues = slices.DeleteFunc(p.Issues, func(r R) bool {
			return slices.Contains(gone, r.core().Ref())
		})
		changed = changed || len(p.Issues) != before
	}
	if !changed {
		return nil
	}
	return m.Write(ctx, l)
}
