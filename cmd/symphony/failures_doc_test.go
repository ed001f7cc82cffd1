package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// failureTests are the events of docs/failures.md, each with the tests that show what happens.
var failureTests = []struct{ event, tests string }{
	{"a pass is killed", "TestScript/tick_interrupted TestScript/last_good_first TestCrashPoints"},
	{"two passes run at once", "TestScript/tick_lock"},
	{
		"the schedule ends: no cron, no timer, no loop",
		"TestSystemd TestScript/monitor TestScript/tick_trigger",
	},
	{"passes run in a service that would end their workers", "TestSystemdSystemUnits TestWorkersWouldDie"},
	{
		"the program is replaced or deleted",
		"TestScript/upgrade_under_workers TestScript/upgrade_state",
	},
	{"a pass runs in another container", "TestScript/other_container"},
	{"a pass is run with the WORKFLOW.md in a workspace, or by an agent", "TestScript/nested"},
	{"the machine reboots", "TestScript/reboot"},
	{"the power fails", "TestPowerFailure TestScript/power"},
	{
		"the machine is suspended, or the clock is set",
		"TestScript/clock TestPruneWaitsWhereTheClockJumped TestTrashAgesWithoutTheWallClock TestHandoff",
	},
	{"you log out", "TestManagers TestSystemdSystemUnits"},
	{
		"the disk is full",
		"TestScript/disk_full TestScript/show_waits TestDiskFullAtEachWrite TestScript/hook_disk_full",
	},
	{"too few processes or open files are allowed", "TestScript/limits TestScript/limits_worker"},
	{"there is no network", "TestRealCodex/no_network"},
	{"pidfds are unavailable (old kernel, container policy)", "TestScript/no_pidfds"},
	{"/proc hides processes (hidepid)", "TestStartWithHiddenProcesses TestStopWorker"},
	{"a login shell hangs", "TestLoginShellHangs"},
	{"a worker is killed", "TestScript/killed TestRealCodex/worker_killed TestCrashPoints"},
	{"a worker is frozen (SIGSTOP, a hung disk)", "TestScript/frozen"},
	{"a worker freezes while it writes to the database", "TestFrozenInAWrite TestFrozen"},
	{"the agent is killed", "TestScript/agent_faults"},
	{"a process of a run can't be ended", "TestScript/unkillable"},
	{"a command of an agent holds one of symphony's locks", "TestRealCodex/hostile_locks TestLockHolders"},
	{"a command is silent for a long time", "TestClocks"},
	{"the agent neither commits nor changes the issue", "TestScript/limited"},
	{"`after_create` or `before_run` fails", "TestScript/hooks_fail"},
	{"`after_run` or `before_remove` fails", "TestScript/hooks_fail"},
	{"the tracker is down", "TestTrackers//tracker_down"},
	{"the tracker answers late", "TestScript/answers_late TestRequestTimeout TestTrackerHangs"},
	{"the tracker is down for hours", "TestScript/outage TestPatientRefresh"},
	{"the tracker limits the rate", "TestTrackers//rate_limit"},
	{"the key is wrong or revoked", "TestScript/env_file TestScript/env_file_changes"},
	{
		"the folder of the issues is gone, a repository was renamed, or a tracker's program hangs or prints garbage",
		"TestScript/file_folder TestRenamedRepository TestTrackers//tracker_down",
	},
	{"the issue is moved out of the active states", "TestTrackers//moved_away TestTrackers//terminal"},
	{
		"the issue is deleted, archived, or in another project",
		"TestTrackers//moved_away TestScript/root_of_two",
	},
	{"an issue of another tracker has the same identifier", "TestScript/other_linear"},
	{"codex is missing or logged out", "TestScript/unblock TestRealCodex/agent_auth"},
	{"codex loses its login", "TestScript/account_login TestScript/unblock_account"},
	{"codex's allowance is used up", "TestScript/account_limit TestRealCodex/quota_reset"},
	{"codex is a release that symphony can't work with", "TestScript/codex_incompatible"},
	{
		"more issues are due than `SYMPHONY_MAX_AGENTS` allows",
		"TestScript/account_slots TestScript/account_slots_at_once",
	},
	{"WORKFLOW.md is broken or gone", "TestScript/last_good TestScript/literal_key"},
	{"WORKFLOW.md is changed", "TestScript/tick_loop_reload TestScript/unblock"},
	{"WORKFLOW.md names another project", "TestScript/project_change"},
	{"WORKFLOW.md is moved or renamed", "TestScript/projects_move"},
	{"two workflows name one state directory", "TestScript/state_conflict"},
	{
		"two state directories work on one project and root",
		"TestScript/project_conflict TestScript/first_passes",
	},
	{"two workflows of one account use the same tracker project", "TestScript/shared_tracker"},
	{
		"two accounts (or values of `HOME` or `XDG_STATE_HOME`, as with sudo or in a container) have " +
			"one folder of issues",
		"TestScript/file_accounts",
	},
	{"two projects share a workspace root", "TestScript/root_of_two TestTrashOfAnotherProject"},
	{"a push fails, or its worker is killed", "TestScript/delivery TestScript/delivery_conflict"},
	{"GitHub refuses a pull request, or does not answer", "TestScript/pull_request TestForgeFailures"},
	{"a workspace is removed while its commits wait for their delivery", "TestScript/delivery_conflict"},
	{"a workspace is deleted", "TestScript/agent_faults"},
	{"the workspace root is read-only or gone", "TestScript/root_faults TestScript/workspace_root"},
	{"the agent asks a question", "TestRealCodex/question_fail TestScript/ask_question"},
	{"the agent asks for approval", "TestRealCodex/approval_fail TestScript/ask_approve"},
	{"a request is not answered in time, or its run ends first", "TestScript/ask_ended"},
	{"an operator answers by a comment", "TestScript/answers TestWhoseRepliesCount"},
	{
		"symphony's comment can't be made or changed, or the pass is killed meanwhile",
		"TestFaults TestEditFails TestCrashPoints",
	},
	{
		"the machine restarts while the agent waits for an answer",
		"TestScript/reboot TestScript/guidance_answer",
	},
	{
		"the file state.db is lost or damaged",
		"TestScript/state_broken TestScript/state_restored TestReplacedUnderAWriter",
	},
	{
		"the state directory is deleted, or replaced by an empty one, while workers live",
		"TestScript/state_faults",
	},
	{"the state directory was in memory and the machine rebooted", "TestScript/state_lost"},
	{"another process keeps state.db busy", "TestScript/state_faults"},
	{"the state directory becomes read-only", "TestScript/state_readonly"},
	{"the file state.db-wal is deleted", "TestScript/state_faults"},
	{"`runs/<run>` is deleted under a worker", "TestScript/state_faults"},
	{"a state directory is copied to a place beside it", "TestScript/state_copy"},
	{
		"a copy of the state is used on another machine",
		"TestScript/second_machine TestMovingToAnotherMachine",
	},
}

// docs/failures.md describes exactly the events that tests show.
func TestDocumentedFailures(t *testing.T) {
	exists := testNames(t)
	shown := map[string]bool{}
	for _, row := range failureTests {
		test.Equal(t, "the event is listed once: "+row.event, shown[row.event], false)
		shown[row.event] = true
		for _, name := range strings.Fields(row.tests) {
			test.Equal(t, "there is the test "+name+" of: "+row.event, exists[name], true)
		}
		if row.tests == "" {
			t.Errorf("no test shows: %s", row.event)
		}
	}
	for _, found := range regexp.MustCompile(`(?s)\n- \*\*(.*?)\*\*:\s`).FindAllStringSubmatch(document(t, "docs/failures.md"), -1) {
		event := strings.Join(strings.Fields(found[1]), " ")
		if !shown[event] { // it begins a sentence there
			event = strings.ToLower(event[:1]) + event[1:]
		}
		test.Equal(t, "a test shows: "+event, shown[event], true)
		delete(shown, event)
	}
	for event := range shown {
		t.Errorf("docs/failures.md does not describe: %s", event)
	}
}
