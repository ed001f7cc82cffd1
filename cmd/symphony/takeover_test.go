package main

import (
	"fmt"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// pressCmd presses a key in the terminal of tmux, again and again until what was shown matches: press Enter PATTERN. A
// program that has just drawn a question does not listen yet; what the presses too many answer has scrolled away already.
func pressCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := stageOf(ts).terminal
	if neg || len(args) != 2 || m == nil {
		ts.Fatalf("usage: press KEY PATTERN, after tmux start")
	}
	pattern := regexp.MustCompile("(?m)" + args[1])
	waitFor(ts, "the terminal to show "+args[1], func() (bool, string) {
		text, err := m.shown("-S", "-")
		ts.Check(err)
		if pattern.MatchString(text) {
			fmt.Fprint(ts.Stdout(), text)
			return true, ""
		}
		ts.Check(m.do("send-keys", args[0]))
		return false, text
	})
}
