package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// triedHints are the hints of errors of runs that name a command or a key. In the script of a
// hint the error happens, and then the hint is followed. untried is the reason why a hint has
// no script.
var triedHints = []struct{ codes, name, script, untried string }{
	{"agent_auth", "codex.home", "all/doctor_mistakes", ""},
	{"agent_auth", "symphony resume", "all/acp_faults", ""},
	{"agent_incompatible", "agent.model", "script/acp", ""},
	{"agent_incompatible", "symphony resume", "script/acp", ""},
	{"agent_not_found", "agent.command", "script/acp", ""},
	{"agent_policy", "symphony retry --fresh", "script/agent_policy", ""},
	{"approval_required, turn_input_required", "agent.on_approval", "all/hints", ""},
	{"approval_required, turn_input_required", "agent.on_question", "all/hints", ""},
	{"branch_checked_out", "symphony retry", "all/repository_local", ""},
	{"branch_in_the_way", "repository.branch", "all/hints", ""},
	{"branch_in_the_way", "symphony resume", "all/hints", ""},
	{"claims_not_atomic", "repository.claims", "all/claims_refused", ""},
	{"claims_not_atomic", "symphony resume", "all/claims_refused", ""},
	{"claims_refused", "repository.claims", "all/claims_refused", ""},
	{"claims_refused", "symphony resume", "all/claims_refused", ""},
	{"agent_command_unsafe", "agent.command", "all/acp_faults", ""},
	{"agent_command_unsafe", "codex.command", "all/launcher", ""},
	{"agent_command_unsafe", "codex.trust_launcher", "codex/hostile_launcher", ""},
	{"codex_incompatible", "codex.command", "all/codex_incompatible", ""},
	{"codex_incompatible", "symphony resume", "all/hints", ""},
	{"codex_not_found", "codex.command", "all/unblock", ""},
	{"delivery_conflict", "repository.claims", "all/team_commands", ""},
	{"delivery_conflict", "symphony stop --after-run", "all/team_commands", ""},
	{"delivery_conflict", "symphony retry", "all/delivery_conflict", ""},
	{"delivery_conflict", "symphony takeover", "all/delivery_conflict", ""},
	{"delivery_failed", "symphony retry", "all/repository_sign_gpg", ""},
	{"delivery_incomplete", "symphony retry", "all/delivery_complete", ""},
	{"delivery_incomplete", "symphony takeover", "all/delivery_complete", ""},
	{"base_replaced", "symphony retry --unverified", "all/base_replaced", ""},
	{"delivery_refused", "symphony retry", "all/delivery_refused", ""},
	{"delivery_refused", "symphony tell", "all/delivery_refused", ""},
	{"file_write", "symphony retry", "script/hand_over_file", ""},
	{"git_identity_missing", "repository.git_email", "all/hints", ""},
	{"git_identity_missing", "repository.git_name", "all/hints", ""},
	{"git_identity_missing", "symphony resume", "all/hints", ""},
	{"issue_elsewhere", "repository.claims", "all/claims_off", ""},
	{"issue_elsewhere", "symphony machines", "all/team_commands", ""},
	{"git_limit", "symphony retry", "", "takes commits with millions of files"},
	{"hand_over_refused", "symphony retry", "all/hand_over_refused", ""},
	{"hook_failed", "symphony logs --hooks", "script/hooks_fail", ""},
	{"hook_timeout", "hooks.timeout_ms", "script/hooks_fail", ""},
	{"hook_timeout", "symphony logs --hooks", "script/hooks_fail", ""},
	{
		"host_died, host_ended, host_failed, host_mismatch, host_unverified, host_withdrawn",
		"symphony logs --worker",
		"all/engine_dies",
		"",
	},
	{"host_lost", "symphony retry --host-is-gone", "all/hosts_lost", ""},
	{"host_system, host_unusable", "symphony resume", "all/slurm", ""},
	{"host_unreachable, engine_missing", "symphony machines", "all/hosts", ""},
	{"invalid_branch", "repository.branch", "all/hints", ""},
	{"max_tokens", "agent.max_tokens", "codex/max_tokens", ""},
	{"max_tokens", "symphony retry", "script/max_tokens", ""},
	{"network", "symphony retry --fresh", "all/retry_fresh", ""},
	{"never_starts", "symphony retry", "all/slurm", ""},
	{"port_exit", "symphony doctor", "all/hints", ""},
	{"port_exit", "symphony logs", "all/agent_faults", ""},
	{"port_exit", "symphony logs --stderr", "all/hints", ""},
	{"repository_changed", "repository.url", "all/repository_changed", ""},
	{"repository_unavailable", "repository.base", "script/doctor", ""},
	{"repository_unavailable", "repository.url", "script/doctor", ""},
	{"repository_unavailable", "symphony doctor", "all/repository_ssh", ""},
	{"repository_unavailable", "symphony resume", "all/repository_ssh", ""},
	{"response_error, turn_failed, turn_cancelled", "symphony logs", "all/agent_faults", ""},
	{"response_timeout", "codex.read_timeout_ms", "all/doctor_mistakes", ""},
	{"run_failed", "symphony logs --worker", "", "no known fault has this code"},
	{"sandbox_failed", "agent.writable_roots", "", "only the real sandbox fails so: codex/sandbox_failed"},
	{"sandbox_unavailable", "codex.turn_sandbox_policy", "codex/doctor", ""},
	{"state_corrupt", "symphony stop --all", "all/state_restored", ""},
	{"template_render_error", "symphony show --prompt", "script/prompt", ""},
	{"temporary_directory", "symphony resume", "all/limits_worker", ""},
	{"turn_timeout, stalled", "codex.stall_timeout_ms", "codex/stalled", ""},
	{"turn_timeout, stalled", "codex.turn_timeout_ms", "all/hints", ""},
	{"turn_timeout, stalled", "symphony logs", "codex/stalled", ""},
	{"sandbox_unavailable", "symphony doctor", "all/doctor_mistakes", ""},
	{"verify_failed", "symphony retry --unverified", "all/verify", ""},
	{"verify_failed", "symphony show", "all/verify_checkout", ""},
	{"verify_failed", "symphony tell", "all/verify", ""},
	{"verify_failed", "symphony retry", "all/verify", ""},
	{"verify_unusable", "symphony retry", "all/verify", ""},
	{"verify_unusable", "verify.command", "all/verify", ""},
	{"worker_lost, worker_frozen, spawn_failed", "symphony logs --worker", "script/killed", ""},
	{"workspace_foreign", "symphony retry", "all/hints_workspace", ""},
	{"workspace_foreign", "workspace.root", "all/hints_workspace", ""},
	{
		"workspace_gone",
		"symphony restore",
		"",
		"symphony itself keeps such a workspace out of the trash; all/trash shows what restore puts back",
	},
	{"workspace_gone", "symphony retry", "all/delivery_conflict", ""},
	{"workspace_root_unusable", "workspace.root", "all/doctor_mistakes", ""},
	{"workspace_taken", "symphony prune", "all/hints_workspace", ""},
	{"workspace_untrusted", "symphony retry", "all/hints_workspace", ""},
}

// TestHintsAreTried checks that each hint that names a command of symphony or a key is followed
// in a script, after the error: it finds the fault or mends it there.
func TestHintsAreTried(t *testing.T) {
	var named []string
	for _, e := range words.RunErrors() {
		for _, name := range namesInHint(e.Next) {
			named = append(named, e.Codes+": "+name)
		}
	}
	var listed []string
	for _, h := range triedHints {
		hint := h.codes + ": " + h.name
		listed = append(listed, hint)
		if !slices.Contains(named, hint) {
			t.Errorf("%s: no hint says that", hint)
		}
		if (h.script == "") == (h.untried == "") {
			t.Errorf("%s: give the script, or why there is none", hint)
		}
		if h.script != "" && !isTried(t, h.codes, h.name, h.script) {
			t.Errorf("%s: %s does not follow the hint after the error", hint, h.script)
		}
	}
	for _, hint := range named {
		if !slices.Contains(listed, hint) {
			t.Errorf("%s: add it to triedHints, with a script that follows the hint", hint)
		}
	}
}

// namesInHint returns the commands of symphony, without the issue and the text, and the keys that a hint
// names between backquotes.
func namesInHint(hint string) (names []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(hint, -1) {
		name := strings.Join(slices.DeleteFunc(
			strings.Fields(m[1]),
			func(word string) bool { return word == "ISSUE" || word == "TEXT" },
		), " ")
		key, _, _ := strings.Cut(name, ":")
		isKey := slices.ContainsFunc(workflow.Keys(), func(k workflow.Key) bool { return k.Name == key })
		switch {
		case strings.HasPrefix(name, "symphony ") && !slices.Contains(names, name):
			names = append(names, name)
		case isKey && !slices.Contains(names, key):
			names = append(names, key)
		}
	}
	return names
}

// isTried reports whether a script shows one of the codes, and later runs the command or sets
// the key. A script that makes the error without naming its code says so in a comment.
func isTried(t *testing.T, codes, name, script string) bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../testdata", script+".txtar"))
	if err != nil {
		t.Error(err)
		return false
	}
	happened := false
	for line := range strings.Lines(string(data)) {
		if happened && follows(line, name) {
			return true
		}
		isCode := func(code string) bool { return strings.Contains(line, code) }
		happened = happened || slices.ContainsFunc(strings.Split(codes, ", "), isCode)
	}
	return false
}

// follows reports whether a line of a script runs a command with its flags, or sets a key.
func follows(line, name string) bool {
	list := strings.Fields(name)
	if list[0] != "symphony" {
		return regexp.MustCompile(`\bset ` + regexp.QuoteMeta(name) + `\b`).MatchString(line)
	}
	runs := regexp.MustCompile(`\bsymphony ` + list[1] + `\b`).MatchString(line)
	return runs && !slices.ContainsFunc(list[2:], func(flag string) bool { return !strings.Contains(line, flag) })
}

// A command in a text of the program exists, and has the flags behind it.
func TestTextsNameCommands(t *testing.T) {
	app := newApp(testWorld())
	command := regexp.MustCompile(`symphony ([a-z][a-z-]+)((?: (?:--?[a-z][a-z-]*|ISSUE|AGENT|DIR|FILE|PATH))*)`)
	err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		isSource := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		if err != nil || !isSource || strings.HasPrefix(path, "../../scripts/") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range command.FindAllStringSubmatch(string(data), -1) {
			words := strings.Fields(m[2])
			named := app.Command(m[1])
			if named == nil && len(words) > 0 && m[1] != "help" {
				t.Errorf("%s: there is no command %q", path, m[0])
			}
			for _, word := range words {
				flag := strings.TrimLeft(word, "-")
				if named != nil && flag != word && flag != "help" && flagOf(named, flag) == nil {
					t.Errorf("%s: %q: there is no flag %s", path, m[0], word)
				}
			}
		}
		return nil
	})
	test.OK(t, err)
}
