package transport

import "sync"

// Once remembers the answer to a question, such as whose the token is. A question that failed is
// asked again.
type Once[T any] struct {
	mu     sync.Mutex
	known  bool
	answer T
}

// Ask returns the answer. It asks if that is not known.
func (o *Once[T]) Ask(ask func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known {
		return o.answer, nil
	}
	answer, err := ask()
	if err != nil {
		return answer, err
	}
	o.answer = answer
	o.known = true
	return answer, nil
}
