package reconcile

import "testing"

func TestRequestRef(t *testing.T) {
	for ref, want := range map[string]int{
		"A-7.3": 3,
		"A-7":   0,
		"m6.01": 0,
		"m6.+1": 0,
		"m6.0":  0,
		".3":    0,
	} {
		_, number := RequestRef(ref)
		equal(t, ref, number, want)
	}
}
