package wiring

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/tracker/command"
	"github.com/symphony-cron/symphony/tracker/file"
	"github.com/symphony-cron/symphony/tracker/github"
)

// TrackerOptions describe what an adapter is built for.
type TrackerOptions struct {
	Memory reconcile.TrackerMemory // nil: the adapter remembers nothing after its process
	// Warn receives a message about each part of an answer that the adapter ignores; nil
	// discards them.
	Warn func(string)
	// IgnoreProxy is for a check on behalf of a schedule, which does not have the proxy of
	// this process's environment.
	IgnoreProxy bool
}

// NewTracker builds the adapter of a configuration.
func NewTracker(p *Project, cfg *workflow.Config, o TrackerOptions) (*reconcile.TrackerAdapter, error) {
	t, err := newAdapter(p, cfg, o)
	if err != nil {
		return nil, err
	}
	t.Tracker = again{t.Tracker}
	return t, nil
}

func newAdapter(p *Project, cfg *workflow.Config, o TrackerOptions) (*reconcile.TrackerAdapter, error) {
	t := cfg.Tracker
	readOnly := cfg.Tracker.ToolScope == "read"
	connection := transport.Options{
		Endpoint:    t.Endpoint,
		Key:         t.APIKey.Reveal(),
		KeySource:   cfg.KeySource,
		CAFile:      t.CAFile,
		IgnoreProxy: o.IgnoreProxy,
		Now:         p.Env.Now,
		Warn:        o.Warn,
	}
	switch t.Kind {
	case "command":
		return command.Adapter(commandOptions(p, cfg))
	case "file":
		return file.Adapter(file.Options{
			Path: t.Folder, Active: cfg.Policy.ActiveStates, Terminal: cfg.Policy.TerminalStates,
			Others: t.OtherStates, Handoff: cfg.Handoff.States(),
			Assignee: cfg.Policy.Assignee, ReadOnly: readOnly, Now: p.Env.Now, Warn: o.Warn,
		})
	case "github":
		g := t.GitHub
		options := github.Options{
			Options:        connection,
			Repositories:   g.Repos,
			StateLabels:    g.StateLabels,
			PriorityLabels: g.PriorityLabels,
			Assignee:       cfg.Policy.Assignee,
			Project:        g.Project,
			StatusField:    g.StatusField,
			ToolBudget:     g.ToolBudget,
			ReadOnly:       readOnly,
			Memory:         o.Memory,
		}
		if cfg.Repository.URL != "" {
			options.Branch = func(issue reconcile.Issue) string {
				// without a branch there is no pull request
				branch, _ := cfg.Repository.Render(issue, 0)
				return branch
			}
		}
		return github.Adapter(options)
	case "linear":
		return linear.Adapter(linear.Options{
			Options: connection, ProjectSlug: t.ProjectSlug, Team: t.Team, ReadOnly: readOnly,
			Assignee:           cfg.Policy.Assignee != "" || strings.Contains(p.Source.Body, "assignee"),
			ProjectDescription: workflow.NamesProjectDescription(p.Source.Body),
		})
	}
	return nil, reconcile.NewError(
		workflow.CodeTrackerKind,
		fmt.Sprintf("no adapter for tracker.kind %q", t.Kind),
		"correct tracker.kind",
	)
}

// commandOptions are those of a tracker that is a program. It is started beside WORKFLOW.md,
// with the environment of hooks and the tracker's key, which hooks do not get.
func commandOptions(p *Project, cfg *workflow.Config) command.Options {
	t := cfg.Tracker
	key := cfg.Tracker.APIKey.Reveal()
	env := p.Environ()
	if key != "" {
		env = append(env, command.KeyVar+"="+key)
	}
	return command.Options{
		Command:  t.Command,
		Verbs:    t.Verbs,
		Key:      key,
		ReadOnly: t.ToolScope == "read",
		Now:      p.Env.Now,
		States:   slices.Concat(cfg.Policy.ActiveStates, cfg.Policy.TerminalStates),
		Redact: func(text string) string {
			return agent.NewRedactor(append(agent.EnvSecrets(env), key)).Text(text)
		},
		Run: func(ctx context.Context, argv []string, stdin []byte, limit int) (command.Output, error) {
			out, err := tree.Run(ctx, host.StartRequest{
				Argv: argv,
				Dir:  filepath.Dir(p.Path),
				Env:  env,
			}, stdin, limit)
			return command.Output{
				Stdout: out.Stdout,
				Stderr: out.Stderr,
				Exit:   out.Exit.Code,
				Status: out.Exit.Text,
			}, err
		},
	}
}

// TrackerSetup is how init connects a project to a kind of tracker with a key. It refuses a
// kind that has none.
func TrackerSetup(kind string) (reconcile.TrackerSetup, error) {
	switch kind {
	case "github":
		return github.Setup(), nil
	case "linear":
		return linear.Setup(), nil
	}
	return reconcile.TrackerSetup{}, reconcile.NewError(
		workflow.CodeTrackerKind,
		fmt.Sprintf("init can't connect to tracker.kind %q", kind),
		"write WORKFLOW.md yourself, see docs/trackers.md",
	)
}

// FolderStates returns the states that a folder of issues defines, in their order; none if an
// issue there can have any state.
func FolderStates(dir string) []reconcile.TrackerState { return file.States(dir) }

// WarnOn reports warnings to the operator, each once.
func WarnOn(w *environ.Env) func(string) {
	var printed sync.Map
	return func(text string) {
		if _, again := printed.LoadOrStore(text, true); !again {
			w.Warn(text)
		}
	}
}

// TrackerNames returns the names in a workflow that a tracker can look up.
func TrackerNames(cfg *workflow.Config) reconcile.TrackerNames {
	p := cfg.Policy
	return reconcile.TrackerNames{
		States:    slices.Concat(p.ActiveStates, p.TerminalStates, cfg.Handoff.States()),
		Labels:    p.RequiredLabels,
		Assignee:  p.Assignee,
		Operators: cfg.Tracker.Operators,
	}
}

// WrongNames returns an error for each name in the workflow that the tracker does not have,
// with the next step as its hint.
func WrongNames(
	cfg *workflow.Config,
	tracker string,
	found reconcile.TrackerFindings,
) (list []*reconcile.Error) {
	add := func(message, hint string) {
		list = append(list, &reconcile.Error{
			Message: message,
			Hint:    hint,
		})
	}
	for _, u := range found.States {
		switch {
		case !slices.Contains(cfg.Tracker.NamedStates, u.Name):
			// a missing default state is not a mistake
		case len(u.Nearest) > 0 && cfg.Tracker.Folder != "" && FolderStates(cfg.Tracker.Folder) == nil:
			add(fmt.Sprintf("no issue has the state %q, and one has %q", u.Name, u.Nearest[0]),
				"correct the name in WORKFLOW.md or in the file of the issue")
		default:
			add(
				"the "+scope(cfg.Tracker)+" has no state "+u.String(),
				"correct the name in WORKFLOW.md, or add the state in the tracker",
			)
		}
	}
	for _, u := range found.Labels {
		add(
			tracker+" has no label "+u.String(),
			"create the label, or correct tracker.required_labels; until then no run starts",
		)
	}
	if u := found.Assignee; u != nil {
		add(tracker+" has no user "+u.String(), "correct tracker.assignee; until then no run starts")
	}
	for _, name := range found.OwnOperators {
		add(
			fmt.Sprintf(
				"tracker.operators: %q is the user of symphony's key, with which agents comment, too: its answers are ignored",
				name,
			),
			"give symphony a key of another user, or name another operator",
		)
	}
	if row := uncountedRow(cfg, found.OwnOperators); row != nil {
		list = append(list, row)
	}
	return list
}

// uncountedRow returns an error if labels that operators set do not count for a row of
// agent.by_label with set_by, because symphony works with the key of these operators; nil if
// they count. Their labels can't be told from those of agents.
func uncountedRow(cfg *workflow.Config, own []string) *reconcile.Error {
	at := slices.IndexFunc(cfg.Agent.ByLabel, func(row workflow.LabelRow) bool { return row.SetBy != "" })
	if at < 0 || len(own) == 0 {
		return nil
	}
	words := fmt.Sprintf("does not count if %q sets the label", own[0])
	if len(own) == len(cfg.Tracker.Operators) {
		words = "never counts, because symphony has no operator with a user of their own"
	}
	return &reconcile.Error{
		Message: fmt.Sprintf("agent.by_label: the row of the label %q with set_by: operators %s: "+
			"symphony and its agents set labels with the key of %q, so that all of them have one author",
			cfg.Agent.ByLabel[at].Label, words, own[0]),
		Hint: "give symphony a key of another user, such as a machine account",
	}
}

// scope is what has the states of a tracker's issues, for people.
func scope(t workflow.Tracker) string {
	if t.Team != "" {
		return "team"
	}
	return "project"
}

// NoComments returns an error if symphony can't comment in the tracker.
func NoComments(t *reconcile.TrackerAdapter) *reconcile.Error {
	if t.Comments != nil && t.Post != nil && t.Edit != nil {
		return nil
	}
	return &reconcile.Error{
		Message: "tracker.operators and tracker.explain_holds have no effect: symphony can't comment in " + t.Name,
		Hint:    "give the tracker's program the verb comment, or remove these keys",
	}
}

// VerifyNames wraps the tracker so that its reads check whether project, states, labels and
// assignee exist, where that matters: if the workflow has names of its own, or if the tracker
// shows no issue, as it does for a mistyped project. The database stores the names that were
// checked; if db is nil, every process checks them.
func VerifyNames(
	t *reconcile.TrackerAdapter,
	db *state.DB,
	cfg *workflow.Config,
	path string,
	warn func(string),
) *reconcile.TrackerAdapter {
	if t.Verify == nil {
		return t
	}
	checked := *t
	checked.Tracker = &verified{t: t, db: db, cfg: cfg, path: path, warn: warn}
	return &checked
}

type verified struct {
	t    *reconcile.TrackerAdapter
	db   *state.DB
	cfg  *workflow.Config
	path string
	warn func(string)

	once sync.Once
	err  error
	// unchecked: the tracker refused or failed the check of these names.
	unchecked bool
}

// ByIDs implements reconcile.Tracker.
func (v *verified) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	found, err := v.t.ByIDs(ctx, ids)
	if err != nil {
		return found, v.explain(err)
	}
	if len(ids) == 0 {
		return found, nil
	}
	shown := showsProject(found)
	if shown && !v.hasOwnNames() {
		return found, nil
	}
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	if v.unchecked && !shown {
		err = v.confirmProject(ctx)
	}
	return found, err
}

// showsProject reports whether one of the issues is in the workflow's project, which then
// exists.
func showsProject(found map[string]reconcile.Issue) bool {
	for _, issue := range found {
		if !issue.Elsewhere {
			return true
		}
	}
	return false
}

// confirmProject returns an error if the tracker shows no issue of the workflow's project. The
// project may be mistyped then, and neither the issues that seem to be in another one nor
// those of the project before may be stopped or released.
func (v *verified) confirmProject(ctx context.Context) error {
	candidates, err := v.t.Candidates(ctx, v.cfg.Policy.ActiveStates)
	if err != nil || len(candidates) > 0 {
		return err
	}
	return reconcile.NewError(
		"tracker_project_not_found",
		fmt.Sprintf("%s: %s: %s shows no issue of %q and refuses to check whether the project exists",
			v.path, v.cfg.Tracker.PlaceKey, v.t.Name, v.cfg.Tracker.Place),
		"correct it, or create an issue in an active state there; until then no run is stopped and no issue is released",
	)
}

// Candidates implements reconcile.Tracker.
func (v *verified) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	issues, err := v.t.Candidates(ctx, states)
	if err != nil {
		return nil, v.explain(err)
	}
	if len(issues) > 0 && !v.hasOwnNames() {
		return issues, nil
	}
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	return issues, nil
}

// hasOwnNames reports whether the workflow has names that may be mistyped although the tracker
// shows issues: states other than those that each project of the tracker has, labels, an
// assignee or operators.
func (v *verified) hasOwnNames() bool {
	n := TrackerNames(v.cfg)
	usual := workflow.UsualStates(v.cfg.Tracker.Kind)
	own := text.Filter(
		v.cfg.Tracker.NamedStates,
		func(state string) bool { return !slices.Contains(usual, state) },
	)
	return len(own)+len(n.Labels)+len(n.Operators) > 0 || n.Assignee != ""
}

// explain adds to the error of a project that does not exist which key of which workflow names
// it. It returns other errors as they are.
func (v *verified) explain(err error) error {
	if !isNoProject(err) {
		return err
	}
	known, _ := errors.AsType[*reconcile.Error](err)
	own := *known
	if !strings.HasPrefix(own.Message, "tracker.") { // it names no key
		own.Message = v.cfg.Tracker.PlaceKey + ": " + own.Message
	}
	own.Message = v.path + ": " + own.Message
	return &own
}

// isNoProject reports whether an error of the tracker says that the workflow's project does
// not exist.
func isNoProject(err error) bool {
	known, ok := errors.AsType[*reconcile.Error](err)
	return ok && known.Code == "tracker_project_not_found"
}

func (v *verified) verify(ctx context.Context) error {
	v.once.Do(func() { v.err = v.check(ctx) })
	return v.err
}

const (
	// verifiedKey names the checked names in the database.
	verifiedKey = "verified"
	// refusedCheck precedes names that the tracker refused to check.
	refusedCheck = "refused "
)

func (v *verified) check(ctx context.Context) error {
	n := TrackerNames(v.cfg)
	names := fmt.Sprintf(
		"%q",
		slices.Concat(
			[]string{v.cfg.Policy.Project, n.Assignee},
			n.Labels,
			[]string{""},
			n.States,
			n.Operators,
		),
	)
	if v.db != nil {
		known, _, err := v.db.Meta(ctx, verifiedKey)
		v.unchecked = known == refusedCheck+names
		if err != nil || v.unchecked || known == names {
			return err
		}
	}
	warn := func(text string) { v.warn(v.path + ": " + text) }
	found, err := v.t.Verify(ctx, n)
	switch {
	case errors.Is(err, reconcile.ErrRejected): // the check is advisory
		v.unchecked = true
		names = refusedCheck + names
		warn("the tracker refused to check the project, states and labels: " + err.Error())
	case isNoProject(err):
		return v.explain(err)
	case err != nil:
		v.unchecked = true
		warn("project, states and labels are not checked: " + err.Error())
		return nil //nolint:nilerr // the next pass tries again
	}
	for _, e := range WrongNames(v.cfg, v.t.Name, found) {
		warn(e.Message + ": " + e.Hint)
	}
	if v.db == nil {
		return nil
	}
	return v.db.SetMeta(ctx, verifiedKey, names)
}

// FetchIssue asks the tracker for an issue by its identifier or id, or by the number of its
// identifier if only one has it.
func FetchIssue(ctx context.Context, p *Project, ref string) (*reconcile.Issue, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(p, cfg, TrackerOptions{Warn: WarnOn(p.Env)})
	if err != nil {
		return nil, err
	}
	issue, err := tracker.Find(ctx, ref)
	if e, ok := errors.AsType[*reconcile.Error](err); ok && e.Code == "issue_not_found" && IsNumber(ref) {
		switch names := namesOf(ctx, p, tracker, cfg.Policy.ActiveStates, ref); len(names) {
		case 0:
			e.Hint = NumberHint
		case 1:
			return tracker.Find(ctx, names[0])
		default:
			return nil, NumberOfSeveral(ref, names)
		}
	}
	return issue, err
}

// IsNumber reports whether what names an issue is the number of its identifier.
func IsNumber(ref string) bool { return strings.Trim(ref, "0123456789") == "" }

// NumberHint is the next step for a number with which no identifier ends that is known here.
const NumberHint = "give the whole identifier: a number alone finds only issues that are active or that symphony knows"

// namesOf returns the identifiers that end with a number, of the issues that the project knows
// and of the candidates.
func namesOf(
	ctx context.Context,
	p *Project,
	tracker reconcile.Tracker,
	states []string,
	number string,
) (names []string) {
	if db, err := OpenForReading(ctx, p); err == nil {
		names, _ = db.Views.Identifiers(ctx) // without them the candidates decide
		_ = db.Close()
	}
	candidates, _ := tracker.Candidates(ctx, states)
	names = append(names, text.Map(candidates, func(c reconcile.Issue) string { return c.Identifier })...)
	return WithNumber(names, number)
}

// WithNumber returns those of the identifiers that end with a number, sorted and each once.
func WithNumber(identifiers []string, number string) []string {
	found := text.Filter(identifiers, func(name string) bool { return strings.HasSuffix(name, "-"+number) })
	slices.Sort(found)
	return slices.Compact(found)
}

// NumberOfSeveral is the error for a number with which several identifiers end.
func NumberOfSeveral(number string, identifiers []string) error {
	return reconcile.NewError(
		"issue_not_found",
		number+" is the number of "+strings.Join(identifiers, " and "),
		"give the identifier, such as "+identifiers[0],
	)
}

// NotInTracker is why the tracker does not have an issue.
const NotInTracker = "the tracker has no such issue, or does not let you read it"

// UnknownIssue is the error for an issue that the database does not know. It suggests a
// similar identifier, and to ask the tracker unless that was done.
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Views.Identifiers(ctx)
	if err != nil {
		return err
	}
	if same := WithNumber(names, ref); len(same) > 1 {
		return NumberOfSeveral(ref, same)
	}
	hint := "symphony ps --all lists the known issues"
	if why != NotInTracker {
		hint += "; symphony show " + ref + " asks the tracker"
	}
	return reconcile.NewError(
		"issue_not_found",
		ref+" is not known here: "+why+text.DidYouMean(ref, names, "%s"),
		hint,
	)
}
