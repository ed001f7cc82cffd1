package workflow

import (
	"math"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestPricesOfModels(t *testing.T) {
	p := Prices{Models: map[string]Price{"a": {Input: 2, Cached: 0.5, Output: 10}, "default": {Input: 1, Cached: 1, Output: 1}}}
	tokens := reconcile.Tokens{Input: 3_000_000, Cached: 2_000_000, Output: 1_000_000, Reasoning: 900_000, Total: 4_000_000}
	for model, want := range map[string]float64{"a": 2 + 2*0.5 + 10, "b": 4, "": 4} {
		price, known := p.Of(model)
		if got := price.Cost(tokens); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: %v, %v, want %v", model, got, known, want)
		}
	}
	delete(p.Models, "default")
	if _, known := p.Of("b"); known {
		t.Error("a model without a price has one")
	}
}
