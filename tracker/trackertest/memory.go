package trackertest

import (
	"context"
	"sync"
)

// Memory is a reconcile.TrackerMemory. Its fields are for tests in which no adapter is at work.
type Memory struct {
	mu     sync.Mutex
	Values map[string]string
	Writes int // calls of SetMeta
}

// Meta implements reconcile.TrackerMemory.
func (m *Memory) Meta(_ context.Context, key string) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, has := m.Values[key]
	return value, has, nil
}

// SetMeta implements reconcile.TrackerMemory.
func (m *Memory) SetMeta(_ context.Context, key, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Values == nil {
		m.Values = map[string]string{}
	}
	m.Values[key] = value
	m.Writes++
	return nil
}
