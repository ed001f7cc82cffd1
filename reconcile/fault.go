package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Error is the error that reaches users: a stable code for programs, a message and a hint for
// people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // the next step for the reader; may be empty
	// Next names the step of the hint, if a program takes it in another way: then Hint says what
	// an operator does. Empty for other steps.
	Next Step  `json:"-"`
	Err  error `json:"-"` // the cause, nil if there is none
	// Status is the status of the HTTP answer that is the error, 0 for other errors.
	Status int `json:"http_status,omitempty"`
	// Class overrides the class of the code in the table below. Of the error that ends a run
	// only the code is stored: an adapter whose errors can end a run adds its codes to the
	// table.
	Class Class `json:"-"`
}

// NewError returns an error without a cause.
func NewError(code, message, hint string) *Error {
	return &Error{Code: code, Message: message, Hint: hint}
}

// WithCause sets the cause, and returns the error.
func (e *Error) WithCause(err error) *Error {
	e.Err = err
	return e
}

// WithHint sets the hint, and returns the error:
//
//	err.WithHint("%s ends the pause; then repeat the command", CommandFor("resume", ""))
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// CommandLine is a command of symphony in a hint: symphony tell ABC-7 TEXT has the verb tell, the
// name ABC-7 and the rest TEXT.
type CommandLine struct {
	Flags string // before the verb, such as -w web/WORKFLOW.md; may be empty
	Verb  string
	Name  string // of an issue or a request; may be empty
	Rest  string // may be empty
}

// CommandFor returns a command about an issue or a request, or about a project if the name is
// empty.
func CommandFor(verb, name string) CommandLine { return CommandLine{Verb: verb, Name: name} }

// String returns the command as an operator types it.
func (c CommandLine) String() string {
	line := "symphony"
	for _, word := range []string{c.Flags, c.Verb, c.Name, c.Rest} {
		if word != "" {
			line += " " + word
		}
	}
	return line
}

// WithNext names the step of the hint, and returns the error.
func (e *Error) WithNext(s Step) *Error {
	e.Next = s
	return e
}

// Error implements error: "<code>: <fault and place>".
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

func (e *Error) Unwrap() error { return e.Err }

// Step is a next step after an error that an operator takes by a command, and a program in
// another way.
type Step string

// StepReadHelp is the step after a wrong use of a command.
const StepReadHelp Step = "read how a command or tool is used"

// CodeContextFull: the conversation does not fit into the context of its model any more. The
// next run begins another.
const CodeContextFull = "context_window_exceeded"

// Class is the origin of an error. It determines the exit code of a command and the
// consequence of a failed run.
type Class string

// The classes. An error without a class is a plain failure of the command.
const (
	ClassUsage    Class = "usage"    // the command line
	ClassWorkflow Class = "workflow" // WORKFLOW.md, or anything that it names
	ClassTracker  Class = "tracker"  // the tracker, or the network between
	// this machine, the database, or the agent's program or account
	ClassMachine Class = "machine"
	ClassIssue   Class = "issue" // the work on an issue
	ClassLock    Class = "lock"  // another pass holds the lock
)

// ClassOf returns the class of an error, or "".
func ClassOf(err error) Class {
	var known *Error
	switch {
	case !errors.As(err, &known):
		return ""
	case known.Class != "":
		return known.Class
	}
	f, _ := faultOf(known.Code)
	return f.class
}

// RunClass returns the class of the code that a run ended with. An unknown code is a fault of
// the issue.
func RunClass(code string) Class {
	if f, known := faultOf(code); known {
		return f.ofRun
	}
	return ClassIssue
}

// MachineFault reports whether a run that ended with this code is no evidence about its issue:
// the run counts as no failure, and the attempt stays the same.
func MachineFault(code string) bool {
	class := RunClass(code)
	return class == ClassMachine || class == ClassTracker
}

// AccountFault reports whether the code is a fault of the agent's account, which all its
// projects share.
func AccountFault(code string) bool { return code == CodeAgentAuth || code == CodeAgentQuota }

// Codes that decisions depend on.
const (
	CodeAgentAuth  = "agent_auth"
	CodeAgentQuota = "agent_quota"

	CodeWorkerLost    = "worker_lost"
	CodeWorkerFrozen  = "worker_frozen"
	CodeSpawnFailed   = "spawn_failed"
	CodeWorkspaceBusy = "workspace_busy"
	// CodeIssueElsewhere: another machine has the issue.
	CodeIssueElsewhere = "issue_elsewhere"
	// CodeWorkspaceGone: the workspace with the commits to deliver does not exist. An
	// operator's retry gives them up.
	CodeWorkspaceGone = "workspace_gone"
	// CodeWorkspaceForeign: the directory in the place of the workspace belongs to another issue
	// or project.
	CodeWorkspaceForeign = "workspace_foreign"
	// CodeIncomplete: a clone of the delivered commit would lack files of submodules or of Git
	// LFS.
	CodeIncomplete = "delivery_incomplete"
	// CodeDeliveryRefused: a rule of the remote, or the operator's check, refuses the commits, for
	// example because of a pattern of their messages, the size of a file, or a secret in one.
	CodeDeliveryRefused = "delivery_refused"
	// CodeBaseReplaced: the history of the base was replaced, and the commits are built on some that
	// it has dropped. An operator's retry --unverified delivers them all the same.
	CodeBaseReplaced = "base_replaced"
	// CodeBranchCheckedOut: where the branch of an issue would be pushed, a person checked it
	// out, and can switch to another branch.
	CodeBranchCheckedOut = "branch_checked_out"
	CodeRebooted         = "rebooted"
	// CodeTerminated: a signal that no pass sent ended the worker.
	CodeTerminated = "terminated"
	// CodeResourceLimit: the system refused another process, descriptor or more memory.
	CodeResourceLimit = "resource_limit"
	// CodeMaxTokens: the issue used up its tokens during a turn, which was interrupted.
	CodeMaxTokens = "max_tokens"
	// CodeDeliveryConflict: someone else made or changed the branch.
	CodeDeliveryConflict = "delivery_conflict"
	// CodeOthersPushed: a delivery waits for an agent, which merges the commits that others
	// pushed to the branch.
	CodeOthersPushed = "others_pushed"
	// CodeWorkersWouldDie: a worker started by this pass would be ended when the pass ends.
	CodeWorkersWouldDie = "workers_would_die"
	// CodeNoState: the workflow names a state that the tracker does not know.
	CodeNoState = "tracker_state_not_found"
	// CodeTrackerEmpty: a tracker that contained issues contains none.
	CodeTrackerEmpty = "tracker_empty"

	codeLeftover = "leftover_process"
)

// MessageSpawnFailed is the specification's text for a worker that could not be started (16).
const MessageSpawnFailed = "failed to spawn agent"

// fault is the meaning of some codes.
type fault struct {
	class Class // of the error of a command or a pass
	// of the end of a run; never ClassWorkflow, because the pass that started the run had
	// found the workflow valid
	ofRun Class
	codes []string
	// it may be over a moment later, see Momentary
	momentary bool
}

// faults lists the codes that have a class. Other codes are plain failures of a command, or of
// a run's issue.
var faults = sync.OnceValue(func() map[string]fault {
	return byCode(
		fault{class: ClassUsage, ofRun: ClassUsage, codes: []string{"usage", "not_a_terminal", "token_readable"}},
		fault{class: ClassLock, ofRun: ClassLock, codes: []string{"locked"}},
		// As the end of a run these are the issue's: the template, for instance, may render for
		// other issues.
		fault{class: ClassWorkflow, ofRun: ClassIssue, codes: []string{
			"missing_workflow_file",
			"workflow_parse_error",
			"workflow_front_matter_not_a_map",
			"invalid_config",
			"unsupported_key",
			"template_parse_error",
			"template_render_error",
			"environment_invalid",
			"nested_workflow",
			"project_conflict",
			"agent_command_unsafe",
		}},
		fault{class: ClassWorkflow, ofRun: ClassTracker, codes: []string{
			"unsupported_tracker_kind",
			"missing_tracker_api_key",
			"missing_tracker_project_slug",
			"tracker_project_not_found",
			"tracker_setting_invalid",
			"tracker_state_not_found",
			"forge_login",
			"forge_moved",
		}},
		fault{class: ClassWorkflow, ofRun: ClassMachine, codes: []string{
			"workspace_root_unusable",
			"codex_not_found",
			"agent_not_found",
			"state_conflict",
		}},
		// A connection that broke, a server that restarts, an answer of a proxy.
		fault{class: ClassTracker, ofRun: ClassTracker, momentary: true, codes: []string{
			"*_api_request",
			"*_api_status",
			"*_unknown_payload",
		}},
		fault{class: ClassTracker, ofRun: ClassTracker, codes: []string{
			"*_graphql_errors",
			"*_missing_end_cursor",
			"answer_too_large",
			"tracker_error",
			"*_rate_limited",
			"tracker_unavailable",
			"file_read",
			"file_write",
			"tracker_malformed",
			"tracker_empty",
			"jira_transition_fields",
		}},
		fault{class: ClassTracker, ofRun: ClassTracker, codes: []string{
			"command_key_refused",
			"command_failed",
			"command_timeout",
			"command_answer_invalid",
		}},
		fault{class: ClassMachine, ofRun: ClassMachine, codes: []string{
			"codex_incompatible",
			"agent_incompatible",
			"sandbox_unavailable",
			"agent_auth",
			"agent_quota",
			"network",
			"disk_full",
			"login_shell_failed",
			"resource_limit",
			"state_busy",
			"state_corrupt",
			"state_dir",
			"state_io",
			"state_newer",
			"state_outdated",
			"state_readonly",
			"state_replaced",
			"state_unusable",
			"temporary_directory",
		}},
		fault{class: ClassMachine, ofRun: ClassMachine, codes: []string{
			"repository_unavailable",
			"git_identity_missing",
			"branch_in_the_way",
			codeClaimsUnavailable,
			"claims_refused",
			"claims_not_atomic",
		}},
		// As the end of a run these concern that issue only: they block nothing, and are no failure
		// either.
		fault{class: ClassMachine, ofRun: ClassTracker, codes: []string{"workspace_taken", "claim_lost"}},
		fault{ofRun: ClassTracker, codes: []string{CodeIssueElsewhere}},
		fault{class: ClassMachine, ofRun: ClassMachine, codes: []string{
			"host_failed",
			"host_lost",
			"host_mismatch",
			"host_system",
			"host_unreachable",
			"host_unusable",
			"host_unverified",
			"host_withdrawn",
			"engine_missing",
		}},
		fault{class: ClassIssue, ofRun: ClassIssue, codes: []string{
			"delivery_failed",
			"delivery_conflict",
			"delivery_incomplete",
			"delivery_refused",
			"base_replaced",
			"invalid_branch",
			"branch_checked_out",
			"repository_changed",
			"workspace_broken",
			"git_killed",
			"verify_unusable",
			"not_verified",
		}},
		fault{class: ClassIssue, ofRun: ClassIssue, codes: HoldCodes()},
		// For hooks.on_attention these are warnings, which fail no pass.
		fault{class: ClassIssue, ofRun: ClassIssue, codes: []string{"hook_failed", "hook_timeout"}},
	)
})

// passing lists the codes of faults that end by themselves.
var passing = sync.OnceValue(func() map[string]fault {
	return byCode(
		fault{codes: []string{
			"agent_quota",
			"network",
			"tracker_unavailable",
			"*_rate_limited",
			"*_api_request",
			"command_timeout",
			"canceled",
			"locked",
		}},
	)
})

// serverError is the lowest status of an HTTP answer that is the fault of the server.
const serverError = 500

// EndsByItself reports whether a fault, which may be an HTTP answer with this status, ends
// without an operator.
func EndsByItself(code string, status int) bool {
	_, passes := lookUp(passing(), code)
	return passes || status >= serverError
}

// Momentary reports whether the fault of a request may be over a moment later, so that a read
// is worth repeating at once. A refusal, a rate limit, and a request that already took too long
// are not.
func Momentary(err error) bool {
	known, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, ErrRejected) {
		return false
	}
	var limited Limited
	var late interface{ Timeout() bool }
	if errors.As(err, &limited) || errors.As(err, &late) && late.Timeout() {
		return false
	}
	f, _ := faultOf(known.Code)
	isRefusal := known.Status != 0 && known.Status < serverError
	return f.momentary && !isRefusal
}

// faultOf returns the meaning of a code.
func faultOf(code string) (fault, bool) { return lookUp(faults(), code) }

// lookUp finds a code in a table. Instead of * it may have the name of a tracker.
func lookUp(table map[string]fault, code string) (fault, bool) {
	f, known := table[code]
	if !known {
		_, rest, _ := strings.Cut(code, "_")
		f, known = table["*_"+rest]
	}
	return f, known
}

func byCode(list ...fault) map[string]fault {
	all := map[string]fault{}
	for _, f := range list {
		for _, code := range f.codes {
			if _, twice := all[code]; twice {
				panic(code + " has two classes")
			}
			all[code] = f
		}
	}
	return all
}
