package reconcile

import (
	"errors"
	"fmt"
)

// Error is the error that reaches users: a stable code for programs, a message and a hint for people.
type Error struct {
	Code    string
	Message string
	// Hint says what to do next; may be empty.
	Hint string
	// Err is the cause, nil if there is none.
	Err error
	// Class is set where the table below does not have the code, or has another class for it. The end of a run is stored
	// as a code alone: an adapter whose errors can end a run adds its codes to the table.
	Class Class
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
	f, known := faults[code]
	switch {
	case f.ofRun != "":
		return f.ofRun
	case known:
		return f.class
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

// fault is what a code means.
type fault struct {
	class Class
	// ofRun differs where the same code means something else as the end of a run: the pass that dispatched the run had
	// found the workflow valid.
	ofRun Class
}

// faults are the codes that are not a plain failure of a command, or as the end of a run not a failure of the issue.
var faults = map[string]fault{
	"usage":          {class: ClassUsage},
	"not_a_terminal": {class: ClassUsage},
	"locked":         {class: ClassLock},

	"missing_workflow_file":           {class: ClassWorkflow, ofRun: ClassIssue},
	"workflow_parse_error":            {class: ClassWorkflow, ofRun: ClassIssue},
	"workflow_front_matter_not_a_map": {class: ClassWorkflow, ofRun: ClassIssue},
	"invalid_config":                  {class: ClassWorkflow, ofRun: ClassIssue},
	"unsupported_key":                 {class: ClassWorkflow, ofRun: ClassIssue},
	"template_parse_error":            {class: ClassWorkflow, ofRun: ClassIssue},
	"template_render_error":           {class: ClassWorkflow, ofRun: ClassIssue}, // it may render for other issues
	"env_file_permissions":            {class: ClassWorkflow, ofRun: ClassIssue},
	"env_file_invalid":                {class: ClassWorkflow, ofRun: ClassIssue},
	"nested_workflow":                 {class: ClassWorkflow, ofRun: ClassIssue},
	"project_conflict":                {class: ClassWorkflow, ofRun: ClassIssue},
	"unsupported_tracker_kind":        {class: ClassWorkflow, ofRun: ClassTracker},
	"missing_tracker_api_key":         {class: ClassWorkflow, ofRun: ClassTracker},
	"missing_tracker_project_slug":    {class: ClassWorkflow, ofRun: ClassTracker},
	"tracker_project_not_found":       {class: ClassWorkflow, ofRun: ClassTracker},
	"tracker_ca_file_invalid":         {class: ClassWorkflow, ofRun: ClassTracker},
	"workspace_root_unusable":         {class: ClassWorkflow, ofRun: ClassMachine},
	"codex_not_found":                 {class: ClassWorkflow, ofRun: ClassMachine},
	"state_conflict":                  {class: ClassWorkflow, ofRun: ClassMachine},

	"linear_api_request":        {class: ClassTracker},
	"linear_api_status":         {class: ClassTracker},
	"linear_graphql_errors":     {class: ClassTracker},
	"linear_unknown_payload":    {class: ClassTracker},
	"linear_missing_end_cursor": {class: ClassTracker},
	"tracker_endpoint_invalid":  {class: ClassTracker},
	"tracker_error":             {class: ClassTracker},
	"tracker_rate_limited":      {class: ClassTracker},
	"tracker_unavailable":       {class: ClassTracker},

	"codex_incompatible":  {class: ClassMachine},
	"sandbox_unavailable": {class: ClassMachine},
	CodeAgentAuth:         {class: ClassMachine},
	CodeAgentQuota:        {class: ClassMachine},
	"network":             {class: ClassMachine},
	"disk_full":           {class: ClassMachine},
	CodeResourceLimit:     {class: ClassMachine},

	"state_busy":                   {class: ClassMachine},
	"state_corrupt":                {class: ClassMachine},
	"state_dir":                    {class: ClassMachine},
	"state_error":                  {class: ClassMachine},
	"state_io":                     {class: ClassMachine},
	"state_missing":                {class: ClassMachine},
	"state_newer":                  {class: ClassMachine},
	"state_outdated":               {class: ClassMachine},
	"state_read":                   {class: ClassMachine},
	"state_readonly":               {class: ClassMachine},
	"state_replaced":               {class: ClassMachine},
	"state_unsupported_filesystem": {class: ClassMachine},
	"state_write":                  {class: ClassMachine},

	// Of hooks.on_attention these are warnings: no pass fails by them.
	"hook_failed":  {class: ClassIssue},
	"hook_timeout": {class: ClassIssue},
}
