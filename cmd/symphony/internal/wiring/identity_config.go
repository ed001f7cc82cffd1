package wiring

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Config parses the workflow.
func (p *Project) Config() (*workflow.Config, error) { return p.parse(p.Environment(nil)) }

// ConfigWithoutKey parses the workflow for a command that does not need the tracker's key.
func (p *Project) ConfigWithoutKey() (*workflow.Config, error) {
	env := p.Environment(nil)
	env.KeyOptional = true
	env.GhToken = nil
	return p.parse(env)
}

// parseWithoutKey parses the present or another workflow of the project, without the tracker's
// key.
func (p *Project) parseWithoutKey(src workflow.Source) (*workflow.Config, error) {
	env := p.Environment(nil)
	env.KeyOptional = true
	return workflow.Parse(src, env)
}

// parse parses the present workflow.
func (p *Project) parse(env workflow.Environment) (*workflow.Config, error) {
	if p.SourceErr != nil {
		return nil, p.SourceErr
	}
	if p.EnvErr != nil {
		return nil, p.EnvErr
	}
	cfg, err := workflow.Parse(p.Source, env)
	if err != nil {
		if canceled := p.Env.Context().Err(); canceled != nil { // gh was not asked for its token
			return nil, canceled
		}
		addHints(err)
		return nil, err // not the part that could be parsed
	}
	return cfg, nil
}

// keySourceOf says where the key of a configuration comes from, for messages.
func (p *Project) keySourceOf(cfg *workflow.Config) string {
	switch {
	case cfg.KeyIsLiteral:
		return p.Path
	case cfg.KeyFromGh:
		return "gh auth token"
	}
	return p.KeySource(cfg.Tracker.APIKey.Reveal(), cfg.SecretVars...)
}

// addHints adds the next step to the faults of a workflow that have none.
func addHints(err error) {
	for _, e := range workflow.Faults(err) {
		e.Hint = cmp.Or(e.Hint, "correct that line; symphony check checks the file")
	}
}

// Environment resolves the values of the workflow. The variables in extra take precedence.
func (p *Project) Environment(extra map[string]string) workflow.Environment {
	return workflow.Environment{
		Home:    p.Env.Home,
		Temp:    cmp.Or(p.Env.Getenv("TMPDIR"), "/tmp"),
		UID:     os.Getuid(),
		EnvFile: p.EnvPath(),
		GhToken: p.GhToken,
		Lookup: func(name string) (string, bool) {
			if v, ok := extra[name]; ok {
				return v, true
			}
			return p.Lookup(name)
		},
	}
}

// KeySource names the variable or environment file that contains a key, if it is the value of
// a variable with any of the names.
func (p *Project) KeySource(key string, names ...string) string {
	for _, name := range names {
		value, _ := p.Lookup(name)
		if strings.TrimSpace(value) == key {
			return cmp.Or(p.placeOf(name), "the variable "+name)
		}
	}
	return p.SharedEnvPath()
}

// LastGoodKey names the last valid workflow in the database.
const LastGoodKey = "last_good_workflow"

// LastGood returns the last valid workflow that a pass stored, read as if it were at path, and
// its text; nil if none is stored.
func LastGood(
	ctx context.Context,
	p *Project,
	db *state.DB,
	path string,
) (cfg *workflow.Config, stored string, err error) {
	stored, known, err := db.Meta(ctx, LastGoodKey)
	if err != nil || !known {
		return nil, "", err
	}
	src, err := workflow.NewSource(path, path, []byte(stored))
	if err != nil {
		return nil, stored, err
	}
	cfg, err = p.parseWithoutKey(src)
	return cfg, stored, err
}
