package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/osteele/liquid"
	"github.com/osteele/liquid/expressions"
	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/parser"
	"github.com/osteele/liquid/render"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// MaxPrompt bounds a rendered prompt, in bytes: agents accept no longer text.
const MaxPrompt = 1 << 20

// defaultPrompt is used if the body of the workflow is empty (specification 5.4).
const defaultPrompt = `You are working on the issue {{ issue.identifier }}: {{ issue.title }}
{% if issue.description %}
{{ issue.description }}
{% endif %}`

// Prompt is the parsed template of a workflow (specification 5.4 and 12).
type Prompt struct {
	file     string
	template *liquid.Template
	problems []Warning // see Check
	same     []Warning // see Same

	// NamesHandOver: it names the tool hand_over, with which agents hand their issues over.
	NamesHandOver bool
}

// ParsePrompt parses a template that starts on line firstLine of the file. An empty body is
// the default prompt. The error is a *reconcile.Error with template_parse_error.
func ParsePrompt(body, file string, firstLine int) (p *Prompt, err error) {
	isEmpty := strings.TrimSpace(body) == ""
	if isEmpty {
		body = defaultPrompt
	}
	line := firstLine
	// The library panics on letters and numbers that its scanner cannot read. The tags are
	// parsed separately to find the line.
	defer func() {
		if r := recover(); r != nil {
			p = nil
			err = fault(CodeTemplateParse, file, line, fmt.Sprint(r), templateHint)
		}
	}()
	if err := checkTags(body, file, firstLine, &line); err != nil {
		return nil, err
	}
	line = firstLine
	template, bad := newEngine().ParseTemplateLocation([]byte(body), file, firstLine)
	if bad != nil {
		return nil, fault(
			CodeTemplateParse,
			file,
			max(bad.LineNumber(), firstLine),
			liquidMessage(bad),
			templateHint,
		)
	}
	c := &checker{
		file:    file,
		filters: dictionary{},
		vars:    variables(),
	}
	filters.AddStandardFilters(c.filters)
	c.nodes([]render.Node{template.GetRoot()})
	slices.SortStableFunc(c.problems, func(a, b Warning) int { return a.Line - b.Line })
	p = &Prompt{file: file, template: template, problems: c.problems}
	p.NamesHandOver = strings.Contains(body, "hand_over")
	if !c.readsIssue && len(c.problems) == 0 {
		p.same = []Warning{{File: file, Line: firstLine, Message: sameText}}
	}
	if isEmpty {
		p.same = []Warning{{File: file, Line: firstLine, Message: emptyText}}
	}
	return p, nil
}

// checkTags refuses a comment or a raw text without an end, after which the library would silently omit
// the rest. While it looks at a tag, *line is the line of the tag.
func checkTags(body, file string, firstLine int, line *int) error {
	open := parser.Token{} // the comment or raw text that the token is in
	for _, token := range parser.Scan(body, parser.SourceLoc{LineNo: firstLine}, nil) {
		isTag := token.Type == parser.TagTokenType
		switch {
		case open.Name != "":
			if isTag && token.Name == "end"+open.Name {
				open = parser.Token{}
			}
		case isTag && (token.Name == "comment" || token.Name == "raw"):
			open = token
		case token.Type != parser.TextTokenType:
			*line = token.SourceLoc.LineNo
			// only for the panic: it also fails for tags that are no expressions
			_, _ = expressions.Parse(token.Args)
		}
	}
	if open.Name == "" {
		return nil
	}
	return fault(
		CodeTemplateParse,
		file,
		open.SourceLoc.LineNo,
		fmt.Sprintf("{%% %s %%} is never closed", open.Name),
		fmt.Sprintf("add {%% end%s %%}", open.Name),
	)
}

// newEngine returns an engine whose templates read no files, and know only the variables that exist.
func newEngine() *liquid.Engine {
	engine := liquid.NewEngine()
	engine.StrictVariables()
	engine.UnregisterTag("include")
	engine.UnregisterTag("render")
	return engine
}

const templateHint = "check {{ … }} and {% … %}, or put {% raw %} around text that is no template"

var liquidPrefix = text.Pattern(`^Liquid error.*?\): `)

// liquidMessage returns the library's message without the library's name and the location.
func liquidMessage(err liquid.SourceError) string {
	text := err.Error()
	if cause := err.Cause(); cause != nil {
		text = cause.Error()
	}
	text = strings.ReplaceAll(text, `"%loop `, `"for `)
	text = strings.TrimSuffix(liquidPrefix().ReplaceAllString(text, ""), " in "+err.Path())
	// For an end tag without a start tag the library's message is incomplete.
	if name, ok := strings.CutSuffix(text, " not inside "); ok {
		text = name + " without its start tag"
	}
	return text
}

// Render returns the prompt of a run's first turn. In the template attempt 0, the first run,
// is nil. The error is a *reconcile.Error with template_render_error.
func (p *Prompt) Render(issue reconcile.Issue, attempt int) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text = ""
			err = reconcile.NewError(CodeTemplateRender, fmt.Sprintf("%s: %v", p.file, r), checkHint)
		}
	}()
	rendered, bad := p.template.Render(bindings(issue, attempt))
	if bad != nil {
		return "", fault(
			CodeTemplateRender,
			p.file,
			max(bad.LineNumber(), 1),
			p.explain(bad),
			checkHint,
		)
	}
	text = strings.TrimSpace(string(rendered))
	if len(text) > MaxPrompt {
		return "", reconcile.NewError(
			CodeTemplateRender,
			fmt.Sprintf("%s: the prompt is longer than %d bytes", p.file, MaxPrompt),
			"shorten it, for instance with {{ issue.description | truncate: 20000 }}",
		)
	}
	return text, nil
}

const checkHint = "run symphony check, which names every unknown variable and filter"

// Check lists unknown variables, fields and filters, and tags that are not closed, even in
// branches that are never taken, sorted by line.
func (p *Prompt) Check() []Warning { return p.problems }

const (
	sameText  = "the prompt names nothing of the issue: write {{ issue.title }} and {{ issue.description }}"
	emptyText = "the prompt is empty: agents get only the title and the description of the issue"
)

// Same is a warning if the prompt is the same for every issue, unless Check says why: a name is
// misspelled. It also warns about an empty prompt.
func (p *Prompt) Same() []Warning { return p.same }

// explain returns a message that names the variable, which the library's message does not.
func (p *Prompt) explain(err liquid.SourceError) string {
	for _, problem := range p.problems {
		if problem.Line == err.LineNumber() {
			return problem.Message
		}
	}
	return liquidMessage(err)
}

// bindings returns the variables of a template (specification 4.1.1 and 5.4). All keys exist,
// and unknown values are nil. assignee_id is not in the specification, but in symphony's first
// implementation. Nor is project_description.
func bindings(issue reconcile.Issue, attempt int) map[string]any {
	blockers := text.Map(issue.BlockedBy, func(b reconcile.BlockerRef) any {
		return map[string]any{
			"id":         orNil(b.ID),
			"identifier": orNil(b.Identifier),
			"state":      orNil(b.State),
		}
	})
	vars := map[string]any{
		"id":                  issue.ID,
		"identifier":          issue.Identifier,
		"title":               issue.Title,
		"description":         orNil(issue.Description),
		"priority":            orNil(issue.Priority),
		"state":               issue.State,
		"branch_name":         orNil(issue.BranchName),
		"url":                 orNil(issue.URL),
		"labels":              text.Map(issue.Labels, func(l string) any { return l }),
		"blocked_by":          blockers,
		"created_at":          timeOrNil(issue.CreatedAt),
		"updated_at":          timeOrNil(issue.UpdatedAt),
		"assignee_id":         nil,
		"native_ref":          nil,
		"project_description": orNil(issue.ProjectDescription),
		// A run exists only for a dispatched issue.
		"dispatchable": true,
	}
	if issue.NativeRef != nil {
		vars["native_ref"] = issue.NativeRef
	}
	if issue.Assignee != nil {
		vars["assignee_id"] = issue.Assignee.ID
	}
	// Liquid has two names for nil; the library knows only "nil".
	root := map[string]any{"issue": vars, "attempt": nil, "null": nil}
	if attempt > 0 {
		root["attempt"] = attempt
	}
	return root
}

func orNil[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func timeOrNil(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
