package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestBudgets(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		budget *budget
		quick  bool
		want   string
	}{
		{"median", []float64{1, 2, 9}, atMost(2), false, "kept"},
		{"median over", []float64{1, 3, 9}, atMost(2), false, "missed"},
		{"worst over", []float64{1, 1, 3}, atMost(2).worst(), false, "missed"},
		{"least", []float64{1, 2, 3}, atLeast(2), false, "kept"},
		{"least under", []float64{1, 1, 3}, atLeast(2), false, "missed"},
		{"least, worst under", []float64{1, 3, 3}, atLeast(2).worst(), false, "missed"},
		{"absolute in a quick run", []float64{9}, atMost(2), true, ""},
		{"steady in a quick run", []float64{9}, atMost(2).steady(), true, "missed"},
	} {
		tab := table{quick: c.quick}
		tab.add(figure{Name: c.name, Values: c.values, Budget: c.budget})
		if got := tab.figures[0].Verdict; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if missed := len(tab.missed()) > 0; missed != (c.want == "missed") {
			t.Errorf("%s: among the missed: %t", c.name, missed)
		}
	}
}

func TestExponent(t *testing.T) {
	for want, points := range map[float64][]point{
		1:   {{10, 3}, {100, 30}, {1000, 300}},
		2:   {{10, 1}, {100, 100}},
		0.5: {{1, 1}, {100, 10}, {10_000, 100}},
	} {
		if got := exponent(points); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", points, got, want)
		}
	}
}

func TestStraceCounts(t *testing.T) {
	got := straceCounts(`% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 40.00    0.000400           4       100         7 futex
 30.00    0.000300           3        20           fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.000700           5       120         7 total
`)
	if got["futex"] != 100 || got["fsync"] != 20 || len(got) != 2 {
		t.Errorf("%v", got)
	}
	if text := largest(got, 1); text != "futex 100" {
		t.Error(text)
	}
}

func TestInitTraces(t *testing.T) {
	got := initTraces("init runtime @0.05 ms, 0.10 ms clock, 0 bytes, 0 allocs\nsomething else\ninit net/http @1.5 ms, 0.25 ms clock, 8 bytes, 1 allocs\n")
	if want := []initTrace{{"runtime", 0.10}, {"net/http", 0.25}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestPackageOf(t *testing.T) {
	for symbol, want := range map[string]string{
		"net/http.(*Client).Do": "net/http",
		"main.run":              "main",
		"github.com/symphony-cron/symphony/state.(*DB).Commit": "github.com/symphony-cron/symphony/state",
		"gopkg.in/yaml%2ev3.Unmarshal":                         "gopkg.in/yaml%2ev3",
		"slices.SortFunc[go.shape.[]github.com/a/b.T]":         "slices",
		"go:func.*": "go:func",
	} {
		if got := packageOf(symbol); got != want && got != strings.ReplaceAll(want, "%2e", ".") {
			t.Errorf("%s: %s, want %s", symbol, got, want)
		}
	}
}

func TestRequestsAtTheirMinimum(t *testing.T) {
	for want, l := range map[int]load{1: {}, 2: {Candidates: 10, Claims: 10}, 30: {Candidates: 1000, Claims: 500}, 400: {Candidates: 10_000, Claims: 10_000}, 3: {Candidates: 51, Claims: 1}} {
		if got := l.requests(); got != want {
			t.Errorf("%+v: %d requests, want %d", l, got, want)
		}
	}
}

func TestPlotHoldsEachPoint(t *testing.T) {
	got := plot([]point{{10, 8}, {100, 24}, {1000, 170}, {10_000, 1550}})
	if n := strings.Count(got, "<circle"); n != 4 {
		t.Errorf("%d points", n)
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") || !strings.Contains(got, "1550 ms") {
		t.Error(got)
	}
}
