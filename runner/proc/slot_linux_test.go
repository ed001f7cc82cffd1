package proc

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// Each holder has a number of its own. Workers of other tests hold some, too.
func TestTakeSlot(t *testing.T) {
	first, held, err := TakeSlot()
	test.OK(t, err)
	second, other, err := TakeSlot()
	test.OK(t, err)
	if second <= first {
		t.Errorf("the second number is %d, after %d", second, first)
	}
	test.OK(t, other.Close())
	test.OK(t, held.Close())
}
