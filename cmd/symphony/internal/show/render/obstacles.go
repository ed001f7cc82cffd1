package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// obstacleLabels begin the lines about obstacles, by their codes; the others are an ERROR.
var obstacleLabels = map[string]string{
	obstacle.Blocked:     "BLOCKED",
	obstacle.DiskLow:     "DISK",
	obstacle.Host:        "HOST",
	obstacle.Instead:     "INSTEAD",
	obstacle.Budget:      "BUDGET",
	obstacle.RateLimited: "LOW",
	obstacle.Paused:      "PAUSED",
}

// printObstacles prints why a project starts no runs, with the project's name if named is set.
// The line with the verdict says that there is no schedule.
func printObstacles(w *term.Env, v view.Overview, named bool) {
	name := ""
	if named {
		name = v.Project.Name + ": "
	}
	for _, o := range v.Obstacles {
		if o.Code == obstacle.NoSchedule {
			continue
		}
		said := o.Words(v.GeneratedAt)
		if said.Brief == reconcile.NothingStarts || o.Code == obstacle.Paused { // the label says it
			said.Text = said.Detail
		}
		colour := term.ColourWaits
		if o.Level == obstacle.Error {
			colour = term.ColourStuck
		}
		label := fmt.Sprintf("%-9s", cmp.Or(obstacleLabels[o.Code], "ERROR"))
		line := hang(w, label, name+text.Visible(said.Full()))
		for l := range strings.SplitSeq(line, "\n") {
			fmt.Fprintln(w.Stdout, w.Paint(colour, l))
		}
		if said.Step != "" {
			fmt.Fprintln(w.Stdout, hang(w, strings.Repeat(" ", len(label)), text.Visible(said.PlainStep())))
		}
	}
}
