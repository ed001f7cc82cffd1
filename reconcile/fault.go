package reconcile

import (
	"errors"
	"fmt"
	"strings"
)

// Error is the error that reaches users: a stable code for programs, a message and a hint for people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do next; may be empty
	Err     error  `json:"-"`              // the cause, nil if there is none
	// Class is set where the table below does not have the code, or has another class for it. The end of a run is stored
	// as a code alone: an adapter whose errors can end a run adds its codes to the table.
	Class Class `json:"-"`
}

// Error implements error: "<code>: <what and where>".
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Class says whose fault an error is. The exit code of a command and the consequence of a failed run follow from it.
type Class string

// The classes. An error without one is a plain failure of the command.
const (
	ClassUsage    Class = "usage"    // the command line
	ClassWorkflow Class = "workflow" // WORKFLOW.md, or what it names
	ClassTracker  Class = "tracker"  // the tracker, or the way to it
	ClassMachine  Class = "machine"  // this machine, the database, or the agent's program or account
	ClassIssue    Class = "issue"    // the work on one issue
	ClassLock     Class = "lock"     // another pass has the lock
)

// ClassOf is the class of an error.
func ClassOf(err error) Class {
	var known *Error
	switch {
	case !errors.As(err, &known):
		return ""
	case known.Class != "":
		return known.Class
	}
	return faults[known.Code].class
}

// RunClass is the class of the code that a run ended with. The database keeps the code alone.
func RunClass(code string) Class {
	if f, known := faults[code]; known {
		return f.ofRun
	}
	return ClassIssue
}

// MachineFault reports whether a run ended with a code that says nothing about its issue: it counts no failure,
// raises no attempt and holds nothing.
func MachineFault(code string) bool {
	class := RunClass(code)
	return class == ClassMachine || class == ClassTracker
}

// TrackerFault reports whether the code is a fault of the tracker (specification 11.4).
func TrackerFault(code string) bool { return RunClass(code) == ClassTracker }

// AccountFault reports whether the code is a fault of the agent's account: it concerns all projects of the account.
func AccountFault(code string) bool { return code == CodeAgentAuth || code == CodeAgentQuota }

// Codes that decisions depend on.
const (
	CodeAgentAuth  = "agent_auth"
	CodeAgentQuota = "agent_quota"

	CodeWorkerLost    = "worker_lost"
	CodeWorkerFrozen  = "worker_frozen"
	CodeSpawnFailed   = "spawn_failed"
	CodeWorkspaceBusy = "workspace_busy"
	CodeRebooted      = "rebooted"
	// CodeTerminated: a signal ended the worker, and not a pass.
	CodeTerminated = "terminated"
	// CodeResourceLimit: the system refused another process, descriptor or more memory.
	CodeResourceLimit = "resource_limit"
	// CodeMaxTokens: the issue used up its tokens during a turn, which was interrupted.
	CodeMaxTokens = "max_tokens"
	// CodeWorkersWouldDie: a worker started by this pass would be ended together with the pass.
	CodeWorkersWouldDie = "workers_would_die"

	codeLeftover = "leftover_process"
)

// MessageSpawnFailed is the specification's text for a worker that could not be started (16).
const MessageSpawnFailed = "failed to spawn agent"

// fault is what codes mean.
type fault struct {
	class Class
	// ofRun is the class of the same code as the end of a run. It differs where the pass that dispatched the run had found the
	// workflow valid.
	ofRun Class
	codes string
}

// faults are the codes that are not a plain failure of a command, or as the end of a run not a failure of the issue.
var faults = byCode(
	fault{ClassUsage, ClassUsage, "usage not_a_terminal"},
	fault{ClassLock, ClassLock, "locked"},
	// A template may render for other issues.
	fault{ClassWorkflow, ClassIssue, `missing_workflow_file workflow_parse_error workflow_front_matter_not_a_map invalid_config
		unsupported_key template_parse_error template_render_error env_file_permissions env_file_invalid nested_workflow
		project_conflict`},
	fault{ClassWorkflow, ClassTracker, `unsupported_tracker_kind missing_tracker_api_key missing_tracker_project_slug
		tracker_project_not_found tracker_ca_file_invalid`},
	fault{ClassWorkflow, ClassMachine, "workspace_root_unusable codex_not_found state_conflict"},
	fault{ClassTracker, ClassTracker, `linear_api_request linear_api_status linear_graphql_errors linear_unknown_payload
		linear_missing_end_cursor answer_too_large tracker_endpoint_invalid tracker_error tracker_rate_limited tracker_unavailable`},
	fault{ClassMachine, ClassMachine, `codex_incompatible sandbox_unavailable agent_auth agent_quota network disk_full
		resource_limit state_busy state_corrupt state_dir state_error state_io state_missing state_newer state_outdated state_read
		state_readonly state_replaced state_unsupported_filesystem state_write`},
	// Of hooks.on_attention these are warnings: no pass fails by them.
	fault{ClassIssue, ClassIssue, "hook_failed hook_timeout"},
)

func byCode(list ...fault) map[string]fault {
	all := map[string]fault{}
	for _, f := range list {
		for _, code := range strings.Fields(f.codes) {
			all[code] = f
		}
	}
	return all
}
