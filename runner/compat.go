package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/compat"
)

// Where what is known of the installed codex is kept, in the project's meta: what passes have found, and what a worker
// has whose agent turned out to be another one.
const (
	MetaCodex       = "codex_checked"
	MetaCodexOfRuns = "codex_checked_by_runs"
)

// CheckCodex asks the codex of the workflow, with env less its secrets, whether it understands what is said to it; dir
// is a folder for that alone.
func (c Config) CheckCodex(ctx context.Context, env []string, dir string) (compat.Report, error) {
	secrets := c.kept(env)
	report, err := compat.Check(ctx, compat.Options{
		Command: c.Command, Home: c.CodexHome, Env: cleanEnv(env, secrets, c.SecretValues, nil), Secrets: secrets, Dir: dir,
	})
	return report, codexFault(err)
}

// CodexFits is nil unless the codex lacks something that runs need.
func CodexFits(report compat.Report) error { return codexFault(report.Err()) }

// codexFault is an error of the check with what to do about it.
func codexFault(err error) error {
	var e *codex.Error
	if !errors.As(err, &e) {
		return fail("check of codex", err)
	}
	hint := "install a version of codex that the README names, or a newer symphony; dispatch goes on by itself then"
	if e.Code == compat.CodeNotFound {
		hint = "codex.command is run by bash -lc; install bash"
	}
	return &reconcile.Error{Code: string(e.Code), Message: e.Message, Hint: hint, Err: err}
}

// CodexValues are the values that codex judges, by key of the workflow.
func (c Config) CodexValues() map[string]json.RawMessage {
	return map[string]json.RawMessage{
		compat.KeyApprovalPolicy: c.ApprovalPolicy, compat.KeyThreadSandbox: c.ThreadSandbox, compat.KeyTurnSandboxPolicy: c.TurnSandboxPolicy,
	}
}

// checkedCodex gives what is kept under a key; ok is false where that is nothing, or nothing that can be read.
func (a *attempt) checkedCodex(ctx context.Context, key string) (r compat.Report, ok bool, err error) {
	text, known, err := a.Journal.Meta(ctx, key)
	if err != nil || !known {
		return r, false, err
	}
	return r, json.Unmarshal([]byte(text), &r) == nil, nil
}

// fits finds out whether the agent is the codex that the pass has looked at. A login shell may find another one than
// the pass did, for PATH depends on who calls; and what a command such as npx starts may change while the command does not.
// That one is asked itself, once for each version.
func (a *attempt) fits(ctx context.Context, server codex.Server) error {
	known, ok, err := a.checkedCodex(ctx, MetaCodex)
	if err != nil || !ok || server.Version == "" || known.Version == server.Version || known.Version == "" && known.Unchecked != "" {
		return err
	}
	report, ok, err := a.checkedCodex(ctx, MetaCodexOfRuns)
	if err != nil {
		return err
	}
	if !ok || report.Version != server.Version || !report.Current(a.Config.Command, a.Config.CodexHome) {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "the agent is another codex than the pass has looked at",
			slog.String("version", server.Version), slog.String("expected", known.Version))
		if report, err = a.Config.CheckCodex(ctx, a.agentEnv(), filepath.Join(a.Dir, "codex-check")); err != nil {
			return err
		}
		if report.Version != "" && report.Version != server.Version {
			// The program that the command names is not the one that it starts.
			report = compat.Report{
				Command: report.Command, Home: report.Home, Programs: report.Programs,
				Unchecked: fmt.Sprintf("it starts codex %s, but prints the schema of %s", server.Version, report.Name()),
			}
		}
		report.Version = server.Version
		text, err := json.Marshal(report)
		if err == nil {
			err = a.Journal.SetMeta(ctx, MetaCodexOfRuns, string(text))
		}
		if err != nil {
			return err
		}
		for _, w := range report.Warning() {
			a.Log.Warn(w)
		}
	}
	return errors.Join(CodexFits(report), a.fitsValues(report))
}

// fitsValues reports what the agent does not take of the values that are passed through to it.
func (a *attempt) fitsValues(report compat.Report) error {
	var wrong []string
	for _, w := range report.Wrong(a.Config.CodexValues()) {
		if !w.Ignored {
			wrong = append(wrong, w.Message)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &reconcile.Error{
		Code: reconcile.CodeIncompatible, Message: strings.Join(wrong, "; "),
		Hint: "correct it in the workflow; symphony doctor tells what the installed codex allows",
	}
}
