package reconcile

import "fmt"

// slotsText is the sentence for slots of a kind that are all taken.
func slotsText(slots int, kind string) string {
	switch slots {
	case 1:
		return "the only slot" + kind + " is taken"
	case 2:
		return "both slots" + kind + " are taken"
	}
	return fmt.Sprintf("all %d slots%s are taken", slots, kind)
}
