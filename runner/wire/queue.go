package wire

import (
	"slices"
	"sync"
)

// queue runs functions in order, in a goroutine that exists only while there are any.
type queue struct {
	mu      sync.Mutex
	room    *sync.Cond
	limit   int      // of the queue's length, at which add blocks; 0: none
	waiting []func() // the first function is running
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.room = sync.NewCond(&q.mu)
	return q
}

func (q *queue) setLimit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
	q.room.Broadcast()
}

func (q *queue) add(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.limit > 0 && len(q.waiting) >= q.limit {
		q.room.Wait()
	}
	q.waiting = append(q.waiting, f)
	if len(q.waiting) == 1 {
		go q.run()
	}
}

func (q *queue) run() {
	q.mu.Lock()
	for len(q.waiting) > 0 {
		next := q.waiting[0]
		q.mu.Unlock()
		next()
		q.mu.Lock()
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.room.Signal()
	}
	q.mu.Unlock()
}
