// Package metrics shows the read model as metrics in the text format of Prometheus.
package metrics

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/reconcile"
)

// ContentType is the media type of Text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// family is a metric: a name, its type and what it means. All its samples have the labels project and workflow.
type family struct {
	name, kind, help string
	// samples are the values for a project that could be read.
	samples func(v view.Overview) []sample
}

// sample is one value, with the label that tells it from the project's others; none if the name of the label is empty.
type sample struct {
	label, of string
	value     float64
}

// Text returns the metrics of projects. They contain no titles and no secrets.
func Text(all []view.Overview, version string) []byte {
	var b bytes.Buffer
	for _, f := range families(version) {
		head := fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, v := range all {
			if v.Error != nil && f.name != readable {
				continue
			}
			labels := label("project", v.Project.Name) + "," + label("workflow", v.Project.WorkflowPath)
			for _, s := range f.samples(v) {
				own := ""
				if s.label != "" {
					own = "," + label(s.label, s.of)
				}
				fmt.Fprintf(&b, "%s%s{%s%s} %s\n", head, f.name, labels, own, strconv.FormatFloat(s.value, 'f', -1, 64))
				head = ""
			}
		}
	}
	return b.Bytes()
}

// label writes a label with its value.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(value, "?")) + `"`
}

// readable is the one metric of a project that can't be read.
const readable = "symphony_project_readable"

const gauge, counter = "gauge", "counter"

// families lists the metrics in their order.
func families(version string) []family {
	return slices.Concat([]family{
		{readable, gauge, "Whether the state of the project can be read.", func(v view.Overview) []sample { return flag(v.Error == nil) }},
		{"symphony_build_info", gauge, "The version of symphony that made these metrics.", func(view.Overview) []sample {
			return []sample{{"version", version, 1}}
		}},
	}, ofSchedule(), ofPasses(), ofIssues(), ofUse(), ofHealth())
}

// ofSchedule are metrics that stay true in a file that no pass replaces any more: whether the schedule is dead follows from the age of
// its last pass.
func ofSchedule() []family {
	value := func(of func(s view.ScheduleHealth) []sample) func(view.Overview) []sample {
		return func(v view.Overview) []sample {
			if v.Health == nil {
				return nil
			}
			return of(v.Health.Schedule)
		}
	}
	return []family{
		{
			"symphony_schedule_last_pass_timestamp_seconds", gauge, "When the last pass of cron, a timer or tick --loop began.",
			value(func(s view.ScheduleHealth) []sample { return optional(s.LastAt, seconds) }),
		},
		{
			"symphony_schedule_interval_seconds", gauge, "Usual time between passes of the schedule.",
			value(func(s view.ScheduleHealth) []sample { return optional(s.Usual, func(n float64) float64 { return n }) }),
		},
		{
			"symphony_schedule_grace_seconds", gauge, "How old the last pass of the schedule may be before the schedule counts as dead.",
			value(func(s view.ScheduleHealth) []sample { return number(s.Grace) }),
		},
	}
}

// ofHealth are the limits of the account.
func ofHealth() []family {
	limits := func(value func(l view.LimitRow) []sample) func(view.Overview) []sample {
		return func(v view.Overview) (list []sample) {
			if v.Health == nil {
				return nil
			}
			for _, l := range v.Health.Limits {
				for _, s := range value(l) {
					list = append(list, sample{"window", l.Window, s.value})
				}
			}
			return list
		}
	}
	slots := func(value func(s view.SlotsRow) int) func(view.Overview) []sample {
		return func(v view.Overview) (list []sample) {
			if v.Health == nil {
				return nil
			}
			for _, s := range v.Health.Slots {
				if s.Name == "" {
					list = append(list, sample{"scope", s.Scope, float64(value(s))})
				}
			}
			return list
		}
	}
	return []family{
		{
			"symphony_rate_limit_used_ratio", gauge, "Part of the allowance of the codex account that is used, by window.",
			limits(func(l view.LimitRow) []sample { return number(l.Used / 100) }),
		},
		{
			"symphony_rate_limit_reset_timestamp_seconds", gauge, "When that window ends.",
			limits(func(l view.LimitRow) []sample { return optional(l.Resets, seconds) }),
		},
		{
			"symphony_slots", gauge, "Most runs at the same time, in the project or in all projects of the account.",
			slots(func(s view.SlotsRow) int { return s.Most }),
		},
		{
			"symphony_slots_used", gauge, "How many runs work.",
			slots(func(s view.SlotsRow) int { return s.Used }),
		},
	}
}

// last makes a sample of the last pass, if there is one.
func last(value func(p *project.LastPassRow) float64) func(view.Overview) []sample {
	return func(v view.Overview) []sample {
		if v.LastPass == nil {
			return nil
		}
		return number(value(v.LastPass))
	}
}

func ofPasses() []family {
	return []family{
		{
			"symphony_last_pass_timestamp_seconds", gauge, "When the last pass began, whatever started it.",
			last(func(p *project.LastPassRow) float64 { return seconds(p.StartedAt) }),
		},
		{
			"symphony_last_pass_duration_seconds", gauge, "How long the last pass took.",
			last(func(p *project.LastPassRow) float64 { return float64(p.DurationMS) / 1000 }),
		},
		{
			"symphony_last_pass_errors", gauge, "How many errors the last pass had.",
			last(func(p *project.LastPassRow) float64 { return float64(len(p.Errors)) }),
		},
	}
}

func ofIssues() []family {
	return []family{
		{
			"symphony_needs_operator", gauge, "Whether something waits for a person, as symphony status reports.",
			func(v view.Overview) []sample { return flag(v.Verdict().Level != view.LevelOK) },
		},
		{"symphony_issues", gauge, "Issues by the status that symphony ps shows.", issues},
		{
			"symphony_requests", gauge, "Requests of agents that wait for an operator.",
			func(v view.Overview) []sample { return number(float64(len(v.Requests))) },
		},
		{
			"symphony_paused", gauge, "Whether symphony pause is in effect.",
			func(v view.Overview) []sample { return flag(v.Paused) },
		},
		{
			"symphony_blocked", gauge, "Whether nothing starts because of a fault of the machine, the tracker or the account.",
			func(v view.Overview) []sample { return flag(v.Blocked != nil) },
		},
		{"symphony_host_runs", gauge, "The agents that work on each host.", ofHosts(func(h view.HostRow) float64 { return float64(h.Runs) })},
		{"symphony_host_usable", gauge, "Whether a host is neither lost nor blocked.", ofHosts(func(h view.HostRow) float64 {
			return oneIf(h.Usable())
		})},
	}
}

// ofHosts returns a sample for each host.
func ofHosts(value func(h view.HostRow) float64) func(view.Overview) []sample {
	return func(v view.Overview) (list []sample) {
		for _, h := range v.Hosts {
			list = append(list, sample{"host", h.Name, value(h)})
		}
		return list
	}
}

func ofUse() []family {
	return []family{
		{
			"symphony_input_tokens_total", counter, "Input tokens of all runs, cached ones included.",
			func(v view.Overview) []sample { return number(float64(v.Totals.Input)) },
		},
		{
			"symphony_cached_input_tokens_total", counter, "Input tokens of all runs that the model had cached.",
			func(v view.Overview) []sample { return number(float64(v.Totals.Cached)) },
		},
		{
			"symphony_output_tokens_total", counter, "Output tokens of all runs, those of reasoning included.",
			func(v view.Overview) []sample { return number(float64(v.Totals.Output)) },
		},
		{
			"symphony_reasoning_output_tokens_total", counter, "Output tokens of all runs that were reasoning.",
			func(v view.Overview) []sample { return number(float64(v.Totals.Reasoning)) },
		},
		{
			"symphony_run_seconds_total", counter, "Time that all runs have taken.",
			func(v view.Overview) []sample { return number(v.Totals.Seconds) },
		},
		{"symphony_budget_used_ratio", gauge, "Part of agent.budget_per_day that is used today.", func(v view.Overview) []sample {
			if v.Budget == nil {
				return nil
			}
			return number(v.Budget.Used / v.Budget.Most)
		}},
	}
}

// issues are the numbers of issues by their status, each issue once.
func issues(v view.Overview) (list []sample) {
	for _, status := range view.Statuses {
		count := v.Counts.Of(status)
		switch status {
		case view.StatusEnded:
			continue
		case view.StatusKept:
			count = len(v.Kept)
		case reconcile.StatusRunning:
			count -= v.Counts.NeedsAnswer
		default: // each issue that Counts has is counted once
		}
		list = append(list, sample{"status", string(status), float64(count)})
	}
	return list
}

// optional is a sample unless the value is nil.
func optional[T any](value *T, number func(T) float64) []sample {
	if value == nil {
		return nil
	}
	return []sample{{value: number(*value)}}
}

func number(n float64) []sample { return []sample{{value: n}} }

func flag(on bool) []sample { return number(oneIf(on)) }

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// seconds is a time as Prometheus has it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
