package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

var _ reconcile.Store = Store{}

// State implements reconcile.Store. The tokens of an issue include the tokens of its
// unsettled runs.
func (s Store) State(ctx context.Context) (all reconcile.State, err error) {
	err = s.view(ctx, "read the state", func(t tx) error {
		all.Claims, err = rows(t, claimFields, `SELECT `+claimColumns+` FROM claims ORDER BY issue_id`)
		if err != nil {
			return err
		}
		return readRecords(t, s.dir, &all)
	})
	return all, err
}

// readRecords reads everything that a plan needs except the claims.
func readRecords(t tx, dir string, all *reconcile.State) error {
	err := readSettings(t, dir, all)
	if err != nil {
		return err
	}
	all.Runs, err = rows(t, runFields, `SELECT `+runColumns+` FROM runs WHERE settled = 0 ORDER BY id`)
	if err != nil {
		return err
	}
	all.RemoteWorkspaces, err = rows(t, func(w *reconcile.Workspace) []any { return []any{jsonOf(w)} },
		`SELECT workspace FROM remote_workspaces ORDER BY run_id, host, root`)
	if err != nil {
		return err
	}
	all.Reviews, err = readReviews(t)
	if err != nil {
		return err
	}
	all.Commands, err = rows(t, commandFields, `SELECT `+commandColumns+` FROM commands ORDER BY id`)
	if err != nil {
		return err
	}
	all.Tokens, err = readTokens(t, all.Runs)
	return err
}

// readTokens returns the tokens of each claimed issue, and of each issue of the unsettled runs.
func readTokens(t tx, unsettled []reconcile.Run) (map[string]int64, error) {
	type used struct {
		issueID string
		tokens  int64
	}
	settled, err := rows(t, func(u *used) []any { return []any{&u.issueID, &u.tokens} },
		`SELECT issue_id, total FROM issue_totals JOIN claims USING (issue_id)`)
	if err != nil {
		return nil, err
	}
	tokens := make(map[string]int64, len(settled))
	for _, u := range settled {
		tokens[u.issueID] = u.tokens
	}
	for _, r := range unsettled {
		tokens[r.IssueID] += r.Tokens.Total
	}
	return tokens, nil
}

// UsedOn returns the use of runs on the day (UTC) of a time, by model. The reports of workers
// at work are among the totals of the day.
func (c *conn) UsedOn(ctx context.Context, at time.Time) ([]reconcile.ModelUse, error) {
	return readAll(ctx, c, "read what was used today", modelUseFields,
		`SELECT model, `+tokenColumns+` FROM model_totals WHERE day = ?`, reconcile.DayOf(at))
}

// Commit implements reconcile.Store. It applies each change in this order: settle a run, write
// the claim, insert a run. So a single change may end a run of an issue and begin the next.
func (s Store) Commit(ctx context.Context, now time.Time, changes ...reconcile.Change) error {
	changes = slices.DeleteFunc(slices.Clone(changes), reconcile.Change.Empty)
	if len(changes) == 0 {
		return nil
	}
	return s.update(ctx, "store the decisions of a pass", full, func(t tx) error {
		for _, c := range changes {
			if err := commit(t, now, c); err != nil {
				return err
			}
		}
		return nil
	})
}

func commit(t tx, now time.Time, c reconcile.Change) error {
	if c.Settle != "" {
		if err := settle(t, c.Settle); err != nil {
			return err
		}
	}
	if c.Claim != nil {
		if err := commitClaim(t, now, c); err != nil {
			return err
		}
	}
	if c.Insert != nil {
		if err := insertRun(t, *c.Insert); err != nil {
			return err
		}
	}
	for _, id := range c.Commands { // an earlier change of the same pass may have deleted it
		if err := t.run(`DELETE FROM commands WHERE id = ?`, id); err != nil {
			return err
		}
	}
	if err := commitBlocks(t, now, c); err != nil {
		return err
	}
	if err := commitGone(t, c); err != nil {
		return err
	}
	if c.Watch != nil {
		if err := saveWatch(t, *c.Watch); err != nil {
			return err
		}
	}
	if c.Reviewed != "" {
		if err := endReview(t, c.Reviewed); err != nil {
			return err
		}
	}
	if c.ForgetWork != "" {
		if err := forgetWork(t, c.ForgetWork); err != nil {
			return err
		}
	}
	return commitSettings(t, c)
}

// commitGone records the run and the workspaces of a change that are lost with their host.
func commitGone(t tx, c reconcile.Change) error {
	if c.HostGone != "" {
		err := t.must("run "+c.HostGone, `UPDATE runs SET remote = ? WHERE id = ? AND remote = ?`,
			reconcile.RemoteGone, c.HostGone, reconcile.RemoteBegun)
		if err != nil {
			return err
		}
	}
	if c.Abandon == "" {
		return nil
	}
	return t.run(`UPDATE remote_workspaces SET workspace = json_set(workspace, '$.Abandoned', json('true'))
		WHERE issue_id = ?`, c.Abandon)
}

// commitSettings stores a pause and the end of blocks, which concern the whole project.
func commitSettings(t tx, c reconcile.Change) error {
	if !c.Unblocked.IsZero() {
		if err := setMeta(t, metaUnblocked, strconv.FormatInt(c.Unblocked.UnixMilli(), 10)); err != nil {
			return err
		}
	}
	switch {
	case c.Paused == nil:
		return nil
	case *c.Paused:
		return setMeta(t, metaPaused, "1")
	}
	return clearMeta(t, metaPaused)
}

// commitBlocks stores or ends the blocks of a change.
func commitBlocks(t tx, now time.Time, c reconcile.Change) error {
	for key, block := range map[string]*reconcile.Block{
		metaAgentBlock:   c.AgentBlock,
		metaTrackerBlock: c.TrackerBlock,
		metaHostBlock:    c.MachineBlock,
	} {
		if block == nil {
			continue
		}
		if err := saveBlock(t, now, key, *block); err != nil {
			return err
		}
	}
	for host, block := range c.RemoteBlocks {
		if err := saveBlock(t, now, metaRemoteBlock+host, block); err != nil {
			return err
		}
	}
	return nil
}

// commitClaim saves or deletes a claim. It records a release, and adds a notification if the
// issue was handed over, the claim becomes held or its delivery fails again and again.
func commitClaim(t tx, now time.Time, c reconcile.Change) error {
	claim := *c.Claim
	if c.Delete {
		if c.Release != nil {
			if err := commitRelease(t, now, claim, *c.Release); err != nil {
				return err
			}
		}
		return t.must(claimVersion(claim, claim.Version), `DELETE FROM claims WHERE issue_id = ? AND version = ?`,
			claim.IssueID, claim.Version)
	}
	if claim.Status == reconcile.Held {
		if err := addHold(t, now, claim); err != nil {
			return err
		}
	}
	if a, due := reconcile.DeliveryAttention(claim); due {
		if err := addAttention(t, now, a); err != nil {
			return err
		}
	}
	return saveClaim(t, now, claim)
}

// addHold adds the notification of a claim that becomes held.
func addHold(t tx, now time.Time, c reconcile.Claim) error {
	was, err := row(t, itself[reconcile.ClaimStatus], `SELECT status FROM claims WHERE issue_id = ?`, c.IssueID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if was == reconcile.Held {
		return nil
	}
	return addAttention(t, now, reconcile.HoldAttention(c))
}

// addReady adds the notification of an issue that its agent, and no person, moved to where it
// is, and reports whether that is so.
func addReady(t tx, now time.Time, c reconcile.Claim, release reconcile.Release) (toPerson bool, err error) {
	a, ready := reconcile.ReadyAttention(c, release, now)
	if !ready {
		return false, nil
	}
	return true, addAttention(t, now, a)
}

// movedByAgent reports whether an agent moved the issue to the state in which its claim is
// released, or handed it over before a person moved it on.
func movedByAgent(t tx, c reconcile.Claim, release reconcile.Release) (bool, error) {
	return row(t, itself[bool], `SELECT EXISTS (SELECT 1 FROM runs
		WHERE issue_id = ? AND started_at >= ? AND handoff_at IS NOT NULL
		AND (handoff_state IN ('', ?) OR outcome = 'succeeded'))`,
		c.IssueID, stamp(c.ClaimedAt), release.State)
}

// saveBlock stores a block, or deletes the stored block if b carries no code. It also adds a
// notification. A tracker block is notified later, if it lasts: see OpenAttentions.
func saveBlock(t tx, now time.Time, key string, b reconcile.Block) error {
	if b.Code == "" {
		return clearMeta(t, key)
	}
	if err := t.run(storeMeta, key, jsonOf(b)); err != nil || key == metaTrackerBlock {
		return err
	}
	host, isOfHost := strings.CutPrefix(key, metaRemoteBlock)
	if isOfHost {
		return addAttention(t, now, reconcile.HostAttention(host, b))
	}
	return addAttention(t, now, reconcile.BlockAttention(b))
}

func (s Store) SaveSweep(ctx context.Context, now time.Time) error {
	return s.update(ctx, "record the sweep", full, func(t tx) error {
		return setMeta(t, metaSweep, strconv.FormatInt(now.UnixMilli(), 10))
	})
}

// RequestStop implements reconcile.Store. It keeps an earlier reason, and ignores a run with
// an outcome.
func (s Store) RequestStop(ctx context.Context, runID, reason string, at reconcile.Instant) error {
	return s.update(ctx, "ask run "+runID+" to stop", full, statement(
		`UPDATE runs SET stop_reason = ?, stop_mono = ?, stop_boot = ?
		WHERE id = ? AND outcome IS NULL AND stop_reason IS NULL`, orNull(&reason), at.Mono, at.Boot, runID))
}

func (s Store) ReapFailed(ctx context.Context, runID string) error {
	return s.update(ctx, "count a failed try to end run "+runID, full,
		statement(`UPDATE runs SET reap_tries = reap_tries + 1 WHERE id = ? AND settled = 0`, runID))
}

// EndDead implements reconcile.Store. The run counts in the runtime totals up to its last
// heartbeat, because its death may be detected days later.
func (s Store) EndDead(
	ctx context.Context,
	now time.Time,
	run reconcile.Run,
	outcome reconcile.Outcome,
	code, message string,
) error {
	return s.update(ctx, "end run "+run.ID, full, change("run "+run.ID,
		`UPDATE runs SET outcome = ?, error_code = ?, error_text = ?,
			ended_at = ?, runtime_ms = max(0, coalesce(heartbeat_at, started_at) - started_at)
		WHERE id = ? AND outcome IS NULL AND phase = ?`, outcome, code, message, stamp(now), run.ID, run.Phase))
}

// SaveSkips implements reconcile.Store. If an issue is skipped twice the first reason counts.
// An issue that is still skipped for the same reason keeps its time. SaveSkips writes nothing
// if nothing changed.
func (s Store) SaveSkips(ctx context.Context, now time.Time, skips []reconcile.Skip) error {
	list, err := readAll(ctx, s.conn, "read the skips", skipFields, `SELECT `+skipColumns+` FROM skips`)
	if err != nil {
		return err
	}
	stored := map[string]StoredSkip{}
	for _, skip := range list {
		stored[skip.IssueID] = skip
	}
	next := map[string]StoredSkip{}
	for _, skip := range slices.Backward(skips) {
		since := now
		if was := stored[skip.IssueID]; was.Reason == skip.Reason {
			since = was.Since
		}
		skip.Subject = "" // it is not stored
		next[skip.IssueID] = StoredSkip{skip, since}
	}
	if reflect.DeepEqual(stored, next) {
		return nil
	}
	return s.update(ctx, "save the skips", full, func(t tx) error {
		if err := t.run(`DELETE FROM skips`); err != nil {
			return err
		}
		for _, skip := range next {
			if err := saveSkip(t, skip); err != nil {
				return err
			}
		}
		return nil
	})
}

func saveSkip(t tx, skip StoredSkip) error {
	return t.run(
		`INSERT OR REPLACE INTO skips (`+skipColumns+`) VALUES (`+marks(skipColumns)+`)`,
		skipFields(&skip)...)
}

// StoredSkip is a candidate, or a claim that waits for a slot, that the last pass that fetched
// candidates did not start, and since when for the same reason.
type StoredSkip struct {
	reconcile.Skip
	Since time.Time `json:"since"`
}

const skipColumns = `issue_id, identifier, reason, message, mend, since, title, url, place, labels`

func skipFields(s *StoredSkip) []any {
	return []any{
		&s.IssueID, &s.Identifier, &s.Reason, &s.Message, &s.Mend, stampOf(&s.Since),
		&s.Title, &s.URL, &s.Place, jsonOf(&s.Labels),
	}
}

// SavePass records a pass and returns its id; the id of p is ignored. A power failure may lose
// the record of a pass that did nothing, because no decision depends on it.
func (s Store) SavePass(ctx context.Context, p Pass) (id int64, err error) {
	level := full
	if p.Actions == 0 && len(p.Errors) == 0 {
		level = normal
	}
	p.Errors = append([]reconcile.Error{}, p.Errors...) // stored as [], not null
	err = s.update(ctx, "record the pass", level, func(t tx) error {
		id, err = row(t, itself[int64],
			`INSERT INTO passes (`+passColumns+`) VALUES (`+marks(passColumns)+`) RETURNING id`,
			passFields(&p)[1:]...)
		return err
	})
	return id, err
}

// Pass is the record of a reconciliation.
type Pass struct {
	ID int64
	// Trigger is the source of the pass: cron, timer, loop, manual, command or worker.
	Trigger   string
	StartedAt time.Time
	Duration  time.Duration // stored to the millisecond
	Actions   int           // the number of applied actions
	Skipped   int           // the number of skipped candidates
	Errors    []reconcile.Error
	// Obstacle is the code of the one of Errors for which the pass started nothing, such as
	// disk_full; empty for none, and for a fault of the workflow.
	Obstacle string
	// BootID and Mono, which is CLOCK_MONOTONIC at the start, give the age of a pass even if
	// the wall clock was set.
	BootID string
	Mono   time.Duration
}

const passColumns = `"trigger", started_at, duration_ms, actions, skipped, errors, obstacle, boot_id, mono_ns`

func passFields(p *Pass) []any {
	return []any{
		&p.ID, &p.Trigger, stampOf(&p.StartedAt), millisOf(&p.Duration), &p.Actions, &p.Skipped,
		jsonOf(&p.Errors), &p.Obstacle, &p.BootID, &p.Mono,
	}
}

const claimColumns = `issue_id,
	identifier,
	status,
	version,
	run_id,
	attempt,
	kind,
	due_at,
	error_code,
	error_message,
	hold_reason,
	hold_message,
	held_at,
	hold_comment_at,
	hold_next,
	failures,
	idle_runs,
	runs,
	interruptions,
	token_base,
	issue,
	project,
	workspace_root,
	claimed_at,
	updated_at,
	delivery,
	started_in,
	agent,
	agent_home,
	wanted`

func claimFields(c *reconcile.Claim) []any {
	return []any{
		&c.IssueID,
		&c.Identifier,
		&c.Status,
		&c.Version,
		&c.RunID,
		&c.Attempt,
		&c.Kind,
		stampOf(&c.DueAt),
		&c.ErrorCode,
		&c.ErrorMessage,
		&c.HoldReason,
		&c.HoldMessage,
		stampOf(&c.HeldAt),
		stampOf(&c.HoldCommentAt),
		&c.HoldNext,
		&c.Failures,
		&c.IdleRuns,
		&c.Runs,
		&c.Interruptions,
		&c.TokenBase,
		jsonOf(&c.Issue),
		&c.Project,
		&c.WorkspaceRoot,
		stampOf(&c.ClaimedAt),
		stampOf(&c.UpdatedAt),
		jsonOf(&c.Delivery),
		&c.StartedIn,
		&c.Agent.Kind,
		&c.Agent.Home,
		&c.Wanted,
	}
}

// saveClaim inserts a claim with version 0. Of any other claim it replaces the version that
// the pass read with the next.
func saveClaim(t tx, now time.Time, c reconcile.Claim) error {
	was := c.Version
	c.Version = was + 1
	c.UpdatedAt = now
	if c.ClaimedAt.IsZero() {
		c.ClaimedAt = now
	}
	if was > 0 {
		return t.must(claimVersion(c, was), `UPDATE claims SET (`+claimColumns+`) = (`+marks(claimColumns)+`)
			WHERE issue_id = ? AND version = ?`, append(claimFields(&c), c.IssueID, was)...)
	}
	// A new claim counts only the tokens that its issue uses from now on. Moving the issue to
	// another state and back thus ends a hold by agent.max_tokens.
	used, err := row(t, itself[int64], `SELECT total FROM issue_totals WHERE issue_id = ?`, c.IssueID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	c.TokenBase = max(c.TokenBase, used)
	return t.must(claimVersion(c, was), `INSERT INTO claims (`+claimColumns+`) VALUES (`+marks(claimColumns)+`)
		ON CONFLICT (issue_id) DO NOTHING`, claimFields(&c)...)
}

func claimVersion(c reconcile.Claim, version int64) string {
	return fmt.Sprintf("claim of %s, version %d", c.Identifier, version)
}

// insertRun stores a new run, which ends the issue's skip. A second live run of the same issue
// is a conflict.
func insertRun(t tx, r reconcile.Run) error {
	err := t.run(`INSERT INTO runs (`+runColumns+`) VALUES (`+marks(runColumns)+`)`, runFields(&r)...)
	if isDuplicate(err) {
		return fmt.Errorf("run %s: the id is taken, or %s has a live run: %w",
			r.ID, r.Identifier, reconcile.ErrConflict)
	}
	if err != nil {
		return err
	}
	return t.run(`DELETE FROM skips WHERE issue_id = ?`, r.IssueID)
}

// Totals is the use of settled runs.
type Totals struct {
	Tokens  reconcile.Tokens
	Runtime time.Duration
}

func totalFields(all *Totals) []any { return append(tokenFields(&all.Tokens), millisOf(&all.Runtime)) }

const totalColumns = tokenColumns + `, runtime_ms`

// settle marks an ended run as settled and adds its use to the totals of its issue. The runtime
// of a run without an agent does not count.
func settle(t tx, runID string) error {
	type share struct {
		issueID string
		Totals
	}
	shareFields := func(s *share) []any { return slices.Concat([]any{&s.issueID}, totalFields(&s.Totals)) }
	used, err := row(t, shareFields, `UPDATE runs SET settled = 1 WHERE id = ? AND settled = 0 AND outcome IS NOT NULL
		RETURNING issue_id, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total,
			tokens_paid, iif(kind = 'agent', runtime_ms, 0)`, runID)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("run %s: %w", runID, reconcile.ErrConflict)
	}
	if err != nil || used.Totals == (Totals{}) {
		return err
	}
	return t.run(`INSERT INTO issue_totals (issue_id, `+totalColumns+`) VALUES (?8, ?1, ?2, ?3, ?4, ?5, ?6, ?7)
		ON CONFLICT (issue_id) DO UPDATE SET input = input + excluded.input, cached = cached + excluded.cached,
		output = output + excluded.output, reasoning = reasoning + excluded.reasoning, total = total + excluded.total,
		paid = paid + excluded.paid, runtime_ms = runtime_ms + excluded.runtime_ms`, append(totalFields(&used.Totals), used.issueID)...)
}
