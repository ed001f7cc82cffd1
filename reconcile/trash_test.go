package reconcile

import "testing"

// Removed workspaces that were kept for their time are deleted by one cleanup run, which takes no slot.
func TestTrashIsEmptied(t *testing.T) {
	s := newScene().answer()
	s.SweepDue, s.TrashDue = true, true
	plan := Compute(s.Snapshot)
	if len(plan.Actions) != 1 || plan.Actions[0].Kind != ActRemoveWorkspace || plan.Actions[0].Change.Insert.IssueID != "" {
		t.Fatalf("want one cleanup of no issue's, got %v", plan.Actions)
	}
	s.Runs = append(s.Runs, Run{ID: "r", Kind: CleanupRun, Phase: PreparingWorkspace})
	s.Liveness["r"] = Liveness{Alive: true}
	if again := Compute(s.Snapshot); len(again.Actions) != 0 {
		t.Errorf("a second one beside it: %v", again.Actions)
	}
}
