package adf

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// deepest is how deep lists may be in each other. What is deeper is put into the deepest one.
const deepest = 6

// Document converts Markdown. A line break within a paragraph stays one.
func Document(markdown string) Node {
	source := []byte(readable(markdown))
	root := goldmark.DefaultParser().Parse(text.NewReader(source))
	c := converter{source: source}
	content := c.blocks(root, place{})
	if len(content) == 0 {
		content = []Node{{Type: typeParagraph}}
	}
	return Node{Type: typeDoc, Version: 1, Content: content}
}

// readable returns a text without what JSON or Jira refuses: invalid UTF-8 and control characters.
func readable(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, s)
}

type converter struct{ source []byte }

// place is where blocks are: Jira does not accept all of them everywhere.
type place struct {
	lists  int // around it
	quoted bool
}

// isTop reports whether every block is accepted.
func (p place) isTop() bool { return p.lists == 0 && !p.quoted }

// blocks converts the blocks in a node.
func (c converter) blocks(parent ast.Node, at place) []Node {
	var list []Node
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		list = append(list, c.block(n, at)...)
	}
	return list
}

func (c converter) block(n ast.Node, at place) []Node {
	switch n := n.(type) {
	case *ast.Heading:
		if at.isTop() {
			level := map[string]any{"level": n.Level}
			return []Node{{Type: typeHeading, Attrs: level, Content: c.inline(n, nil)}}
		}
		return []Node{paragraph(c.inline(n, []Mark{{Type: markStrong}}))}
	case *ast.Paragraph, *ast.TextBlock:
		lines := c.lines(n)
		if strings.HasPrefix(strings.TrimSpace(lines), "|") && strings.Contains(lines, "\n") {
			return []Node{codeBlock("", lines)} // a table, in letters of one width
		}
		return []Node{paragraph(c.inline(n, nil))}
	case *ast.FencedCodeBlock:
		return []Node{codeBlock(string(n.Language(c.source)), c.lines(n))}
	case *ast.CodeBlock:
		return []Node{codeBlock("", c.lines(n))}
	case *ast.HTMLBlock:
		lines := c.lines(n)
		if n.HasClosure() {
			lines += "\n" + strings.TrimRight(string(n.ClosureLine.Value(c.source)), "\n")
		}
		return []Node{paragraph(broken(lines, nil))}
	case *ast.LinkReferenceDefinition:
		return []Node{paragraph(broken(c.lines(n), nil))}
	case *ast.ThematicBreak:
		if at.isTop() {
			return []Node{{Type: typeRule}}
		}
		return []Node{paragraph([]Node{{Type: typeText, Text: "---"}})}
	case *ast.Blockquote:
		if !at.isTop() {
			return c.blocks(n, at)
		}
		content := c.blocks(n, place{quoted: true})
		if len(content) == 0 {
			content = []Node{{Type: typeParagraph}}
		}
		return []Node{{Type: typeBlockquote, Content: content}}
	case *ast.List:
		return c.list(n, at)
	}
	return nil
}

func paragraph(content []Node) Node { return Node{Type: typeParagraph, Content: content} }

// list converts a list; beyond the deepest its items are blocks of the item around it.
func (c converter) list(n *ast.List, at place) []Node {
	if at.lists == deepest {
		var flat []Node
		for item := n.FirstChild(); item != nil; item = item.NextSibling() {
			flat = append(flat, c.blocks(item, at)...)
		}
		return flat
	}
	list := Node{Type: typeBulletList}
	if n.IsOrdered() {
		list.Type = typeOrderedList
		if n.Start != 1 {
			list.Attrs = map[string]any{"order": n.Start}
		}
	}
	at.lists++
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		content := c.blocks(item, at)
		begins := len(content) > 0 && (content[0].Type == typeParagraph || content[0].Type == typeCodeBlock)
		if !begins {
			content = append([]Node{{Type: typeParagraph}}, content...)
		}
		list.Content = append(list.Content, Node{Type: typeListItem, Content: content})
	}
	return []Node{list}
}

// lines are the lines of a block as they are written, without the last line break.
func (c converter) lines(n ast.Node) string {
	var b strings.Builder
	for _, s := range n.Lines().Sliced(0, n.Lines().Len()) {
		b.Write(s.Value(c.source))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// inline converts the texts in a node, which have these marks.
func (c converter) inline(parent ast.Node, marks []Mark) []Node {
	var list []Node
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		list = append(list, c.text(n, marks)...)
	}
	return joined(list)
}

func (c converter) text(n ast.Node, marks []Mark) []Node {
	switch n := n.(type) {
	case *ast.Text:
		found := texts(unescaped(n.Value(c.source)), marks)
		if n.SoftLineBreak() || n.HardLineBreak() {
			found = append(found, Node{Type: typeHardBreak})
		}
		return found
	case *ast.String:
		return texts(string(n.Value), marks)
	case *ast.CodeSpan:
		var b strings.Builder
		for child := n.FirstChild(); child != nil; child = child.NextSibling() {
			if t, is := child.(*ast.Text); is {
				b.Write(t.Segment.Value(c.source))
			}
		}
		// code has no other marks but a link
		isLink := func(m Mark) bool { return m.Type == markLink }
		kept := slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool { return !isLink(m) })
		return texts(strings.ReplaceAll(b.String(), "\n", " "), append(kept, Mark{Type: markCode}))
	case *ast.Emphasis:
		mark := Mark{Type: markEm}
		if n.Level == 2 {
			mark.Type = markStrong
		}
		return c.inline(n, with(marks, mark))
	case *ast.Link:
		return c.linked(n, string(n.Destination), marks)
	case *ast.Image:
		return c.linked(n, string(n.Destination), marks)
	case *ast.AutoLink:
		label := string(n.Label(c.source))
		address := string(n.URL(c.source))
		if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(address, "mailto:") {
			address = "mailto:" + address
		}
		return texts(label, linkTo(address, marks))
	case *ast.RawHTML:
		var b strings.Builder
		for _, s := range n.Segments.Sliced(0, n.Segments.Len()) {
			b.Write(s.Value(c.source))
		}
		return broken(b.String(), marks)
	}
	return c.inline(n, marks)
}

// linked converts the text of a link or an image. An address that Jira would not link follows
// the text.
func (c converter) linked(n ast.Node, written string, marks []Mark) []Node {
	address := unescaped([]byte(written))
	marked := linkTo(address, marks)
	content := c.inline(n, marked)
	if len(content) == 0 {
		return texts(address, marked)
	}
	if len(marked) == len(marks) && address != "" {
		content = append(content, texts(" ("+address+")", marks)...)
	}
	return content
}

// linkTo adds a link to marks, if an address is one of a page or a mailbox.
func linkTo(address string, marks []Mark) []Mark {
	u, err := url.Parse(address)
	isPage := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
	isMail := err == nil && u.Scheme == "mailto" && u.Opaque != ""
	if !isPage && !isMail {
		return marks
	}
	return with(marks, Mark{Type: markLink, Attrs: map[string]any{"href": address}})
}

// with returns the marks with one more, each type once.
func with(marks []Mark, mark Mark) []Mark {
	if slices.ContainsFunc(marks, func(m Mark) bool { return m.Type == mark.Type }) {
		return marks
	}
	return append(slices.Clone(marks), mark)
}

// texts is a text with marks; nothing if it is empty, which Jira refuses.
func texts(s string, marks []Mark) []Node {
	if s == "" {
		return nil
	}
	return []Node{{Type: typeText, Text: s, Marks: slices.Clone(marks)}}
}

// broken is a text of several lines.
func broken(s string, marks []Mark) []Node {
	var list []Node
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			list = append(list, Node{Type: typeHardBreak})
		}
		list = append(list, texts(line, marks)...)
	}
	return list
}

// joined returns texts so that no two with the same marks follow each other.
func joined(list []Node) []Node {
	var out []Node
	for _, n := range list {
		last := len(out) - 1
		if n.Type == typeText && last >= 0 && out[last].Type == typeText && sameMarks(out[last].Marks, n.Marks) {
			out[last].Text += n.Text
			continue
		}
		out = append(out, n)
	}
	return out
}

func sameMarks(a, b []Mark) bool {
	return slices.EqualFunc(a, b, func(x, y Mark) bool {
		return x.Type == y.Type && x.Attrs["href"] == y.Attrs["href"]
	})
}

// unescaped is a text without the backslashes before punctuation, and with the characters that
// entities such as &amp; stand for.
func unescaped(written []byte) string {
	var b strings.Builder
	plain := 0
	flush := func(to int) {
		part := util.ResolveEntityNames(util.ResolveNumericReferences(written[plain:to]))
		b.Write(part)
	}
	for i := 0; i+1 < len(written); i++ {
		if written[i] == '\\' && util.IsPunct(written[i+1]) {
			flush(i)
			b.WriteByte(written[i+1])
			i++
			plain = i + 1
		}
	}
	flush(len(written))
	return readable(b.String())
}
