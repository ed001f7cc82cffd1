package main

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"

	_ "embed"

	"github.com/urfave/cli/v2"
)

// The scripts know nothing of symphony's commands: at each press of the tab key they ask the program, by the hidden
// command complete, so that they fit whatever program is installed. What the program answers they take as it is:
// nothing that came from a tracker is expanded by a shell.

//go:embed completion/symphony.bash
var bashCompletion string

//go:embed completion/_symphony
var zshCompletion string

//go:embed completion/symphony.fish
var fishCompletion string

// completionScripts are the scripts of the shells, by the shell.
func completionScripts() map[string]string {
	return map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
}

func completionCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a script that completes symphony's commands in a shell",
		UsageText: "symphony completion bash|zsh|fish",
		Description: `Commands, flags and their values, the issues, runs and requests that there are, and files where a file is wanted.

  bash   a line of ~/.bashrc:  source <(symphony completion bash)
  zsh    a line of ~/.zshrc, below compinit:  source <(symphony completion zsh)
         or once:  symphony completion zsh > DIRECTORY/_symphony, with a DIRECTORY of $fpath
  fish   once:  symphony completion fish > ~/.config/fish/completions/symphony.fish

Example:

  source <(symphony completion bash)`,
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() == 0:
				return exit.Usage("completion: bash, zsh or fish is missing")
			case c.NArg() > 1:
				return exit.Usage("completion: unexpected argument %q", c.Args().Get(1))
			}
			script, known := completionScripts()[c.Args().First()]
			if !known {
				return exit.Usage("completion: there is one for bash, zsh and fish, not for %q", c.Args().First())
			}
			_, err := fmt.Fprint(w.Stdout, script)
			return err
		},
	}
}

// completeCommand is what the scripts ask. It prints what the last word may become: first a line that says what else
// fits, plain, files or directories, then a line for each candidate, with a tab before its description. What can't be
// found out is said on stderr, which the scripts discard.
func completeCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "complete", Hidden: true, SkipFlagParsing: true, Usage: "what the shells ask when they complete",
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			switch {
			case len(words) == 2 && words[0] == "--line":
				words = splitLine(words[1], w)
			case len(words) > 1 && words[0] == "--":
				words = words[1:]
			default:
				return exit.Usage("complete: want --line LINE or -- WORD...")
			}
			answer, err := complete(c.Context, w, newApp(w), words)
			answer.print(w)
			return err
		},
	}
}
