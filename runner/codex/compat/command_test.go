package compat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Where a command is told to print its schema; W stands for the words that say so.
func TestAsking(t *testing.T) {
	for command, want := range map[string]string{
		"codex app-server":                                          "codex app-server W",
		"codex app-server \n":                                       "codex app-server W \n",
		"codex app-server -c x=y --listen stdio://":                 "codex app-server -c x=y --listen stdio:// W",
		"exec nice -n 5 codex app-server":                           "exec nice -n 5 codex app-server W",
		"A=b codex -c 'a=\"b|c;d\"' app-server":                     "A=b codex -c 'a=\"b|c;d\"' app-server W",
		"codex app-server -c 'a=\"b|c;d\"' 2>&1 | tee":              "codex app-server -c 'a=\"b|c;d\"' 2>&1 W | tee",
		"codex app-server 2>log":                                    "codex app-server 2>log W",
		"codex app-server &>log; echo done":                         "codex app-server &>log W; echo done",
		"codex app-server # serve":                                  "codex app-server W # serve",
		"codex app-server --tag=a#b":                                "codex app-server --tag=a#b W",
		"cd /x && codex app-server && exit 3":                       "cd /x && codex app-server W && exit 3",
		"codex \\\n  app-server \\\n  -c x=y":                       "codex \\\n  app-server \\\n  -c x=y W",
		"if a; then old app-server; else codex app-server -c b; fi": "if a; then old app-server W; else codex app-server -c b W; fi",
		"{ codex app-server; }":                                     "{ codex app-server W; }",
		"(codex app-server)":                                        "(codex app-server W)",
		"$(which codex) app-server":                                 "$(which codex) app-server W",
		"docker run --name app-server i":                            "docker run --name app-server i W",
		"run --name app-server codex app-server":                    "run --name app-server codex app-server W",
		"./codex.sh":                                                "./codex.sh W",
		"./my-app-server --fast ":                                   "./my-app-server --fast W",
		"sh -c 'codex app-server -c x'":                             "sh -c 'codex app-server -c x W'",
		`sh -c "codex app-server" x`:                                `sh -c "codex app-server D" x`,
		`sh -c 'sh -c "codex app-server; x"'`:                       `sh -c 'sh -c "codex app-server D; x"'`,
		`sh -c "sh -c 'codex app-server'"`:                          `sh -c "sh -c 'codex app-server D'"`,
		"codex app-server 'not closed":                              "codex app-server 'not closed W",
		"ssh host codex app-server < /dev/null &":                   "ssh host codex app-server < /dev/null W &",
		"": " W",
	} {
		const words = `--out "$X"`
		want = strings.NewReplacer("W", words, "D", `--out \"\$X\"`).Replace(want)
		if got := asking(command, words); got != want {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

func FuzzAsking(f *testing.F) {
	f.Add("codex app-server")
	f.Add(`sh -c "a 'b \" app-server` + "`$(;&|")
	f.Fuzz(func(t *testing.T, command string) {
		asking(command, "words") // it ends, and does not panic
		namable(command)
	})
}

// Which words of a command may be programs, and which of them are before app-server.
func TestNamable(t *testing.T) {
	for command, want := range map[string][]string{
		"codex app-server":                    {"codex", "|", "app-server"},
		"A=b exec nice -n 5 codex app-server": {"exec", "nice", "5", "codex", "|", "app-server"},
		"$HOME/bin/codex app-server":          {"$HOME/bin/codex", "|", "app-server"},
		"~/bin/codex app-server -c a=b":       {"~/bin/codex", "|", "app-server"},
		"`which codex` app-server":            {"|", "app-server"},
		"run $(rm -rf x); ./a":                {"run", "$", "rm", "x", "./a", "|"},
		"sh -c 'codex app-server'":            {"sh", "codex", "|", "app-server"},
		"codex codex app-server":              {"codex", "|", "app-server"},
	} {
		names, before := namable(command)
		got := append(append(append([]string{}, names[:before]...), "|"), names[before:]...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", command, diff)
		}
	}
}
