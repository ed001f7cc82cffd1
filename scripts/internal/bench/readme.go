package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The README's table stands between these lines.
const (
	readmeBegin = "<!-- costs: written by scripts/bench -plot -->\n"
	readmeEnd   = "<!-- end of costs -->\n"
)

// readmeRows are the figures that the README shows: what it says, and the group and the name that it stands for.
var readmeRows = []struct{ says, group, name string }{
	{"a pass with nothing to do", "a pass with nothing to do, ", "wall"},
	{"the same, against the least program that takes its steps", "a pass with nothing to do, ", "wall, ratio pair by pair"},
	{"the same, against a program that only opens the database and asks Linear", "a pass with nothing to do, ", "wall, ratio to that one"},
	{"the same, against the least program, where Linear answers after 50 ms", "a pass with nothing to do, ", "wall, ratio where the tracker answers after 50 ms"},
	{"its memory at its peak", "a pass with nothing to do, ", "peak resident"},
	{"its requests to Linear", "a pass with nothing to do, ", "requests"},
	{"what 100,000 finished runs in the history add to it", "a pass with nothing to do after ", "wall, ratio pair by pair"},
	{"CPU of a pass over 10,000 claims and as many candidates, all of them changed", "a pass over claims", "10000 claims, CPU, all changed"},
	{"the same, none of them changed", "a pass over claims", "10000 claims, CPU, none changed"},
	{"its memory at its peak", "a pass over claims", "10000 claims, peak resident"},
	{"its requests: a page each 50 issues", "a pass over claims", "10000 claims, requests"},
	{"growth with the claims, as an exponent, from 1,000 to 10,000", "a pass over claims", "growth of CPU, exponent from 1000 to 10000"},
	{"start of a pass to the last of ten agents", "10 at once", "start of the pass to the last initialize"},
	{"a run's continuation, after its time, under `tick --loop`", "one run after the other", "under tick --loop, to the agent's initialize"},
	{"the same by the worker's own pass, under cron", "one run after the other", "by the worker's own pass, under cron, to the agent's initialize"},
	{"an issue moves to Done: until its agent is gone, by a pass right after it", "a person moves", "a pass right after it"},
	{"memory (PSS) of each of 50 workers", "50 workers, streaming", "PSS of each worker"},
	{"its part of a core, at 100 events a second", "50 workers, streaming", "part of a core each, at 100 events a second"},
	{"its part of a core, the agent silent", "50 workers, silent", "part of a core each"},
	{"bytes a second through the decoder, against a bare line reader with json.Valid", "the decoder, on a turn", "part of the bare reader's, pair by pair"},
	{"`ps` on 500 claims and 5,000 finished runs", "answers on", "ps"},
	{"`ps --watch` on them, part of a core", "answers on", "ps --watch for 15s, part of a core"},
	{"between passes by cron: processes besides workers and their agents", "10 issues with agents of 2s: a pass each second", "processes between passes besides workers and their agents"},
	{"between passes by cron: memory (PSS)", "10 issues with agents of 2s: a pass each second", "memory (PSS) after the work, between passes"},
	{"between passes of `tick --loop`: memory (PSS)", "10 issues with agents of 2s: tick --loop", "memory (PSS) after the work, between passes"},
}

// inReadme puts the table into the README's text.
func (b *bench) inReadme(text string, began time.Time, m machine) (string, error) {
	head, rest, found := strings.Cut(text, readmeBegin)
	_, tail, ended := strings.Cut(rest, readmeEnd)
	if !found || !ended {
		return "", errors.New("README.md has no place for the table of costs")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "| on %d cores (%s), %s | median | range | budget |\n|---|---:|---:|---:|\n", m.Cores, m.Processor, began.UTC().Format("January 2006"))
	for _, row := range readmeRows {
		at := slices.IndexFunc(b.table.figures, func(f figure) bool { return strings.HasPrefix(f.Group, row.group) && f.Name == row.name })
		if at < 0 {
			return "", fmt.Errorf("nothing was measured that is called %q: %q", row.group, row.name)
		}
		f := b.table.figures[at]
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", row.says, f.shown(), f.spread(), f.budget())
	}
	return head + readmeBegin + out.String() + readmeEnd + tail, nil
}
