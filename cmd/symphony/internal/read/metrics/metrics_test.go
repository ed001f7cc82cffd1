package metrics

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// Prometheus reads the metrics, and its linter finds nothing to complain about.
func TestText(t *testing.T) {
	at := time.Date(2026, 11, 22, 3, 4, 5, 250e6, time.UTC)
	shop := view.Overview{
		Schedule: true,
		Paused:   true,
		Counts:   reconcile.Counts{Running: 1, NeedsAnswer: 1, Held: 2, Skipped: 4},
		Budget:   &view.BudgetRow{Most: 20, Used: 5},
		LastPass: &wiring.LastPassRow{
			StartedAt:  at,
			DurationMS: 1500,
			Errors:     []reconcile.Error{{Code: "network"}},
		},
		Requests: []view.RequestRow{{}},
		Totals: view.Totals{
			Tokens:  view.Tokens{Input: 1 << 40, Cached: 3, Output: 2, Reasoning: 1},
			Seconds: 0.5,
		},
		Project: view.ProjectRow{
			Name:         "web\"shop\\",
			WorkflowPath: "/home/ann/web\nshop\xff/WORKFLOW.md",
		},
	}
	shop.Health = &view.Health{
		Schedule: view.ScheduleHealth{LastAt: &at, Usual: new(60.0), Grace: 180},
		Limits: []view.LimitRow{{
			Window: "primary",
			Used:   12.5,
		}, {
			Window: "secondary",
			Used:   3,
			Resets: &at,
		}},
		Slots: []view.SlotsRow{{
			Scope: "project",
			Used:  1,
			Most:  10,
		}, {
			Scope: "state",
			Name:  "todo",
		}, {
			Scope: "account",
			Used:  3,
			Most:  4,
		}},
	}
	broken := view.Overview{
		Error:   &reconcile.Error{Code: "state_corrupt"},
		Project: view.ProjectRow{Name: "old"},
	}
	fresh := view.Overview{Project: view.ProjectRow{Name: "new"}}
	all := []view.Overview{shop, broken, fresh}
	for i := range all {
		all[i].SetObstacles(nil)
	}
	text := Text(all, "v1.2.3")

	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v\n%s", problems, err, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	read := test.Must(parser.TextToMetricFamilies(bytes.NewReader(text)))
	for name, want := range map[string]float64{
		"symphony_project_readable":                             1,
		"symphony_last_pass_timestamp_seconds":                  1795316645.25,
		"symphony_last_pass_duration_seconds":                   1.5,
		"symphony_last_pass_errors":                             1,
		"symphony_needs_operator":                               1,
		"symphony_issues held":                                  2,
		"symphony_issues needs_answer":                          1,
		"symphony_issues skipped":                               4,
		"symphony_issues running":                               0,
		"symphony_requests":                                     1,
		"symphony_paused":                                       1,
		"symphony_blocked":                                      0,
		"symphony_input_tokens_total":                           1 << 40,
		"symphony_run_seconds_total":                            0.5,
		"symphony_budget_used_ratio":                            0.25,
		"symphony_build_info v1.2.3":                            1,
		"symphony_schedule_last_pass_timestamp_seconds":         1795316645.25,
		"symphony_schedule_interval_seconds":                    60,
		"symphony_schedule_grace_seconds":                       180,
		"symphony_rate_limit_used_ratio primary":                0.125,
		"symphony_rate_limit_reset_timestamp_seconds primary":   -1,
		"symphony_rate_limit_reset_timestamp_seconds secondary": 1795316645.25,
		"symphony_slots account":                                4,
		"symphony_slots_used project":                           1,
		"symphony_slots state":                                  -1,
	} {
		name, of, _ := strings.Cut(name, " ")
		test.Equal(t, name+" "+of, value(read[name], shop.Project.Name, of), want)
	}
	docs := string(test.Must(os.ReadFile("../../../../../docs/monitoring.md")))
	for _, f := range families {
		test.Contains(t, "docs/monitoring.md", docs, "`"+f.name+"`")
		got := read[f.name]
		if unread := value(got, "old", ""); f.name == readable && unread != 0 ||
			f.name != readable && unread >= 0 {
			t.Errorf("%s of a project that can't be read: %v", f.name, unread)
		}
		for _, m := range got.GetMetric() {
			if labels := m.GetLabel(); len(labels) > 3 || labels[0].GetName() != "project" ||
				labels[1].GetName() != "workflow" {
				t.Errorf("%s has the labels %v", f.name, labels)
			}
		}
	}
	path := read[readable].GetMetric()[0].GetLabel()[1].GetValue()
	test.Equal(t, "the path", path, "/home/ann/web\nshop?/WORKFLOW.md")
}

// value is that of a project's sample, of which no other label has another value; -1 if there
// is none.
func value(f *dto.MetricFamily, project, of string) float64 {
	for _, m := range f.GetMetric() {
		labels := m.GetLabel()
		if labels[0].GetValue() != project || len(labels) > 2 && of != "" && labels[2].GetValue() != of {
			continue
		}
		return m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return -1
}
