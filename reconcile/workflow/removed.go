package workflow

// removed are keys that earlier versions had, each with what holds instead. Such a key is an error and
// not only ignored: with merge.label without effect, symphony would merge what nobody has labelled.
var removed = map[string]string{
	"tracker.explain_holds":         "remove it: a comment on the issue says why it is held",
	"tracker.provider.assignee":     "write tracker.assignee",
	"tracker.provider.api_url":      "write tracker.endpoint",
	"tracker.provider.base_url":     "write tracker.endpoint",
	"tracker.provider.token":        "write tracker.api_key",
	"tracker.provider.api_token":    "write tracker.api_key",
	"tracker.provider.project_path": "write tracker.provider.repo",
	"tracker.provider.status_field": "remove it: the columns of a board are the options of its field Status",
	"tracker.provider.tool_budget":  "remove it: the tools of agents reach only their own issue there",
	"tracker.provider.weights":      "remove it: the priority of an issue is that of its labels",

	"repository.submodule_hosts": "remove it: submodules come from the host of repository.url",
	"verify.in_workspace":        "remove it: verify.command runs in a checkout of the commit",
	"merge.label":                "remove it: a reviewer approves, or the checks are green, as merge.when says",
	"agent.max_processes":        "remove it: an agent in the sandbox has at most 4096 processes and threads",
	"agent.keep_git_config":      "remove it: what an agent changes in the settings of git is undone",
	"agent.by_label.set_by":      "remove it: a row may narrow the sandbox, and never widens it, whoever sets the label",
	"agent.waiting_takes_slot":   "remove it: an agent that waits for an answer keeps its slot",
	"monitor.metrics_file":       "remove it: symphony serve has the same at /metrics",
	"worker.when_lost":           "remove it: an issue whose host is lost is held",
}

// refuseRemoved reports a key that earlier versions had.
func (r *reader) refuseRemoved(f field) bool {
	instead, was := removed[f.key]
	if was {
		r.invalid(f, "is no key any more", instead)
	}
	return was
}
