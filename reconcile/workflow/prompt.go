package workflow

import (
	"errors"
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
	counted, err := prepareTemplate(body, file, firstLine, &line)
	if err != nil {
		return nil, err
	}
	line = firstLine
	template, bad := newEngine().ParseTemplateLocation([]byte(counted), file, firstLine)
	if bad != nil {
		return nil, fault(
			CodeTemplateParse,
			file,
			max(bad.LineNumber(), firstLine),
			liquidMessage(bad),
			parseHint(bad),
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

// prepareTemplate returns a template with a tag in each loop that counts its passes, and with
// our own capture. It refuses faults on which the library would be silent. While it parses a
// tag, *line is the line of the tag.
func prepareTemplate(body, file string, firstLine int, line *int) (string, error) {
	open := parser.Token{} // the comment or raw text that the token is in
	var prepared strings.Builder
	for _, token := range parser.Scan(body, parser.SourceLoc{LineNo: firstLine}, nil) {
		isTag := token.Type == parser.TagTokenType
		if open.Name != "" {
			prepared.WriteString(token.Source)
			if isTag && token.Name == "end"+open.Name {
				open = parser.Token{}
			}
			continue
		}
		prepared.WriteString(preparedToken(token))
		switch {
		case isTag && (token.Name == "comment" || token.Name == "raw"):
			open = token
		case isTag && token.Name == "capture" && len(strings.Fields(token.Args)) != 1:
			return "", fault(
				CodeTemplateParse,
				file,
				token.SourceLoc.LineNo,
				"{% capture %} needs one name",
				templateHint,
			)
		case token.Type != parser.TextTokenType:
			*line = token.SourceLoc.LineNo
			// only for the panic: it also fails for tags that are no expressions
			_, _ = expressions.Parse(token.Args)
		}
	}
	if open.Name != "" { // the library would silently omit the rest
		return "", fault(
			CodeTemplateParse,
			file,
			open.SourceLoc.LineNo,
			fmt.Sprintf("{%% %s %%} is never closed", open.Name),
			fmt.Sprintf("add {%% end%s %%}", open.Name),
		)
	}
	return prepared.String(), nil
}

// preparedToken is the source of a token outside of comments and raw text, with the tags of
// symphony.
func preparedToken(token parser.Token) string {
	if token.Type != parser.TagTokenType {
		return token.Source
	}
	switch token.Name {
	case "capture", "endcapture":
		return strings.Replace(token.Source, "capture", captureTag, 1)
	case "for", "tablerow":
		return token.Source + stepAfter(token)
	}
	return token.Source
}

// maxSteps bounds the passes through loops of a rendering. A million take less than a second.
const maxSteps = 1_000_000

const (
	stepTag = "symphony_step"  // put at the beginning of each loop
	stepVar = "symphony_steps" // a *int in the variables
)

// stepAfter returns the tag that counts the passes through the loop that a token begins. It
// trims blanks as the token does.
func stepAfter(loop parser.Token) string {
	if strings.HasSuffix(loop.Source, "-%}") {
		return "{%- " + stepTag + " -%}"
	}
	return "{% " + stepTag + " %}"
}

// countStep renders the tag.
func countStep(c render.Context) (string, error) {
	steps, is := c.Get(stepVar).(*int)
	if !is {
		return "", errors.New("a template can't set " + stepVar)
	}
	*steps++
	if *steps > maxSteps {
		return "", fmt.Errorf("the loops of the template take more than %d steps", maxSteps)
	}
	return "", nil
}

const templateHint = "the prompt is a Liquid template: check {{ … }} and {% … %}, or put {% raw %} " +
	"around text that is none"

var liquidPrefix = text.Pattern(`^Liquid error.*?\): `)

var (
	openBlock = text.Pattern(`unterminated "(\w+)" block`)
	onlyEnd   = text.Pattern(`\bend(\w+) not inside`)
)

// parseHint says what to do about an error of the library.
func parseHint(err liquid.SourceError) string {
	if open := openBlock().FindStringSubmatch(err.Error()); open != nil {
		return "write {% end" + strings.TrimPrefix(open[1], "symphony_") + " %} behind it"
	}
	if end := onlyEnd().FindStringSubmatch(err.Error()); end != nil {
		return "remove it, or write {% " + strings.TrimPrefix(end[1], "symphony_") + " … %} before it"
	}
	return templateHint
}

// liquidMessage returns the library's message without the library's name and the location.
func liquidMessage(err liquid.SourceError) string {
	text := err.Error()
	if cause := err.Cause(); cause != nil {
		text = cause.Error()
	}
	text = strings.ReplaceAll(text, captureTag, "capture")
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
			err = reconcile.NewError(CodeTemplateRender, fmt.Sprintf("%s: %v", p.file, r), renderHint(r))
		}
	}()
	var rendered boundedText
	vars := bindings(issue, attempt)
	vars[stepVar] = new(int)
	bad := p.template.FRender(&rendered, vars)
	if bad != nil {
		return "", fault(
			CodeTemplateRender,
			p.file,
			max(bad.LineNumber(), 1),
			p.explain(bad),
			renderHint(bad),
		)
	}
	text = strings.TrimSpace(rendered.String())
	if len(text) > MaxPrompt {
		return "", reconcile.NewError(
			CodeTemplateRender,
			fmt.Sprintf("%s: the prompt is longer than %d bytes", p.file, MaxPrompt),
			shortenHint,
		)
	}
	return text, nil
}

const (
	checkHint   = "run symphony check, which names every unknown variable and filter"
	shortenHint = "shorten it, for instance with {{ issue.description | truncate: 20000 }}"
)

// renderHint returns the next step after an error of a rendering, or a panic.
func renderHint(failed any) string {
	for {
		switch known := failed.(type) {
		case errTooLarge:
			return shortenHint
		case expressions.FilterError:
			failed = known.Err
		case liquid.SourceError:
			failed = known.Cause()
		default:
			return checkHint
		}
	}
}

// Check lists unknown variables, fields and filters, and tags that are not closed, even in
// branches that are never taken, sorted by line.
func (p *Prompt) Check() []Warning { return p.problems }

const sameText = "the prompt names nothing of the issue, so that every agent gets the same text: " +
	"write {{ issue.identifier }}, {{ issue.title }} and {{ issue.description }}"

const emptyText = "the prompt is empty: agents get only the title and the description of the issue, and nobody " +
	"tells them to commit and to hand over"

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
