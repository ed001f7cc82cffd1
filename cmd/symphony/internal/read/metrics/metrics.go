// Package metrics shows the read model as metrics in the text format of Prometheus.
package metrics

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/reconcile"
)

// ContentType is the media type of Text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// family is a metric: a name, its type and its meaning. All its samples carry the labels
// project and workflow.
type family struct{ name, kind, help string }

const gauge, counter = "gauge", "counter"

// readable is the only metric of a project that can't be read.
const readable = "symphony_project_readable"

// families are the metrics in their order. The metrics of the schedule stay true in a file that
// no pass replaces any more: the age of the last pass shows whether the schedule is dead.
var families = []family{
	{readable, gauge, "Whether the state of the project can be read."},
	{"symphony_build_info", gauge, "The version of symphony that made these metrics."},
	{
		"symphony_schedule_last_pass_timestamp_seconds",
		gauge,
		"When the last pass of cron, a timer or tick --loop began.",
	},
	{"symphony_schedule_interval_seconds", gauge, "Usual time between passes of the schedule."},
	{
		"symphony_schedule_grace_seconds",
		gauge,
		"How old the last pass of the schedule may be before the schedule counts as dead.",
	},
	{"symphony_last_pass_timestamp_seconds", gauge, "When the last pass began, whatever started it."},
	{"symphony_last_pass_duration_seconds", gauge, "How long the last pass took."},
	{"symphony_last_pass_errors", gauge, "How many errors the last pass had."},
	{"symphony_needs_operator", gauge, "Whether something waits for a person, as symphony status reports."},
	{"symphony_issues", gauge, "Issues by the status that symphony ps shows."},
	{"symphony_requests", gauge, "Requests of agents that wait for an operator."},
	{"symphony_paused", gauge, "Whether symphony pause is in effect."},
	{
		"symphony_blocked",
		gauge,
		"Whether nothing starts because of a fault of the machine, the tracker or the account.",
	},
	{"symphony_host_runs", gauge, "The agents that work on each host."},
	{"symphony_host_usable", gauge, "Whether a host is neither lost nor blocked."},
	{"symphony_input_tokens_total", counter, "Input tokens of all runs, cached ones included."},
	{"symphony_cached_input_tokens_total", counter, "Input tokens of all runs that the model had cached."},
	{"symphony_output_tokens_total", counter, "Output tokens of all runs, those of reasoning included."},
	{"symphony_reasoning_output_tokens_total", counter, "Output tokens of all runs that were reasoning."},
	{"symphony_run_seconds_total", counter, "Time that all runs have taken."},
	{"symphony_budget_used_ratio", gauge, "Part of agent.budget_per_day that is used today."},
	{
		"symphony_rate_limit_used_ratio",
		gauge,
		"Part of the allowance of the agents' account that is used, by window.",
	},
	{"symphony_rate_limit_reset_timestamp_seconds", gauge, "When that window ends."},
	{
		"symphony_slots",
		gauge,
		"Most runs at the same time, in the project or in all projects of the account.",
	},
	{"symphony_slots_used", gauge, "How many runs work."},
}

// Text returns the metrics of projects. They contain no titles and no secrets.
func Text(all []view.Overview, version string) []byte {
	var b bytes.Buffer
	read := make([]samples, len(all))
	for i, v := range all {
		read[i] = samplesOf(v, version)
	}
	for _, f := range families {
		head := fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for i, v := range all {
			labels := label("project", v.Project.Name) + "," + label("workflow", v.Project.WorkflowPath)
			for _, s := range read[i][f.name] {
				own := ""
				if s.label != "" {
					own = "," + label(s.label, s.of)
				}
				value := strconv.FormatFloat(s.value, 'f', -1, 64)
				fmt.Fprintf(&b, "%s%s{%s%s} %s\n", head, f.name, labels, own, value)
				head = ""
			}
		}
	}
	return b.Bytes()
}

// label writes a label with its value.
func label(name, value string) string {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	return name + `="` + escape.Replace(strings.ToValidUTF8(value, "?")) + `"`
}

// sample is a value, with the label that tells it from the project's others; without a label
// if the label's name is empty.
type sample struct {
	label, of string
	value     float64
}

// samples are the values of a project, by the names of their metrics.
type samples map[string][]sample

// set makes a number the only sample of a metric.
func (s samples) set(name string, value float64) { s[name] = []sample{{value: value}} }

// add adds a sample with a label.
func (s samples) add(name, label, of string, value float64) {
	s[name] = append(s[name], sample{label, of, value})
}

func samplesOf(v view.Overview, version string) samples {
	s := samples{}
	s.set(readable, oneIf(v.Error == nil))
	if v.Error != nil {
		return s
	}
	s.add("symphony_build_info", "version", version, 1)
	s.addIssues(v)
	s.addProject(v)
	s.addHosts(v.Hosts)
	s.addUse(v)
	if p := v.LastPass; p != nil {
		s.set("symphony_last_pass_timestamp_seconds", seconds(p.StartedAt))
		s.set("symphony_last_pass_duration_seconds", float64(p.DurationMS)/1000)
		s.set("symphony_last_pass_errors", float64(len(p.Errors)))
	}
	if v.Health != nil {
		s.addHealth(*v.Health)
	}
	return s
}

// addIssues adds the numbers of issues by their status, each issue once.
func (s samples) addIssues(v view.Overview) {
	for _, status := range view.Statuses {
		count := v.Counts.Of(status)
		switch status {
		case view.StatusEnded:
			continue
		case view.StatusStuck:
			count = len(v.Stuck())
		case view.StatusKept:
			count = len(v.Kept)
		case reconcile.StatusRunning:
			count -= v.Counts.NeedsAnswer
		default: // each issue of Counts is counted once
		}
		s.add("symphony_issues", "status", string(status), float64(count))
	}
}

// addProject adds the open requests, and whether the project is paused, blocked, or waits for
// a person for any reason of symphony status.
func (s samples) addProject(v view.Overview) {
	s.set("symphony_needs_operator", oneIf(v.Verdict().Level != view.LevelOK))
	s.set("symphony_requests", float64(len(v.Requests)))
	s.set("symphony_paused", oneIf(v.Has(obstacle.Paused)))
	s.set("symphony_blocked", oneIf(v.Has(obstacle.Blocked)))
}

// addHosts adds the agents of each host, and whether the host can be used.
func (s samples) addHosts(hosts []view.HostRow) {
	for _, h := range hosts {
		s.add("symphony_host_runs", "host", h.Name, float64(h.Runs))
		s.add("symphony_host_usable", "host", h.Name, oneIf(h.Usable()))
	}
}

// addUse adds the usage of runs.
func (s samples) addUse(v view.Overview) {
	s.set("symphony_input_tokens_total", float64(v.Totals.Input))
	s.set("symphony_cached_input_tokens_total", float64(v.Totals.Cached))
	s.set("symphony_output_tokens_total", float64(v.Totals.Output))
	s.set("symphony_reasoning_output_tokens_total", float64(v.Totals.Reasoning))
	s.set("symphony_run_seconds_total", v.Totals.Seconds)
	if v.Budget != nil {
		s.set("symphony_budget_used_ratio", v.Budget.Used/v.Budget.Most)
	}
}

// addHealth adds the rhythm of the schedule and the limits of the account.
func (s samples) addHealth(h view.Health) {
	if h.Schedule.LastAt != nil {
		s.set("symphony_schedule_last_pass_timestamp_seconds", seconds(*h.Schedule.LastAt))
	}
	if h.Schedule.Usual != nil {
		s.set("symphony_schedule_interval_seconds", *h.Schedule.Usual)
	}
	s.set("symphony_schedule_grace_seconds", h.Schedule.Grace)
	for _, l := range h.Limits {
		s.add("symphony_rate_limit_used_ratio", "window", l.Window, l.Used/100)
		if l.Resets != nil {
			s.add("symphony_rate_limit_reset_timestamp_seconds", "window", l.Window, seconds(*l.Resets))
		}
	}
	for _, slots := range h.Slots {
		if slots.Name == "" {
			s.add("symphony_slots", "scope", slots.Scope, float64(slots.Most))
			s.add("symphony_slots_used", "scope", slots.Scope, float64(slots.Used))
		}
	}
}

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// seconds is a time in the format of Prometheus.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
