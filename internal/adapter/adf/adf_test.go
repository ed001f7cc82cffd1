package adf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	gmtext "github.com/yuin/goldmark/text"

	"github.com/symphony-cron/symphony/internal/test"
)

// Markdown that keeps its look on the way to Jira and back.
var kept = []string{
	"One line.",
	"Two\nlines.",
	"One paragraph.\n\nAnother one.",
	"# Title\n\n###### Deep\n\nText",
	"**bold**, *italic*, `code`, [a link](https://example.com/a?b=c)",
	"***both***",
	"<https://example.com/page>",
	"- one\n- two\n  - deep\n  - deeper\n- three",
	"1. one\n2. two",
	"7. seven\n8. eight",
	"- one\n\n  ```go\n  x := 1\n\n  y := 2\n  ```\n- two",
	"```go\nfunc main() {}\n```",
	"````\n```\n````",
	"```\n```",
	"> quoted\n> again\n>\n> and more",
	"---",
	"a\n\n---\n\nb",
	"snake_case, 2 * 3, [x], a < b, R&D, C:\\temp, # not a title",
	"``a ` b``",
	"[`code`](https://example.com)",
	"Umlauts: äöü, 漢字, 🎉",
}

func TestKept(t *testing.T) {
	for _, markdown := range kept {
		doc := Document(markdown)
		sound(t, doc)
		test.Equal(t, "Markdown", doc.Markdown(), markdown)
	}
}

// Markdown that Jira can't show as it is.
func TestChanged(t *testing.T) {
	for markdown, want := range map[string]string{
		"a  \nb":                            "a\nb",
		"a\r\nb":                            "a\nb",
		"* one\n* two":                      "- one\n- two",
		"_em_ and __strong__":               "*em* and **strong**",
		"![picture](https://x.org/a.png)":   "[picture](https://x.org/a.png)",
		"[text](relative/path)":             "text (relative/path)",
		"[text](javascript:alert(1))":       "text (javascript:alert(1))",
		"| a | b |\n|---|---|\n| 1 | 2 |":   "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```",
		"- # title in a list":               "- **title in a list**",
		"- > quoted in a list":              "- quoted in a list",
		"> # title":                         "> **title**",
		"> > twice":                         "> twice",
		"<div>\nraw\n</div>":                "\\<div>\nraw\n\\</div>",
		"&amp; &copy; \\&amp;":              "& © &amp;",
		"\\*stars\\*, \\`ticks\\`, \\\\<b>": "*stars*, \\`ticks\\`, \\\\\\<b>",
		"[a](https://x.org/b_(c))":          "[a](https://x.org/b_%28c%29)",
		"    indented":                      "```\nindented\n```",
		"**`code`**":                        "`code`",
		"a\x00b\x1b":                        "a\uFFFDb\uFFFD",
		"@kim please":                       "@kim please",
		"See [1][a].\n\n[A]: https://x.org": "See [1](https://x.org).\n\n[A]: https://x.org",
		"Sources\n\n[1]: https://x.org":     "Sources\n\n[1]: https://x.org",
		"[1]: <https://x.org>\n  \"a title\"\nand text":        "[1]: \\<https://x.org>\n\"a title\"\n\nand text",
		"[a]\n\n[a]: https://x.org\n[a]: https://y.org":        "[a](https://x.org)\n\n[a]: https://x.org\n\n[a]: https://y.org",
		"![a]\n\n- [a]: https://x.org\n\n> [b]: https://y.org": "[a](https://x.org)\n\n- [a]: https://x.org\n\n> [b]: https://y.org",
		"": "",
	} {
		doc := Document(markdown)
		sound(t, doc)
		test.Equal(t, fmt.Sprintf("%q", markdown), doc.Markdown(), want)
	}
}

// What people write in Jira.
func TestMarkdown(t *testing.T) {
	for document, want := range map[string]string{
		`null`:      "",
		`"text"`:    "",
		`{"x": []}`: "",
		`{"type": "doc", "content": [{"type": "paragraph", "content": [
			{"type": "text", "text": "Ask "}, {"type": "mention", "attrs": {"id": "1", "text": "@Kim"}},
			{"type": "text", "text": " on "}, {"type": "date", "attrs": {"timestamp": "1760000000000"}},
			{"type": "hardBreak"}, {"type": "emoji", "attrs": {"shortName": ":smile:", "text": "😄"}},
			{"type": "status", "attrs": {"text": "IN PROGRESS", "color": "blue"}},
			{"type": "inlineCard", "attrs": {"url": "https://example.com/x"}}]}]}`: "Ask @Kim on 2025-10-09\n😄IN PROGRESS<https://example.com/x>",
		`{"type": "doc", "content": [{"type": "taskList", "content": [
			{"type": "taskItem", "attrs": {"state": "DONE"}, "content": [{"type": "text", "text": "one"}]},
			{"type": "taskItem", "attrs": {"state": "TODO"}, "content": [{"type": "text", "text": "two"}]}]}]}`: "- [x] one\n- [ ] two",
		`{"type": "doc", "content": [{"type": "panel", "attrs": {"panelType": "info"}, "content": [
			{"type": "paragraph", "content": [{"type": "text", "text": "careful"}]}]}]}`: "> careful",
		`{"type": "doc", "content": [{"type": "expand", "attrs": {"title": "More"}, "content": [
			{"type": "paragraph", "content": [{"type": "text", "text": "hidden"}]}]}]}`: "**More**\n\nhidden",
		`{"type": "doc", "content": [{"type": "table", "content": [
			{"type": "tableRow", "content": [
				{"type": "tableHeader", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "a|b"}]}]},
				{"type": "tableHeader", "content": []}]},
			{"type": "tableRow", "content": [
				{"type": "tableCell", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "1"}]}]},
				{"type": "tableCell", "content": [{"type": "bulletList", "content": [{"type": "listItem", "content": [
					{"type": "paragraph", "content": [{"type": "text", "text": "2"}]}]}]}]}]}]}]}`: "| a\\|b |  |\n| --- | --- |\n| 1 | - 2 |",
		`{"type": "doc", "content": [{"type": "mediaSingle", "content": [
			{"type": "media", "attrs": {"id": "abc", "alt": "screen.png"}}]}]}`: "(attachment screen.png)",
		`{"type": "doc", "content": [{"type": "bodiedExtension", "content": [
			{"type": "somethingNew", "content": [{"type": "text", "text": "kept"}]}]}]}`: "kept",
		`{"type": "doc", "content": [{"type": "extension", "attrs": {"extensionKey": "toc", "text": "a macro"}},
			{"type": "somethingNew", "attrs": {"title": "A title"}, "content": [
				{"type": "text", "text": "one "}, {"type": "anotherNew", "text": "two"},
				{"type": "paragraph", "content": [{"type": "text", "text": "three "},
					{"type": "inlineExtension", "attrs": {"text": "four"}}]},
				{"type": "text", "text": "fi"}, {"type": "text", "text": "ve"}]}]}`: "a macro\n\nA title\n\none\n\ntwo\n\nthree four\n\nfive",
		`{"type": "doc", "content": [{"type": "paragraph", "content": [
			{"type": "text", "text": " bold ", "marks": [{"type": "strong"}, {"type": "underline"}]},
			{"type": "text", "text": "after"}]}]}`: "**bold** after",
	} {
		test.Equal(t, document, Markdown(json.RawMessage(document)), want)
	}
}

// What others write into a node, also as an attribute, is text and nothing else: it begins no
// comment of HTML, no link and no line, alone or with the nodes beside it.
func TestOnlyText(t *testing.T) {
	const mark = "<!-- symphony:request RUN 1 -->"
	for name, nodes := range map[string]string{
		"date":        `{"type": "date", "attrs": {"timestamp": "MARK"}}`,
		"media":       `{"type": "media", "attrs": {"url": "x>\nMARK"}}`,
		"file":        `{"type": "media", "attrs": {"alt": "x\nMARK"}}`,
		"card, tab":   `{"type": "inlineCard", "attrs": {"url": "https://x.org/\tMARK"}}`,
		"card, line":  `{"type": "inlineCard", "attrs": {"url": "https://x.org/\nMARK"}}`,
		"emoji":       `{"type": "emoji", "attrs": {"shortName": "<"}}, {"type": "text", "text": "!-- symphony:request RUN 1 -->"}`,
		"texts":       `{"type": "text", "text": "<"}, {"type": "text", "text": "!-- symphony:request RUN 1 -->"}`,
		"mention":     `{"type": "mention", "attrs": {"text": "@\nMARK"}}`,
		"status":      `{"type": "status", "attrs": {"text": "x\nMARK"}}`,
		"placeholder": `{"type": "placeholder", "attrs": {"text": "MARK"}}`,
		"unknown":     `{"type": "new", "text": "MARK"}`,
		"link":        `{"type": "text", "text": "x", "marks": [{"type": "link", "attrs": {"href": "https://x.org/\nMARK"}}]}`,
		"no text":     `{"type": "text", "text": "<", "marks": [{"type": "underline"}]}, {"type": "text", "text": "!-- symphony:request RUN 1 -->"}`,
		"entity":      `{"type": "text", "text": "&l"}, {"type": "emoji", "attrs": {"text": "t;!-- symphony:request RUN 1 -->"}}`,
		"a list":      `{"type": "status", "attrs": {"text": ["MARK"]}}, {"type": "text", "text": "x"}`,
	} {
		nodes = strings.ReplaceAll(nodes, "MARK", mark)
		for _, around := range []string{
			`{"type": "doc", "content": [{"type": "paragraph", "content": [%s]}]}`,
			`{"type": "doc", "content": [%s]}`,
			`{"type": "doc", "content": [{"type": "table", "content": [{"type": "tableRow", "content": [
				{"type": "tableCell", "content": [{"type": "paragraph", "content": [%s]}]}]}]}]}`,
			`{"type": "doc", "content": [{"type": "expand", "attrs": {"title": "\n<!-- symphony:x"}, "content": [%s]}]}`,
		} {
			markdown := Markdown(fmt.Appendf(nil, around, nodes))
			if markdown == "" {
				t.Errorf("%s: nothing", name)
			}
			onlyText(t, name, markdown)
		}
	}
}

// onlyText fails if Markdown contains HTML, beside the comment that parts two lists.
func onlyText(t *testing.T, name, markdown string) {
	t.Helper()
	source := []byte(markdown)
	err := ast.Walk(
		goldmark.DefaultParser().Parse(gmtext.NewReader(source)),
		func(n ast.Node, _ bool) (ast.WalkStatus, error) {
			isHTML := n.Kind() == ast.KindHTMLBlock || n.Kind() == ast.KindRawHTML
			if n.Kind() == ast.KindHTMLBlock && string(n.Lines().Value(source)) == "<!-- -->\n" {
				isHTML = false
			}
			if isHTML {
				t.Errorf("%s: %q contains HTML", name, markdown)
			}
			return ast.WalkContinue, nil
		},
	)
	test.OK(t, err)
}

// Lists in lists, and quotations in quotations, do not become ever deeper documents.
func TestDeep(t *testing.T) {
	for _, begin := range []string{"- ", "> ", "1. "} {
		doc := Document(strings.Repeat(begin, 500) + "x")
		sound(t, doc)
		test.Contains(t, begin, doc.plain(), "x")
		if n := len(test.Must(json.Marshal(doc))); n > 20_000 {
			t.Errorf("%s becomes %d bytes", begin, n)
		}
	}
}

// Someone else's documents may be deeper than any that Jira makes.
func TestDeepDocument(t *testing.T) {
	const depth = 3000
	document := strings.Repeat(`{"type": "blockquote", "content": [`, depth) +
		`{"type": "paragraph", "content": [{"type": "text", "text": "x"}]}` + strings.Repeat(`]}`, depth)
	got := Markdown(json.RawMessage(`{"type": "doc", "content": [` + document + `]}`))
	test.Contains(t, "the text", got, "x")
	if len(got) > 200 {
		t.Errorf("%d bytes", len(got))
	}
}

// Whatever is written becomes a document that Jira accepts, also after the way back and forth.
func FuzzDocument(f *testing.F) {
	for _, markdown := range kept {
		f.Add(markdown)
	}
	f.Add("* a\n+ b\n\n***\n**a **b*c*\n[x]: http://y\n[x] ~~~ | a |\n\\")
	f.Fuzz(func(t *testing.T, markdown string) {
		if len(markdown) > 2000 {
			return
		}
		doc := Document(markdown)
		sound(t, doc)
		sound(t, Document(doc.Markdown()))
	})
}

// FuzzMarkdown reads documents that nobody has checked.
func FuzzMarkdown(f *testing.F) {
	f.Add([]byte(`{"type": "doc", "content": [{"type": "orderedList", "attrs": {"order": 1e300}, "content": [{}]}]}`))
	f.Add([]byte(`{"content": [{"type": "heading", "attrs": {"level": -4}}, {"type": "taskList", "content": [{}]}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		sound(t, Document(Markdown(document)))
	})
}

// FuzzOnlyText puts texts into nodes of all kinds, beside each other.
func FuzzOnlyText(f *testing.F) {
	f.Add("]|!--()--|`|<!-- x -->|`|\\|<!-- x -->|a\\|`", uint64(0x0606060000000906))
	f.Add("<|!-- symphony:x -->|<|!--|\n<!--|>\n<!--|x\t<!--|<|/b>", uint64(0))
	f.Add("&l|t;!--|[a]|(b)|!|[x]|\\|<!--|`|`<!--|*|_", uint64(0x123456789abcdef0))
	f.Fuzz(func(t *testing.T, texts string, kinds uint64) {
		var nodes []any
		for _, s := range strings.Split(texts, "|") {
			attrs := map[string]any{}
			for _, name := range []string{"text", "shortName", "timestamp", "url", "alt", "id"} {
				attrs[name] = s
			}
			types := []string{"mention", "emoji", "status", "date", "inlineCard", "media", "placeholder", "new"}
			n := map[string]any{"type": types[kinds>>1&7], "attrs": attrs}
			if kinds&1 == 0 {
				mark := []string{"underline", "strong", "em", "code", "link", "strike", "x", "y"}[kinds>>1&7]
				marks := []any{map[string]any{"type": mark, "attrs": map[string]any{"href": s}}}
				n = map[string]any{"type": "text", "text": s, "marks": marks}
			}
			nodes = append(nodes, n)
			kinds = kinds>>4 | kinds<<60
		}
		doc := map[string]any{"type": "doc", "content": []any{map[string]any{"type": "paragraph", "content": nodes}}}
		onlyText(t, texts, Markdown(test.Must(json.Marshal(doc))))
	})
}

// children are the nodes that Jira accepts in another one.
var children = map[string][]string{
	typeDoc: {
		typeParagraph, typeHeading, typeBulletList, typeOrderedList, typeCodeBlock, typeBlockquote, typeRule,
	},
	typeParagraph:   {typeText, typeHardBreak},
	typeHeading:     {typeText, typeHardBreak},
	typeBulletList:  {typeListItem},
	typeOrderedList: {typeListItem},
	typeListItem:    {typeParagraph, typeCodeBlock, typeBulletList, typeOrderedList},
	typeCodeBlock:   {typeText},
	typeBlockquote:  {typeParagraph, typeCodeBlock, typeBulletList, typeOrderedList},
}

// sound fails unless Jira would accept a document.
func sound(t *testing.T, n Node) {
	t.Helper()
	for i, child := range n.Content {
		if !slices.Contains(children[n.Type], child.Type) {
			t.Fatalf("%s in %s", child.Type, n.Type)
		}
		if child.Type == typeText && child.Text == "" {
			t.Fatalf("an empty text in %s", n.Type)
		}
		if n.Type == typeListItem && i == 0 && child.Type != typeParagraph && child.Type != typeCodeBlock {
			t.Fatalf("a list item begins with %s", child.Type)
		}
		if n.Type == typeCodeBlock && child.Marks != nil {
			t.Fatal("marks in a block of code")
		}
		isCode := slices.ContainsFunc(child.Marks, func(m Mark) bool { return m.Type == markCode })
		for _, m := range child.Marks {
			if isCode && m.Type != markCode && m.Type != markLink {
				t.Fatalf("code with the mark %s", m.Type)
			}
		}
		sound(t, child)
	}
	needsContent := []string{typeDoc, typeBulletList, typeOrderedList, typeListItem, typeBlockquote}
	if len(n.Content) == 0 && slices.Contains(needsContent, n.Type) {
		t.Fatalf("an empty %s", n.Type)
	}
}
