package reconcile

import (
	"math"
	"testing"
	"time"
)

func TestDailyBudget(t *testing.T) {
	prices := Prices{
		Currency: "EUR",
		Models:   map[string]Price{"small": {1, 0.5, 2}, AnyModel: {10, 10, 20}},
	}
	used := Tokens{Input: 1_000_000, Cached: 400_000, Output: 500_000, Total: 1_500_000}
	for _, row := range []struct {
		what  string
		b     DailyBudget
		model string
		want  float64
	}{
		{"tokens", DailyBudget{Tokens: 1}, "small", 1_500_000},
		{"money", DailyBudget{Amount: 1, Prices: prices}, "small", 0.6 + 0.2 + 1},
		{"another model", DailyBudget{Amount: 1, Prices: prices}, "large", 20},
		{"a model that is not recorded", DailyBudget{Amount: 1, Prices: prices}, "", 20},
		{"several models: the highest price", DailyBudget{
			Amount: 1,
			Prices: prices,
		}, "small+large", 20},
	} {
		equal(t, row.what, row.b.Used([]ModelUse{{row.model, used}}), row.want)
	}
	equal(t, "unset", DailyBudget{}.Set(), false)

	// Days are days of UTC. Messages give the end of a day in the operator's time zone.
	tokyo := time.FixedZone("JST", 9*3600)
	now := time.Date(2026, 3, 2, 8, 30, 0, 0, tokyo)
	equal(t, "day", DayOf(now), "2026-03-01")
	equal(t, "end", DayEnd(now), time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	equal(t, "text", DailyBudget{
		Amount:  20,
		Written: "20 EUR",
	}.Text(now), "budget of 20 EUR a day used up until 09:00")
}

// TestClock checks that a time of day has its date unless that is today, before or after now.
func TestClock(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		0:                                "12:00",
		-12 * time.Hour:                  "00:00",
		-12*time.Hour - time.Minute:      "1 Mar 23:59",
		12*time.Hour - time.Minute:       "23:59",
		12 * time.Hour:                   "3 Mar 00:00",
		365*24*time.Hour + 1*time.Minute: "2 Mar 12:01",
	} {
		equal(t, ahead.String(), clockOf(noon.Add(ahead), noon), want)
	}
}

func TestPricesOfModels(t *testing.T) {
	p := Prices{Models: map[string]Price{
		"a":      {Input: 2, Cached: 0.5, Output: 10},
		AnyModel: {Input: 1, Cached: 1, Output: 1},
	}}
	tokens := Tokens{
		Input:     3_000_000,
		Cached:    2_000_000,
		Output:    1_000_000,
		Reasoning: 900_000,
		Total:     4_000_000,
	}
	for model, want := range map[string]float64{"a": 2 + 2*0.5 + 10, "b": 4, "": 4} {
		price, known := p.Of(model)
		if got := price.Cost(tokens); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: %v, %v, want %v", model, got, known, want)
		}
	}
	delete(p.Models, AnyModel)
	if _, known := p.Of("b"); known {
		t.Error("a model without a price has one")
	}
}
