package linear_test

import (
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

// operations returns the names of the requests since the last call.
func operations(s *lineartest.Server) []string {
	defer s.ClearLog()
	return text.Map(s.Log(), func(e lineartest.Entry) string { return e.Operation })
}

// A team may have more states than a page, and two teams of a project may have states of the
// same name.
func TestMoveAmongManyStates(t *testing.T) {
	team := func(key string) lineartest.SeedTeam {
		states := []lineartest.SeedState{{
			Name: "Todo",
			Type: "unstarted",
		}, {
			Name: "Human Review",
			Type: "started",
		}}
		for n := range 120 {
			states = append(states, lineartest.SeedState{
				Name: fmt.Sprint(key, " ", n),
				Type: "started",
			})
		}
		return lineartest.SeedTeam{Key: key, Name: "Team " + key, States: states}
	}
	s := startLinear(t, lineartest.Config{})
	test.OK(t, s.Load(lineartest.Seed{Teams: []lineartest.SeedTeam{team("ABC"), team("XYZ")}}))
	c := newClient(t, s)
	for _, key := range []string{"ABC", "XYZ"} {
		id := add(t, s, lineartest.Issue{Team: key}).ID
		for _, state := range []string{"Human Review", key + " 0", key + " 119", "Todo"} {
			operations(s)
			test.OK(t, c.Move(t.Context(), id, state))
			test.Equal(t, "requests", operations(s), []string{"SymphonyState", "SymphonyIssueUpdate"})
			test.Equal(t, "state", test.Must(s.Issue(id)).State, state)
			test.OK(t, c.Move(t.Context(), id, state))
			test.Equal(t, "requests for the same state", operations(s), []string{"SymphonyState"})
		}
	}
	id := add(t, s, lineartest.Issue{Team: "ABC"}).ID
	err := c.Move(t.Context(), id, "XYZ 7")
	wantCode(t, err, reconcile.CodeNoState)
	test.Contains(
		t,
		"the error",
		err.Error(),
		`Linear's team "Team ABC" has no state "XYZ 7"; it has ABC 119, ABC 118, `,
	)
	test.Equal(t, "state", test.Must(s.Issue(id)).State, "Todo")
}

func TestMoveMeetsOtherAnswers(t *testing.T) {
	state := `{"issue": {"state": {"name": "Todo"}, "team": {"named": {"nodes": [{"id": "s", ` +
		`"name": "Done"}]}}}, "issueUpdate": {"success": false}}`
	for _, data := range []string{`{"issue": null}`, state} {
		wantCode(
			t,
			answering(t, 200, `{"data": `+data+`}`).Move(t.Context(), "x", "Done"),
			"linear_unknown_payload",
		)
	}
}
