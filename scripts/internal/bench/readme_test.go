package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The README's place for the table takes it, again and again, and nothing else of it changes.
func TestInReadme(t *testing.T) {
	b := &bench{}
	for _, row := range readmeRows {
		b.table.heading("%s", row.group)
		b.table.add(figure{Name: row.name, Values: []float64{1, 2, 3}, Unit: "ms", Budget: atMost(4)})
	}
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	once, err := b.inReadme(string(text), time.Unix(0, 0), machine{Cores: 2, Processor: "P"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.inReadme(once, time.Unix(0, 0), machine{Cores: 2, Processor: "P"})
	if err != nil || again != once {
		t.Errorf("written twice it is another: %v", err)
	}
	if !strings.Contains(once, "| a pass with nothing to do | 2 ms | 1 to 3 | at most 4 ms |\n") {
		t.Error(once)
	}
	before, _, _ := strings.Cut(string(text), readmeBegin)
	_, after, _ := strings.Cut(string(text), readmeEnd)
	if !strings.HasPrefix(once, before) || !strings.HasSuffix(once, after) {
		t.Error("more than the table has changed")
	}
	b.table.figures = b.table.figures[1:]
	if _, err := b.inReadme(once, time.Unix(0, 0), machine{}); err == nil {
		t.Error("a figure that was not measured is left out without a word")
	}
}
