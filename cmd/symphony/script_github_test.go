package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/runner/host/local/repository/githubtest"
)

// githubCmd controls the script's GitHub, which has one repository:
//
//	github start DIRECTORY    serves the repository with this directory's last two names, and sets $GITHUB_URL and $GITHUB_TOKEN
//	github fail REASON        makes all requests fail; see githubtest
//	github ok                 ends that
//	github end NUMBER         merges or closes a pull request
//	github pulls              prints all pull requests
//	github requests [METHOD...]  fails unless these requests were made since the last call
func githubCmd(ts *testscript.TestScript, neg bool, args []string) {
	set := stageOf(ts)
	switch verb, rest := args[0], args[1:]; verb {
	case "start":
		names := strings.Split(strings.TrimSuffix(ts.MkAbs(rest[0]), ".git"), "/")
		set.github = &githubtest.Server{
			Repository: strings.Join(names[len(names)-2:], "/"), Remote: ts.MkAbs(rest[0]),
			Tokens: []string{"github_pat_secretsecret", "gho_secretsecret"},
		}
		set.github.Start()
		ts.Defer(set.github.Close)
		ts.Setenv("GITHUB_URL", set.github.URL())
		ts.Setenv("GITHUB_TOKEN", set.github.Tokens[0])
	case "fail":
		set.github.Fail(rest[0])
	case "ok":
		set.github.Fail("")
	case "end":
		number, err := strconv.Atoi(rest[0])
		ts.Check(err)
		set.github.End(context.Background(), number)
	case "pulls":
		for _, p := range set.github.Pulls(context.Background()) {
			fmt.Fprintf(ts.Stdout(), "%d %s %s into %s by %s: %s\n%s\n", p.Number, p.State, p.Branch, p.Base, p.From, p.Title, p.Body)
		}
	case "requests":
		if got := strings.Join(set.github.Requests(), " "); got != strings.Join(rest, " ") {
			ts.Fatalf("the requests were %q", got)
		}
	default:
		ts.Fatalf("github: unknown verb %q", verb)
	}
}
