package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func versionCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		UsageText:   "symphony version [--json]",
		Description: exampleText("symphony version --json"),
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			if c.NArg() > 0 {
				return exit.Usage("version: unexpected argument %q", c.Args().First())
			}
			if w.JSON {
				w.PrintJSON(map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
				return nil
			}
			fmt.Fprintf(w.Stdout, "symphony %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// version is the module's, or the revision it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// versionOf is the release, for a program that was built from a tag or by go install; between releases the version that
// the go command makes of the commit, with +dirty where the sources were changed. Without the version control system's
// help there is at most a revision.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v := "devel"
	if revision := settings["vcs.revision"]; revision != "" {
		v += "-" + revision[:min(12, len(revision))]
	}
	if settings["vcs.modified"] == "true" {
		v += "+dirty"
	}
	return v
}
