package workflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func fullIssue() reconcile.Issue {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.FixedZone("east", 3600))
	return reconcile.Issue{
		ID:          "id-1",
		Identifier:  "ABC-1",
		Title:       "Fix {{ issue.id }} & <b>",
		Description: new("Line one.\nLine two."),
		Priority:    new(2),
		State:       "Todo",
		BranchName:  new("ann/abc-1"),
		URL:         new("https://linear.app/x"),
		Labels:      []string{"bug", "ready"},
		BlockedBy: []reconcile.BlockerRef{
			{
				ID:         new("id-2"),
				Identifier: new("ABC-2"),
				State:      new("Done"),
			}, {Identifier: new("ABC-3")},
		},
		CreatedAt: &at,
		UpdatedAt: &at,
		Assignee:  &reconcile.Assignee{ID: "user-1"},
	}
}

func bareIssue() reconcile.Issue {
	return reconcile.Issue{ID: "id-1", Identifier: "ABC-1", Title: "T", State: "Todo"}
}

// A known value that is null renders as nothing, and an unknown name is an error wherever it
// is evaluated. fails is a part of the error.
func TestRender(t *testing.T) {
	bare := bareIssue()
	full := fullIssue()
	described := bareIssue()
	described.ProjectDescription = new("A shop.")
	tests := []struct {
		name, template string
		issue          reconcile.Issue
		attempt        int
		want, fails    string
	}{
		{
			name:  "fields",
			issue: full,
			template: "{{ issue.id }} {{ issue.identifier }} {{ issue.priority }} {{ issue.state }} {{ " +
				"issue.branch_name }} {{ issue.url }} {{ issue.assignee_id }}",
			want: "id-1 ABC-1 2 Todo ann/abc-1 https://linear.app/x user-1",
		},
		{
			name:     "description of the project",
			issue:    described,
			template: "{{ issue.project_description }}",
			want:     "A shop.",
		},
		{
			name:     "no description",
			issue:    bare,
			template: "[{{ issue.project_description }}]{% unless issue.project_description %}none{% endunless %}",
			want:     "[]none",
		},
		{
			name:     "no second rendering, no escaping",
			issue:    full,
			template: "{{ issue.title }}",
			want:     "Fix {{ issue.id }} & <b>",
		},
		{
			name:     "times",
			issue:    full,
			template: "{{ issue.created_at }} {{ issue.updated_at | date: '%Y' }}",
			want:     "2026-01-02T02:04:05.678Z 2026",
		},
		{
			name:  "lists",
			issue: full,
			template: "{{ issue.labels | join: ', ' }}|{{ issue.labels.size }}|{% if issue.labels " +
				"contains 'bug' %}yes{% endif %}",
			want: "bug, ready|2|yes",
		},
		{
			name:     "blockers",
			issue:    full,
			template: "{% for b in issue.blocked_by %}{{ b.identifier }}={{ b.state }};{% endfor %}",
			want:     "ABC-2=Done;ABC-3=;",
		},
		{
			name:     "empty list takes else",
			issue:    bare,
			template: "{% for b in issue.blocked_by %}x{% else %}none{% endfor %}",
			want:     "none",
		},
		{
			name:     "null is nothing",
			issue:    bare,
			template: "[{{ issue.description }}{{ issue.priority }}{{ issue.created_at }}{{ issue.assignee_id }}]",
			want:     "[]",
		},
		{
			name:     "null is false",
			issue:    bare,
			template: "{% if issue.description %}a{% else %}b{% endif %}",
			want:     "b",
		},
		{
			name:     "null equals nil and null",
			issue:    bare,
			template: "{% if issue.description == nil %}a{% endif %}{% if issue.url == null %}b{% endif %}",
			want:     "ab",
		},
		{
			name:     "null with default",
			issue:    bare,
			template: "{{ issue.description | default: 'none' }}",
			want:     "none",
		},
		{
			name:  "null in a blocker",
			issue: full,
			template: "{% for b in issue.blocked_by %}{% unless b.state %}{{ b.identifier }}{% " +
				"endunless %}{% endfor %}",
			want: "ABC-3",
		},
		{
			name:  "of a tracker",
			issue: bare,
			template: "[{{ issue.native_ref }}{% if issue.native_ref %}{{ issue.native_ref.number }}{% " +
				"endif %}]{% if issue.dispatchable %}yes{% endif %}",
			want: "[]yes",
		},
		{
			name:     "first attempt",
			issue:    bare,
			template: "{% if attempt %}again{% else %}first{% endif %}[{{ attempt }}]",
			want:     "first[]",
		},
		{
			name:     "later attempt",
			issue:    bare,
			attempt:  3,
			template: "{% if attempt > 2 %}again {{ attempt }}{% endif %}",
			want:     "again 3",
		},
		{
			name:     "trimmed",
			issue:    bare,
			template: "\n\n{% if attempt %}x{% endif %}\ntext\n{% if attempt %}x{% endif %}\n",
			want:     "text",
		},
		{
			name:     "default prompt",
			issue:    bare,
			template: " \n",
			want:     "You are working on the issue ABC-1: T",
		},
		{
			name:     "untaken branch",
			issue:    bare,
			template: "{% if attempt %}{{ issue.titel }}{% endif %}ok",
			want:     "ok",
		},

		{
			name:     "unknown variable",
			issue:    full,
			template: "{{ isue.title }}",
			fails:    "unknown variable isue; did you mean issue?",
		},
		{
			name:     "field without its issue",
			issue:    full,
			template: "{{ identifier }}",
			fails:    "unknown variable identifier; did you mean issue.identifier?",
		},
		{
			name:     "variable of another program",
			issue:    full,
			template: "{{ workspace.path }}",
			fails:    "unknown variable workspace; known are attempt, issue and null",
		},
		{
			name:     "unknown field",
			issue:    full,
			template: "{{ issue.titel }}",
			fails:    "unknown variable issue.titel",
		},
		{
			name:     "unknown in a loop",
			issue:    full,
			template: "{% for b in issue.blocked_by %}{{ b.titel }}{% endfor %}",
			fails:    "unknown variable b.titel",
		},
		{
			name:     "unknown filter",
			issue:    full,
			template: "{{ issue.title | shout }}",
			fails:    "unknown filter shout",
		},
		{
			name:     "blank",
			issue:    full,
			template: "{% if issue.title == blank %}x{% endif %}",
			fails:    "unknown variable blank",
		},
		{
			name:     "past the end",
			issue:    bare,
			template: "{{ issue.labels[0] }}",
			fails:    "undefined variable",
		},
		{
			name:     "filter that fails",
			issue:    full,
			template: "{{ 1 | divided_by: 0 }}",
			fails:    "division by zero",
		},
		{
			name:     "too long",
			issue:    full,
			template: "{% for i in (1..200000) %}0123456789{% endfor %}",
			fails:    "longer than 1048576 bytes",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The template starts two lines later, to check the line in the error.
			prompt := test.Must(ParsePrompt("\n\n"+tt.template, "WORKFLOW.md", 5))
			got, err := prompt.Render(tt.issue, tt.attempt)
			if tt.fails == "" {
				test.Equal(t, "error and text", []any{err, got}, []any{nil, tt.want})
				return
			}
			faults := Faults(err)
			if len(faults) != 1 || faults[0].Code != CodeTemplateRender ||
				!strings.Contains(err.Error(), tt.fails) ||
				got != "" {
				t.Fatalf("got %q, %v; want an error with %q", got, err, tt.fails)
			}
			if !strings.Contains(tt.name, "too long") &&
				!strings.HasPrefix(faults[0].Message, "WORKFLOW.md:7: ") {
				t.Errorf("the line is missing: %s", faults[0].Message)
			}
		})
	}
}

// Valid templates pass both Check and Render, and what Check reports fails in Render.
func TestCheckAgreesWithRender(t *testing.T) {
	good := []string{
		"{% if issue.native_ref %}{{ issue.native_ref.number }}{% endif %}{{ issue.dispatchable }}",
		"{% for b in issue.blocked_by reversed limit: 1 offset: 0 %}{{ b.state }}{{ forloop.last }}{% endfor %}",
		"{% for i in (1..issue.labels.size) %}{{ i }}{% endfor %}",
		"{% assign open = issue.blocked_by | where: 'state', 'Done' | map: 'identifier' | join: ', ' %}{{ open }}",
		"{% capture x %}{{ issue.title }}{% endcapture %}{{ x | upcase | truncate: 5, '…' }}",
		"{% case issue.state %}{% when 'Todo' or 'Doing', 'Review' %}a{% else %}b{% endcase %}",
		"{% if issue.priority and issue.priority <= 2 or issue.labels contains \"a\\\"b\" %}x{% endif %}",
		"{{ issue.labels | first }}{{ issue.labels.first }}{{ issue.labels[0] }}{{ " +
			"issue.blocked_by[0].state }}{{ issue['title'] }}",
		"{% for pair in issue %}{{ pair[0] }}{% endfor %}",
		"{% for l in issue.labels %}{% assign last_label = l %}{% cycle 'a', 'b' %}{% if forloop.first " +
			"%}{% continue %}{% endif %}{% break %}{% endfor %}{{ last_label }}",
		"{% comment %}{{ nothing }}{% endcomment %}{% raw %}{{ nothing }}{% endraw %}",
		"{%- if issue.title != nil -%} a {%- else -%} b {%- endif -%}",
		"{{- issue.title | append: ' is not (yet) + done' -}}{% if issue.title == 'a = b && c' %}{% endif %}",
		"{{ issue.created_at | date: \"%Y\" | default: '-' }}{{ -1 | abs }}{{ 1.5 | plus: 1 }}{{ true }}{{ nil }}",
		"{{ issue.title | default: 'x', allow_false: true }}{{ issue.labels | sort | uniq | reverse | size }}",
		"{% tablerow l in issue.labels cols: 2 %}{{ l }}{% endtablerow %}",
	}
	for _, template := range good {
		prompt, err := ParsePrompt(template, "WORKFLOW.md", 1)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		test.Equal(t, template+": number of problems", len(prompt.Check()), 0)
		if _, err := prompt.Render(fullIssue(), 1); err != nil {
			t.Errorf("%s: Render returns %v", template, err)
		}
	}
	bad := map[string]string{
		"{% if issue.titel %}x{% endif %}":                  "unknown variable issue.titel",
		"{% unless issue.titel %}x{% endunless %}":          "unknown variable issue.titel",
		"{% for b in issue.blocks %}x{% endfor %}":          "unknown variable issue.blocks",
		"{% case isue.state %}{% when 'x' %}y{% endcase %}": "unknown variable isue",
		"{% assign a = isue %}":                             "unknown variable isue",
		"{{ issue['titel'] }}":                              "unknown variable issue.titel",
		"{% assign a = issue.title | shout %}":              "unknown filter shout",
		"{{ issue.titel | default: 'x' }}":                  "unknown variable issue.titel",
		"{% if attempt %}{% else %}{{ isue }}{% endif %}":   "isue",
		"{% if issue.title and isue %}{% endif %}":          "isue",
		"{% for b in issue.blocked_by %}{% for c in issue.labels %}{{ b.stat }}{% endfor %}{% endfor %}": "b.stat",
		"{% for b in issue.blocked_by limit: lots %}{% endfor %}":                                        "lots",
		"{{ issue.title | truncate: size }}":                                                             "variable size",
		"{{ issue.title | replace: 'a', isue.b }}":                                                       "isue",
		"{{ issue.title | default: isue, allow_false: isue }}":                                           "isue",
		"{{ issue.labels[isue] }}":                                                                       "isue",
		"{{ (1..isue) }}":                                                                                "isue",
		"{{ forloop.index }}":                                                                            "forloop",
		"{% assign x = issue.blocked_by | sort: 'stat' | first %}{{ x.identifyer }}":                     "x.identifyer",
		"{{ IssueBody }}":                                                                                "IssueBody",
		"{{ issue.blocks }}":                                                                             "issue.blocks; known are assignee_id, ",
		"{{ issue.Title }}":                                                                              "issue.Title; did you mean issue.title?",
	}
	for template, name := range bad {
		prompt, err := ParsePrompt(template, "WORKFLOW.md", 1)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		test.Contains(t, template+": problems", fmt.Sprint(prompt.Check()), name)
		if _, err := prompt.Render(fullIssue(), 0); err == nil {
			t.Errorf("%s: rendered", template)
		}
	}
}

// Variables that a template assigns do not exist in the next rendering.
func TestRenderTwice(t *testing.T) {
	prompt := test.Must(
		ParsePrompt(
			"{% assign issue = 1 %}{% assign attempt = 2 %}{{ issue }}{{ attempt }}",
			"WORKFLOW.md",
			1,
		),
	)
	for range 2 {
		test.Equal(t, "rendered", test.Must(prompt.Render(bareIssue(), 0)), "12")
	}
}

// A tag of another template language is an error of parsing, which names the tag.
func TestOtherTags(t *testing.T) {
	for _, body := range []string{
		"{% if attempt %}a{% elif issue.url %}b{% endif %}",
		"{% set x = 1 %}",
		"{% include 'part.md' %}",
		"{% if issue.url && attempt %}a{% endif %}",
		"{{ issue.title if attempt else 'x' }}",
		"{{#if issue.url}}a{{/if}}",
	} {
		_, err := ParsePrompt("\n"+body, "WORKFLOW.md", 1)
		if err == nil {
			t.Errorf("%s: no error", body)
			continue
		}
		test.Contains(t, "the message about "+body, Faults(err)[0].Message, "WORKFLOW.md:2: ")
	}
}

func FuzzPrompt(f *testing.F) {
	for _, seed := range []string{
		"{{ issue.title | truncate: 3 }}",
		"{% for b in issue.blocked_by %}{{ b.x }}{% endfor %}",
		"{{ ¬ }}",
		"{% if a['b'].c[1..2] contains 'd' %}{% endif %}",
		"{{ 'a",
		"{% raw %}{{",
		"{% cycle 1 %}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if strings.Contains(body, "..") {
			t.Skip("ranges may be long: only the worker's timeout bounds them")
		}
		prompt, err := ParsePrompt(body, "WORKFLOW.md", 3)
		if err != nil {
			test.Equal(t, "code", Faults(err)[0].Code, CodeTemplateParse)
			return
		}
		last := 3 + strings.Count(body, "\n")
		for _, p := range prompt.Check() {
			if p.Line < 3 || strings.TrimSpace(body) != "" && p.Line > last {
				t.Fatalf("line %d of %d: %s", p.Line, last, p)
			}
		}
		if _, err := prompt.Render(fullIssue(), 1); err != nil && Faults(err)[0].Code != CodeTemplateRender {
			t.Fatal(err)
		}
	})
}
