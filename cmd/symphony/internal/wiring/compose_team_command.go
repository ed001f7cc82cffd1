package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// CodeClaimsOff is the code of an error if a project has no repository.claims.
const CodeClaimsOff = "not_possible"

// TeamCommand is this machine as a member of the team, for a command that looks at the claims of the
// remote or changes them.
type TeamCommand struct {
	*team.Member

	remote  *teamRemote
	db      *state.DB // nil before the first pass
	scratch string    // removed at the end; empty for none
}

// OpenTeam returns this machine as a member of the team. The error has the code not_possible if
// repository.claims is off. Before the first pass this machine knows of no claims, and a directory of
// its own for what it reads is removed by Close.
func OpenTeam(ctx context.Context, p *Project) (*TeamCommand, error) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil, err
	}
	if !cfg.Repository.Claims.On {
		return nil, reconcile.NewError(
			CodeClaimsOff,
			p.Path+" has no repository.claims: no other machine knows on what this one works",
			"where several machines share the project, set repository.claims: true on each; docs/team.md says more",
		)
	}
	return OpenClaims(ctx, p, cfg)
}

// OpenClaims is OpenTeam, also where repository.claims is off, for a look at the claims of others.
func OpenClaims(ctx context.Context, p *Project, cfg *workflow.Config) (t *TeamCommand, err error) {
	t = &TeamCommand{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close(ctx))
		}
	}()
	t.remote = newTeamRemote(p, cfg, "claims-"+NewRunID(p.Env.Now()))
	var journal team.Journal = noJournal{}
	if p.HasState() {
		t.db, err = state.Open(ctx, p.StateDir)
		if err != nil {
			return t, err
		}
		if _, err := OwnerPath(ctx, p, t.db); err != nil {
			return t, err
		}
		journal = t.db.Team
	} else {
		t.scratch, err = os.MkdirTemp("", "symphony-claims-")
		if err != nil {
			return t, err
		}
		t.remote.dir = t.scratch
	}
	t.Member, err = newMember(p, cfg, journal, t.remote)
	return t, err
}

// RefuseOfTeam returns an error if another machine of the team has an issue, given by its id or its
// identifier, as this one saw it last. It makes no request.
func RefuseOfTeam(ctx context.Context, p *Project, db *state.DB, ref string) error {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil //nolint:nilerr // a workflow that can't be read keeps nobody from ending a run
	}
	t, err := NewTeamOfPass(p, cfg, db)
	if err != nil || t == nil {
		return err
	}
	listed, err := t.Stored(ctx)
	if err != nil {
		return err
	}
	for _, l := range listed {
		c := l.Claim
		isIt := ref == c.IssueID || strings.EqualFold(ref, c.Identifier)
		if !isIt || l.Problem != nil || c.Project != t.Project || c.Status == team.Free || l.Ended(t.Now()) {
			continue
		}
		who := team.Elsewhere{Holder: c.Holder(), Status: c.Status, Until: l.Until}
		return reconcile.NewError(
			reconcile.CodeIssueElsewhere,
			fmt.Sprintf("%s is not here: %s; it has it since %s", c.Identifier, who, c.Since.Local().Format("Jan 2 15:04")),
			"repeat the command on that machine, or let this one take it: symphony machines --release "+c.Identifier+
				"; what you write in the tracker, and where you move the issue, counts there, too",
		)
	}
	return nil
}

// Name names this machine for people, such as "ann on buildhost-2".
func (t *TeamCommand) Name() string { return holderName(t.remote.p) }

// Try finds out whether the remote takes claims.
func (t *TeamCommand) Try(ctx context.Context) error { return t.remote.try(ctx) }

// Close ends the processes that git has left behind, and closes the database.
func (t *TeamCommand) Close(ctx context.Context) error {
	err := t.remote.close(context.WithoutCancel(ctx))
	if t.db != nil {
		err = errors.Join(err, t.db.Close())
	}
	if t.scratch != "" {
		err = errors.Join(err, os.RemoveAll(t.scratch))
	}
	return err
}

// noJournal is the journal of a machine that has no state yet.
type noJournal struct{}

func (noJournal) OwnClaims(context.Context) ([]team.Own, error) { return nil, nil }

func (noJournal) SaveOwnClaims(context.Context, []team.Own) ([]team.Own, error) { return nil, nil }

func (noJournal) DropOwnClaims(context.Context, []string) error { return nil }

func (noJournal) SeenClaims(context.Context) ([]team.Seen, error) { return nil, nil }

func (noJournal) SaveSeenClaims(context.Context, []team.Seen) error { return nil }

func (noJournal) Refusals(context.Context) ([]team.Refusal, error) { return nil, nil }

func (noJournal) SaveRefusals(context.Context, []team.Refusal) error { return nil }
