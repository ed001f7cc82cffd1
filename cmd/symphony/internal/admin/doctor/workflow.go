package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"

	"golang.org/x/sys/unix"
)

// checkWorkflow reports the findings of symphony check.
func checkWorkflow(_ context.Context, e *environment) (list []finding) {
	if e.machine {
		return warn("there is no WORKFLOW.md in "+filepath.Dir(e.p.Path)+": only this machine is checked",
			"symphony init writes one; symphony projects lists those of this account")
	}
	if err := e.p.Nested(); err != nil {
		return failWith(err)
	}
	const others = 0o002
	info, err := os.Stat(e.p.Path)
	if err == nil && info.Mode()&others != 0 {
		list = warn(
			"every account of this machine can write "+e.p.Path+", and so let symphony run its commands",
			"run chmod o-w "+text.ShellQuote(e.p.Path),
		)
	}
	for _, text := range e.report.Warnings {
		list = append(list, warn(text, "correct it, unless it is meant")...)
	}
	for _, fault := range e.report.Errors {
		list = append(list, finding{
			Status:  statusFail,
			Message: fault.Code + ": " + fault.Message,
			Hint:    fault.Hint,
			code:    fault.Code,
		})
	}
	if _, err := wiring.MaxAgents(e.p); err != nil {
		list = append(list, failWith(err)...)
	}
	if list == nil {
		return ok("%s", e.p.Path)
	}
	return list
}

// checkEnvFile reports the names of the variables in the environment file, never the values.
func checkEnvFile(_ context.Context, e *environment) (list []finding) {
	path := e.p.EnvPath()
	shared := e.p.SharedEnvPath()
	if e.p.EnvErr != nil {
		return failWith(e.p.EnvErr)
	}
	for _, file := range []struct {
		path string
		vars map[string]string
	}{{shared, e.p.SharedEnv}, {path, e.p.OwnEnv}} {
		names := slices.Sorted(maps.Keys(file.vars))
		switch {
		case !wiring.Exists(file.path) || file.path == shared && list != nil:
		case len(names) == 0:
			list = append(list, ok("%s is empty", file.path)...)
		default:
			list = append(list, ok("%s sets %s", file.path, strings.Join(names, ", "))...)
		}
	}
	if list == nil {
		return ok("none; it would be %s for all projects, or %s", shared, path)
	}
	return list
}

// checkKey reports where the tracker's key comes from.
func checkKey(_ context.Context, e *environment) []finding {
	switch {
	case !e.config.NeedsKey:
		return nil
	case e.config.KeyIsLiteral:
		return warn("is in "+e.p.Path+", where everyone who can read the repository sees it", fmt.Sprintf(
			"write api_key: $%s there, and put %[1]s=… into %s (mode 0600)", e.config.KeyVar, e.p.EnvPath()))
	case e.config.KeyFromGh:
		return ok("from gh auth token")
	case e.config.Tracker.APIKey == "" && e.config.KeyVar == "":
		return ok("this kind of tracker needs none")
	case e.config.Tracker.APIKey == "":
		return missingKey(e)
	}
	for _, name := range e.config.SecretVars {
		value, _ := e.p.Env.Lookup(name)
		if strings.TrimSpace(value) == e.config.Tracker.APIKey.Reveal() {
			return ok("from the variable %s", name)
		}
	}
	return ok("from the environment file")
}

// missingKey reports why the tracker's key is missing.
func missingKey(e *environment) []finding {
	name := e.config.KeyVar
	put := fmt.Sprintf("put %s=… into %s (mode 0600)", name, e.p.EnvPath())
	value, set := e.p.Env.Lookup(name)
	if set && value == "" && e.p.EnvFile[name] != "" {
		return fail(
			"missing: the variable "+name+" is set but empty, and overrides the environment file",
			"unset "+name,
		)
	}
	if e.other != nil && e.other.config != nil && e.other.config.KeyFromGh {
		return fail(
			"missing: the token that you use comes from gh, which gives it to no scheduled pass",
			put+", with what gh auth token prints",
		)
	}
	return fail("missing", put)
}

// trackerAnswer is the tracker's answer to the check of the names in the workflow.
type trackerAnswer struct {
	name   string // of the tracker
	found  reconcile.TrackerFindings
	err    error
	budget reconcile.Budget // with the times of the answer
	mute   *reconcile.Error // symphony can't comment; nil if it can
	// warnings are about the tracker's answers, such as a token that may only read.
	warnings []string
	// unnamed: the tracker can't look up names, and was asked for the issues in active states
	// instead.
	unnamed bool
	issues  int
	// malformed are the faults of files that are meant as issues, in a folder of issues.
	malformed []string
}

const trackerBound = 30 * time.Second

func (e *environment) askTracker(ctx context.Context) (answer trackerAnswer) {
	ctx, cancel := context.WithTimeout(ctx, patience(trackerBound))
	defer cancel()
	// A schedule does not have the proxy variables of this process.
	keep := func(text string) { answer.warnings = append(answer.warnings, text) }
	tracker, err := wiring.NewTracker(e.p, e.config, wiring.TrackerOptions{
		IgnoreProxy: e.as != asCalled,
		Warn:        keep,
	})
	if err != nil {
		return trackerAnswer{err: err}
	}
	answer.name = tracker.Name
	answer.mute = wiring.NoComments(tracker)
	if tracker.Verify == nil {
		list, err := tracker.Candidates(ctx, e.config.Policy.ActiveStates)
		answer.unnamed = true
		answer.issues = len(list)
		answer.err = err
		return answer
	}
	answer.found, answer.err = tracker.Verify(ctx, wiring.TrackerNames(e.config))
	if e.config.Tracker.Folder != "" && answer.err == nil {
		warned := slices.Clip(answer.warnings) // reading the files again gives the same warnings
		list, err := tracker.Candidates(ctx, e.config.Policy.ActiveStates)
		answer.warnings = warned
		answer.malformed = faultsOf(list)
		answer.err = err
	}
	if tracker.Budget != nil {
		answer.budget = tracker.Budget()
	}
	return answer
}

// faultsOf returns the faults of the issues that can't be worked on.
func faultsOf(list []reconcile.Issue) (faults []string) {
	for _, issue := range list {
		if issue.Malformed != "" {
			faults = append(faults, issue.Malformed)
		}
	}
	return faults
}

// checkTracker asks the tracker whether the names in the workflow exist.
func checkTracker(_ context.Context, e *environment) []finding {
	t := e.config.Tracker
	answer := e.tracker()
	switch {
	case errors.Is(answer.err, reconcile.ErrRejected):
		return warn(
			t.Endpoint+" answers, but refused to check the project, states and labels: "+answer.err.Error(),
			"passes work without this check; compare the names in WORKFLOW.md with the tracker yourself",
		)
	case answer.err != nil:
		return failWith(answer.err)
	}
	found := answer.found
	list := ok("%s answers %s for %s", t.Endpoint, found.User, found.Project.Name)
	switch {
	case answer.unnamed:
		list = ok("%s answers with %s in an active state", t.Place, text.Plural(answer.issues, "issue"))
	case t.Endpoint == "":
		list = ok("%s can be read", found.Project.Name)
		err := unix.Access(t.Folder, unix.W_OK|unix.X_OK)
		if t.Folder != "" && err != nil {
			list = warn(
				found.Project.Name+" can be read, but not written ("+err.Error()+"): agents can't move "+
					"their issues to another state",
				cmp.Or(paths.Regain(t.Folder), "make the folder and its files writable for the account that symphony runs as"),
			)
		}
		if len(answer.malformed) > 0 && err == nil {
			list = nil
		}
		for _, fault := range answer.malformed {
			list = append(list, warn(fault, "correct the file: until then no run of its issue starts")...)
		}
	}
	if until := answer.budget.LowUntil(); !until.IsZero() {
		list = append(list, warn(
			"less than a tenth of the key's requests is left until "+text.Rfc3339(until),
			"give symphony an account of its own, or run passes less often",
		)...)
	}
	for _, wrong := range wiring.WrongNames(e.config, answer.name, found) {
		list = append(list, warn(wrong.Message, wrong.Hint)...)
	}
	for _, text := range answer.warnings {
		list = append(list, warn(text, "")...)
	}
	if answer.mute != nil && len(t.Operators) > 0 {
		list = append(list, warn(answer.mute.Message, answer.mute.Hint)...)
	}
	return list
}

// checkMonitor asks the check that expects pings.
func checkMonitor(ctx context.Context, e *environment) []finding {
	m := e.config.Monitor
	const key = "monitor.ping_url: "
	if m.PingURL == "" {
		if m.PingVar == "" {
			return nil
		}
		return warn(key+"the environment variable "+m.PingVar+" is not set, or empty: no pass is reported",
			"put "+m.PingVar+"=… into "+e.p.EnvPath()+" (mode 0600)")
	}
	if err := monitor.Check(ctx, m.PingURL); err != nil {
		return warn(
			key+err.Error(),
			"compare it with the ping URL on the page of the check; until then the check does not hear of passes",
		)
	}
	if m.PingVar == "" {
		return warn(
			key+"is in "+e.p.Path+", where everyone who can read the repository sees it",
			"write ping_url: $SYMPHONY_PING_URL there, and put SYMPHONY_PING_URL=… into "+e.p.EnvPath()+" (mode 0600)",
		)
	}
	return ok("monitor.ping_url answers")
}
