package doctor

import (
	"cmp"
	"context"
	"os/user"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// doctor looks at one project from two places: as it was called, and as a schedule would run it.
type doctor struct {
	w                *term.Env
	called, schedule *place
	patience         time.Duration // latePatience
}

func newDoctor(ctx context.Context, p *project.Project, stateFlag string) *doctor {
	d := &doctor{w: p.Env, patience: latePatience}
	d.called = newPlace(d, asCalled, p)
	// The schedule names workflow and state directory as flags, so those hold there too. A variable does not, unless what is
	// installed carries it.
	stateDir, vars := carriedBySchedule(ctx, p)
	w := underSchedule(p.Env, vars)
	d.schedule = newPlace(d, asSchedule, project.New(w, p.Path, cmp.Or(stateFlag, stateDir)))
	return d
}

// underSchedule is the world as cron shows it to what it starts, with the variables that its line sets.
func underSchedule(w *term.Env, vars []string) *term.Env {
	name := cmp.Or(w.Getenv("LOGNAME"), w.Getenv("USER"))
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	bare := *w
	bare.Environ = append([]string{
		"HOME=" + w.Home, "USER=" + name, "LOGNAME=" + name, "SHELL=" + cmp.Or(w.Getenv("SHELL"), "/bin/sh"), "PATH=/usr/bin:/bin",
	}, vars...)
	return &bare
}

// Examine checks everything that a run of the project needs and prints what it finds. stateFlag is the state directory that
// a flag names, empty without one.
func Examine(ctx context.Context, p *project.Project, stateFlag string) error {
	return newDoctor(ctx, p, stateFlag).examine(ctx)
}
