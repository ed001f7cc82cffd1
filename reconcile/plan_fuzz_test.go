package reconcile

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// FuzzPlan turns the bytes into the draws of a snapshot that a database and a tracker can give, and asks every rule
// about it. Bytes that end before the snapshot is drawn are no input.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(words(seed, 512))
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		s := drawSnapshot(t)
		for _, rule := range []func(fatal, Snapshot){
			pure, everyCandidateOnce, neverMoreThanTheSlots, noSecondRun, nothingStarts, everyDeadRunOnce, noClaimLost,
			everyCommandOnce, applyThenNothing,
		} {
			rule(t, s)
		}
	}))
}

// words are n numbers, as rapid reads them.
func words(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b []byte
	for range n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b
}

// FuzzAnyPlan fills every field of a snapshot from the bytes, without regard to what belongs together: claims without
// runs, runs without a liveness, words that no program wrote. A newer program's database or a tracker with odd answers
// may look so. Only what keys of the database exclude is taken out. The rules asked are those that must hold even then.
func FuzzAnyPlan(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(words(seed, 128))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Snapshot
		fill := filler{data: data}
		fill.value(reflect.ValueOf(&s).Elem())
		// The workflow loader lets nothing below zero through; such a backoff leads before the first year of all.
		s.Policy.MaxRetryBackoff = max(s.Policy.MaxRetryBackoff, 0)
		s.Claims = distinct(s.Claims, func(c Claim) string { return c.IssueID })
		s.Runs = distinct(s.Runs, func(r Run) string { return r.ID })
		s.Commands = distinct(s.Commands, func(c Command) string { return fmt.Sprint(c.ID) })
		for _, rule := range []func(fatal, Snapshot){pure, oneDispatch, everyDispatchRuns} {
			rule(t, s)
		}
	})
}

// oneDispatch: an issue is started once in a plan, and a run is settled once.
func oneDispatch(t fatal, s Snapshot) {
	p := Compute(s)
	for id, n := range actions(p, ActDispatch, byIssue) {
		if n > 1 {
			t.Fatalf("%q dispatched %d times: %s", id, n, story(p))
		}
	}
	for id, n := range actions(p, ActSettle, byRun) {
		if n > 1 {
			t.Fatalf("run %q settled %d times: %s", id, n, story(p))
		}
	}
}

// everyDispatchRuns: what is dispatched has a claim that says so, and nothing starts without a full answer.
func everyDispatchRuns(t fatal, s Snapshot) {
	p := compute(s)
	for _, a := range p.plan.Actions {
		if a.Kind != ActDispatch {
			continue
		}
		if c := p.claims[a.IssueID]; c == nil || c.Status != Running {
			t.Fatalf("%q dispatched, but its claim is %+v", a.IssueID, c)
		}
		if s.Tracker == nil || s.DispatchOff || p.s.Paused || s.Only != "" && s.Only != a.IssueID {
			t.Fatalf("dispatched: %s", story(p.plan))
		}
	}
}

func distinct[V any](list []V, key func(V) string) []V {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(v V) bool {
		k := key(v)
		defer func() { seen[k] = true }()
		return seen[k]
	})
}

// filler makes values of any type from bytes; when those are used up everything is zero.
type filler struct{ data []byte }

func (f *filler) next() int {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return int(b)
}

// Few words, so that ids meet; among them those that the planner knows.
var anyWord = []string{
	"", "id-1", "id-2", "id-3", "run-1", "run-2", "Todo", "In Progress", "Done", " todo ", "agent", "me", "x@example.org",
	thisProject, otherProject, thisBoot, root, string(Running), string(Waiting), string(Held), string(Continuation),
	string(Backoff), string(Interrupted), string(Blocked), string(NoSlot), string(AgentRun), string(CleanupRun),
	string(Starting), string(StreamingTurn), string(Succeeded), string(Failed), string(Canceled), string(InterruptedRun),
	string(Lost), string(VerbStop), string(VerbHold), string(VerbRetry), string(VerbStopAll), string(VerbPause),
	string(VerbResume), HoldOperator, HoldMaxFailures, HoldInterrupted, StopTerminal, StopMissing, StopOperator, StopAll,
	StopProject, "network", "agent_auth", "turn_failed", "\xff\n",
}

var anyNumber = []int64{0, 1, 2, 3, 10, 100, -1, 1 << 40, 1<<63 - 1, -1 << 63}

var timeType = reflect.TypeFor[time.Time]()

func (f *filler) value(v reflect.Value) {
	if v.Type() == timeType {
		times := []time.Time{{}, noon, noon.Add(-time.Minute), noon.Add(time.Hour), noon.Add(-300 * time.Hour), noon.AddDate(900, 0, 0)}
		v.Set(reflect.ValueOf(times[f.next()%len(times)]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.value(v.Field(i))
		}
	case reflect.String:
		v.SetString(anyWord[f.next()%len(anyWord)])
	case reflect.Bool:
		v.SetBool(f.next()%2 == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(anyNumber[f.next()%len(anyNumber)])
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(f.next()))
	case reflect.Pointer:
		if f.next()%2 == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			f.value(v.Elem())
		}
	case reflect.Slice:
		n := f.next() % 5
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.value(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.next() % 5 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.value(key)
			f.value(value)
			v.SetMapIndex(key, value)
		}
	default:
		panic("no way to fill a " + v.Type().String())
	}
}
