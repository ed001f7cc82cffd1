package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

// versionJSON is the output of version --json.
type versionJSON struct {
	Version  string  `json:"version"`
	Commit   *string `json:"commit"`   // null if the program was not built in a git repository
	Date     *string `json:"date"`     // of the commit
	Modified bool    `json:"modified"` // the source had changes that were not committed
	Go       string  `json:"go"`       // the version of Go that built the program
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
	Newest   *string `json:"newest"` // the newest release, null without --check
}

func versionCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "version",
		Usage:     "print the version, the commit and its date",
		UsageText: "symphony version [flags]",
		Description: helpText(
			"version",
			"symphony version --json",
			"SYMPHONY_RELEASES=https://mirror.example.org/symphony/VERSION symphony version --check",
		),
		Flags: append(jsonFlags[versionJSON](),
			&cli.BoolFlag{Name: "check", Usage: "also print whether a newer release exists"}),
		Action: func(c *cli.Context) error { return versionAction(c, w) },
	}
}

func versionAction(c *cli.Context, w *term.Env) error {
	if c.NArg() > 0 {
		return unexpected(c, c.Args().First())
	}
	b := wiring.ReadBuild()
	newest := ""
	if c.Bool("check") {
		var err error
		newest, err = newestRelease(c.Context, w)
		if err != nil {
			return err
		}
	}
	if w.JSON {
		w.PrintJSON(versionJSON{
			Version:  b.Version,
			Commit:   text.OrNull(b.Commit),
			Date:     text.OrNull(b.Date),
			Modified: b.Modified,
			Go:       runtime.Version(),
			OS:       runtime.GOOS,
			Arch:     runtime.GOARCH,
			Newest:   text.OrNull(newest),
		})
		return nil
	}
	fmt.Fprintf(
		w.Stdout,
		"symphony %s %s %s/%s\n",
		b,
		runtime.Version(),
		runtime.GOOS,
		runtime.GOARCH,
	)
	switch {
	case newest != "" && b.OlderThan(newest):
		fmt.Fprintf(w.Stdout, "%s is newer: %s\n", newest, wiring.UpgradeHint)
	case newest != "":
		fmt.Fprintf(w.Stdout, "the newest release is %s\n", newest)
	}
	return nil
}

// newestRelease asks for the version of the newest release.
func newestRelease(ctx context.Context, w *term.Env) (string, error) {
	address := w.Environment().Getenv(wiring.ReleasesVar)
	if address == "" {
		return "", exit.Usage("version: --check needs the URL to ask in %s", wiring.ReleasesVar)
	}
	return wiring.NewestRelease(ctx, address)
}
