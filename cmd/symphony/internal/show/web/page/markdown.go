package page

import (
	"html"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	toHTML "github.com/yuin/goldmark/renderer/html"
	source "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

var (
	mdAddress = text.Pattern("^[ (]?(https?://[^\\s<>\"'`]*[^\\s<>\"'`.,:;!?)\\]*_])")
	mdTable   = text.Pattern(`^\|.*\n\|? *:?--`)
	mdBlock   = text.Pattern(`^(#{1,6}|>|[-*+]|\d{1,9}[.)])[ \t]+`)           // begins a heading, a quote or a list
	mdDeep    = text.Pattern(`(?m)^([ \t]*(>|([-*+]|\d{1,9}[.)])[ \t])){20}`) // lists and quotes
)

// commonMark parses CommonMark without HTML, which so stays text, and without references,
// because each repeats an address.
var commonMark = sync.OnceValue(func() goldmark.Markdown { return newMarkdown(parser.DefaultBlockParsers()) })

// lineMark parses a line of CommonMark, which is always a paragraph.
var lineMark = sync.OnceValue(func() goldmark.Markdown {
	return newMarkdown([]util.PrioritizedValue{util.Prioritized(parser.NewParagraphParser(), 1000)})
})

func newMarkdown(blocks []util.PrioritizedValue) goldmark.Markdown {
	known := func(p util.PrioritizedValue) bool {
		return p.Value != parser.NewHTMLBlockParser() && p.Value != parser.NewRawHTMLParser()
	}
	return goldmark.New(goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(text.Filter(blocks, known)...),
		parser.WithInlineParsers(
			append(text.Filter(parser.DefaultInlineParsers(), known), util.Prioritized(links{}, 999))...),
	)), goldmark.WithRendererOptions(toHTML.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(links{}, 1))))
}

// markdown draws an agent's text, which is visible already. No image is loaded, and a link
// shows to which machine it leads.
func markdown(s string) template.HTML {
	// A text that would cost the library the square of its length stays plain: deep lists, and
	// signs that nothing closes.
	emphasis := strings.Count(s, "*") + strings.Count(s, "_")
	if mdDeep().MatchString(s) || strings.Count(s, "[") > 400 || strings.Count(s, "\\`") > 20 ||
		emphasis > 4000 {
		return template.HTML("<pre>" + html.EscapeString(s) + "</pre>") //nolint:gosec // escaped text
	}
	var out strings.Builder
	said := []byte(s)
	parts := commonMark().Parser().Parse(source.NewReader(said))
	var tables []*ast.Paragraph
	_ = ast.Walk(parts, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Paragraph:
			if entering && n.Lines().Len() > 1 && mdTable().Match(n.Lines().Value(said)) {
				tables = append(tables, n)
			}
		case *ast.Heading:
			n.Level = 3 // below the headings of the page
		case *ast.FencedCodeBlock:
			n.Info = nil // it would name classes
		}
		return ast.WalkContinue, nil
	})
	for _, table := range tables { // are shown as they were written, in letters of equal width
		code := ast.NewCodeBlock()
		code.SetLines(table.Lines())
		table.Parent().ReplaceChild(table.Parent(), table, code)
	}
	_ = commonMark().Renderer().Render(&out, said, parts) // only out could fail
	return template.HTML(
		text.VisibleLines(out.String()),
	) //nolint:gosec // tags of ours, and escaped text, also of &#x202e;
}

// longestLine bounds a line of Markdown, in bytes.
const longestLine = 400

// markdownLine draws an agent's words in a single line: emphasis, code and links. A sign that
// would begin a heading, a quote or a list is left out.
func markdownLine(s string) template.HTML {
	s = text.Within(text.VisibleLines(text.OneLine(s)), longestLine)
	s = mdBlock().ReplaceAllString(s, "")
	var out strings.Builder
	_ = lineMark().Convert([]byte(s), &out) // only out could fail
	line := strings.TrimSuffix(strings.TrimPrefix(out.String(), "<p>"), "</p>\n")
	return template.HTML(text.VisibleLines(line)) //nolint:gosec // tags of ours, and escaped text
}

// links draws links, and finds addresses in the text.
type links struct{}

// RegisterFuncs replaces the functions that draw links and images.
func (links) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	for _, kind := range []ast.NodeKind{ast.KindLink, ast.KindImage, ast.KindAutoLink} {
		r.Register(kind, drawLink)
	}
}

// drawLink draws a link of the web with the name of its site, because the words are the
// agent's, and any other address as text.
func drawLink(w util.BufWriter, all []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	var address, words string
	switch n := n.(type) {
	case *ast.Link:
		address = string(util.URLEscape(n.Destination, true))
	case *ast.Image:
		address = string(util.URLEscape(n.Destination, true))
	case *ast.AutoLink:
		address = string(util.URLEscape(n.URL(all), false))
		words = string(n.Label(all))
	}
	begin := ""
	end := ""
	place := " (<code>" + html.EscapeString(address) + "</code>)"
	site, err := url.Parse(address)
	if err == nil && (ofWeb(address) != "" || site.Scheme == "mailto") && n.Parent().Kind() != ast.KindLink {
		begin = `<a class="outside" rel="noreferrer noopener nofollow" href="` + html.EscapeString(
			address,
		) + `">`
		end = "</a>"
		place = ` <span class="soft">(` + html.EscapeString(site.Host+site.Opaque) + ")</span>"
	}
	switch {
	case entering:
		end = begin + html.EscapeString(words)
	case words == "":
		end = place + end
	}
	_, err = w.WriteString(end)
	return ast.WalkContinue, err
}

// Trigger returns the signs before an address: a blank stands for the beginning of a line,
// too.
func (links) Trigger() []byte { return []byte(" (") }

// Parse finds an address that no sign of Markdown marks.
func (links) Parse(parent ast.Node, block source.Reader, pc parser.Context) ast.Node {
	if pc.IsInLinkLabel() {
		return nil
	}
	line, all := block.PeekLine()
	at := mdAddress().FindSubmatchIndex(line)
	if at == nil {
		return nil
	}
	if at[2] > 0 {
		ast.MergeOrAppendTextSegment(parent, all.WithStop(all.Start+at[2]))
	}
	block.Advance(at[1])
	return ast.NewAutoLink(
		ast.AutoLinkURL,
		ast.NewTextSegment(source.NewSegment(all.Start+at[2], all.Start+at[3])),
	)
}
