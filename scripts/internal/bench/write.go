package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine is where it was measured.
type machine struct {
	System    string `json:"system"`
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Go        string `json:"go"`
}

func thisMachine() machine {
	m := machine{System: runtime.GOOS + "/" + runtime.GOARCH, Processor: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version()}
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m // not a Linux
	}
	for line := range strings.Lines(string(data)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			m.Processor = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// write leaves the figures where the flags say. The pages in docs and the README's table are written of a whole measurement only.
func (b *bench) write(began time.Time, lasted time.Duration, whole bool) error {
	if b.o.json != "" {
		data, err := json.MarshalIndent(struct {
			At      time.Time `json:"at"`
			Seconds float64   `json:"seconds"`
			Quick   bool      `json:"quick"`
			Whole   bool      `json:"whole"`
			Machine machine   `json:"machine"`
			Figures []figure  `json:"figures"`
		}{began.UTC(), lasted.Seconds(), b.o.quick, whole, thisMachine(), b.table.figures}, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.o.json, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if !b.o.plot || !whole {
		return nil
	}
	if missedIn(b.table.figures) {
		return errors.New("docs and README are left as they are: a budget was missed")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	readme, err := b.inReadme(string(text), began, thisMachine())
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile("docs/growth.svg", []byte(plot(b.points)), 0o644),
		os.WriteFile("docs/costs.md", []byte(b.page(began, lasted, thisMachine())), 0o644),
		os.WriteFile("README.md", []byte(readme), 0o644),
	)
}

// page is docs/costs.md.
func (b *bench) page(began time.Time, lasted time.Duration, m machine) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# What it costs\n\n")
	fmt.Fprintf(&out, "Written by `scripts/bench -plot` on %s, in %s: %s, %d cores, %s, %s.\n",
		began.UTC().Format("2 January 2006"), lasted.Round(time.Second), m.Processor, m.Cores, m.System, m.Go)
	fmt.Fprintf(&out, "Linear and the agent are stand-ins on loopback; the rest is the program as it is released. The range is that of\n"+
		"all repetitions. MB are millions of bytes.\n\n")
	fmt.Fprintf(&out, "![CPU time of a pass by the number of claims, both axes logarithmic](growth.svg)\n")
	group := ""
	for _, f := range b.table.figures {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&out, "\n## %s\n\n| | median | range | budget | | |\n|---|---:|---:|---:|---|---|\n", strings.ToUpper(group[:1])+group[1:])
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s |\n", cell(f.Name), f.shown(), f.spread(), f.budget(), f.mark(), cell(f.Note))
	}
	return out.String()
}

// cell keeps a text from ending its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
