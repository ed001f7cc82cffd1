package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// modelCmd tells what the mock model behind the real codex was asked and has answered:
//
//	model requests N     waits until N requests have been made in all
//	model threads N      they belong to N threads
//	model prompts        prints the prompts of the last request's thread, oldest first, each under a line "# prompt N"
//	model outputs        prints what tools answered, as the model read it, each under a line "# output"
//	model tools          prints the names of the tools that the last request offered
//	model tokens         prints what all responses have cost: INPUT OUTPUT TOTAL, as the database shows it
//	model config [TABLE.]KEY VALUE   sets a key in the config.toml of the script's codex home
func modelCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := stageOf(ts).model
	if len(args) == 0 || neg || m == nil {
		ts.Fatalf("usage: model VERB, in a script with the real codex")
	}
	requests := m.Requests()
	last := modeltest.Request{}
	if len(requests) > 0 {
		last = requests[len(requests)-1]
	}
	switch verb, rest := args[0], args[1:]; {
	case verb == "requests" && len(rest) == 1:
		waitFor(ts, rest[0]+" requests to the model", func() (bool, string) {
			n := len(m.Requests())
			return strconv.Itoa(n) == rest[0], strconv.Itoa(n)
		})
	case verb == "threads" && len(rest) == 1:
		threads := map[string]bool{}
		for _, r := range requests {
			threads[r.Thread] = true
		}
		if strconv.Itoa(len(threads)) != rest[0] {
			ts.Fatalf("%d threads, not %s: %v", len(threads), rest[0], threads)
		}
	case verb == "prompts" && len(rest) == 0:
		for i, p := range last.Prompts {
			fmt.Fprintf(ts.Stdout(), "# prompt %d\n%s\n", i+1, p)
		}
	case verb == "outputs" && len(rest) == 0:
		for _, r := range requests {
			if n := len(r.Outputs); n > 0 {
				fmt.Fprintf(ts.Stdout(), "# output\n%s\n", r.Outputs[n-1])
			}
		}
	case verb == "tools" && len(rest) == 0:
		fmt.Fprintln(ts.Stdout(), strings.Join(last.Tools, "\n"))
	case verb == "config" && len(rest) == 2:
		ts.Check(configure(filepath.Join(ts.Getenv("CODEX_HOME"), "config.toml"), rest[0], rest[1]))
	case verb == "tokens" && len(rest) == 0:
		input, output := m.Tokens()
		fmt.Fprintf(ts.Stdout(), "%d\t%d\t%d\n", input, output, input+output)
	default:
		ts.Fatalf("model: unknown %q", args)
	}
}

// configure sets a key of a TOML file in which each key has a line of its own; what comes before its last dot is its
// table. A value that is neither a number nor a truth becomes a string.
func configure(path, key, value string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	begin := 0
	if dot := strings.LastIndex(key, "."); dot >= 0 {
		table := "[" + key[:dot] + "]"
		key = key[dot+1:]
		if !slices.Contains(lines, table) {
			lines = append(lines, "", table)
		}
		begin = slices.Index(lines, table) + 1
	}
	if _, err := strconv.Atoi(value); err != nil && value != "true" && value != "false" {
		value = strconv.Quote(value)
	}
	end := begin
	for end < len(lines) && !strings.HasPrefix(lines[end], "[") {
		end++
	}
	rest := slices.DeleteFunc(slices.Clone(lines[begin:end]), func(line string) bool { return strings.HasPrefix(line, key+" =") })
	lines = slices.Concat(lines[:begin], []string{key + " = " + value}, rest, lines[end:])
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}
