package adf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/symphony-cron/symphony/internal/text"
)

// Markdown converts a document. Of nodes that it does not know it keeps the text. It is empty for
// null and for what is no document.
func Markdown(document json.RawMessage) string {
	var doc Node
	if decode(document, &doc) != nil {
		return ""
	}
	return doc.Markdown()
}

// Markdown converts a document.
func (n Node) Markdown() string {
	return strings.Join(blocksOf(n.shallow(0).Content), "\n\n")
}

// shallow is a node in which what is too deep is text: each level of a quotation or a list adds
// to every line in it.
func (n Node) shallow(depth int) Node {
	const most = 40
	if depth == most && len(n.Content) > 0 {
		return paragraph(texts(n.plain(), nil))
	}
	content := make([]Node, 0, len(n.Content))
	for _, child := range n.Content {
		content = append(content, child.shallow(depth+1))
	}
	n.Content = content
	return n
}

// blocksOf converts blocks, each of which becomes one or more lines.
func blocksOf(list []Node) []string {
	var out []string
	for i, n := range list {
		if block := n.block(); block != "" {
			if i > 0 && isList(n) && list[i-1].Type == n.Type {
				out = append(out, "<!-- -->") // or else the two would be one list
			}
			out = append(out, block)
		}
	}
	return out
}

func isList(n Node) bool { return n.Type == typeBulletList || n.Type == typeOrderedList }

func (n Node) block() string {
	switch n.Type {
	case typeParagraph:
		return linesOf(n.Content)
	case typeHeading:
		return heading(min(max(n.number("level"), 1), 6), n.Content)
	case typeBulletList, "decisionList":
		return items(n.Content, func(int) string { return "- " })
	case typeOrderedList:
		first := 1
		if _, set := n.Attrs["order"]; set {
			first = max(n.number("order"), 0)
		}
		return items(n.Content, func(i int) string { return strconv.Itoa(first+i) + ". " })
	case "taskList":
		return items(n.Content, func(i int) string {
			if n.Content[i].string("state") == "DONE" {
				return "- [x] "
			}
			return "- [ ] "
		})
	case typeCodeBlock:
		return fenced(n.string("language"), n.plain())
	case typeBlockquote, "panel":
		return prefixed(strings.Join(blocksOf(n.Content), "\n\n"), "> ", "> ")
	case "expand", "nestedExpand":
		blocks := blocksOf(n.Content)
		if title := n.string("title"); title != "" {
			blocks = slices.Insert(blocks, 0, linesOf(texts(title, []Mark{{Type: markStrong}})))
		}
		return strings.Join(blocks, "\n\n")
	case "table":
		return n.table()
	case typeRule:
		return "---"
	case "media", "mediaSingle", "mediaGroup", "blockCard", "embedCard":
		return linesOf([]Node{n})
	}
	if len(n.Content) == 0 || isInline(n) {
		return linesOf([]Node{n})
	}
	blocks := blocksOf(grouped(n.Content))
	if words := linesOf(texts(n.words(), nil)); words != "" {
		blocks = slices.Insert(blocks, 0, words)
	}
	return strings.Join(blocks, "\n\n")
}

// grouped are the parts of an unknown node as blocks: parts of a line that follow each other are a
// paragraph.
func grouped(list []Node) []Node {
	var blocks []Node
	isLine := false
	for _, n := range list {
		switch {
		case !isInline(n):
			blocks = append(blocks, n)
		case isLine:
			last := &blocks[len(blocks)-1]
			last.Content = append(last.Content, n)
		default:
			blocks = append(blocks, Node{Type: typeParagraph, Content: []Node{n}})
		}
		isLine = isInline(n)
	}
	return blocks
}

// words are what an unknown node says itself, beside the nodes in it. Macros of Atlassian's, for
// instance, have it in an attribute.
func (n Node) words() string {
	said := n.Text
	for _, name := range []string{"text", "title", "alt", "url"} {
		said = cmp.Or(said, n.string(name))
	}
	return readable(said)
}

// isInline reports whether a node is a part of a line.
func isInline(n Node) bool {
	switch n.Type {
	case typeText, typeHardBreak, "mention", "emoji", "inlineCard", "mediaInline", "date", "status", "placeholder":
		return true
	}
	return false
}

// items are the items of a list.
func items(list []Node, mark func(i int) string) string {
	var out []string
	for i, item := range list {
		var content string
		if slices.ContainsFunc(item.Content, isInline) { // of a taskItem
			content = linesOf(item.Content)
		} else {
			content = strings.Join(tight(item.Content), "\n")
		}
		sign := mark(i)
		indent := strings.Repeat(" ", len(strings.TrimSuffix(strings.TrimSuffix(sign, "[ ] "), "[x] ")))
		out = append(out, strings.TrimRight(prefixed(content, sign, indent), " "))
	}
	return strings.Join(out, "\n")
}

// tight are the blocks of an item, with an empty line only where Markdown needs one.
func tight(list []Node) []string {
	blocks := blocksOf(list)
	if len(list) > 0 && list[0].Type == typeParagraph && len(list[0].Content) == 0 && len(blocks) > 0 {
		return slices.Insert(blocks, 0, "") // a list that begins with a list
	}
	for i := 1; i < len(blocks); i++ {
		isTight := len(blocks) == len(list) && isList(list[i])
		if !isTight {
			blocks[i] = "\n" + blocks[i]
		}
	}
	return blocks
}

// prefixed puts a text before the first line, and another one before each other line that is not
// empty.
func prefixed(s, first, others string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		switch {
		case i == 0:
			lines[i] = first + line
		case line != "" || strings.TrimSpace(others) != "":
			lines[i] = strings.TrimRight(others+line, " ")
			if line != "" {
				lines[i] = others + line
			}
		}
	}
	return strings.Join(lines, "\n")
}

// fenced is a block of code. Its fence is longer than each row of backticks in it.
func fenced(language, code string) string {
	code = readable(code)
	fence := strings.Repeat("`", max(3, longestRun(code, '`')+1))
	language, _, _ = strings.Cut(language, " ")
	if strings.Contains(language, "`") {
		language = ""
	}
	if code == "" {
		return fence + language + "\n" + fence
	}
	return fence + language + "\n" + code + "\n" + fence
}

func longestRun(s string, of rune) int {
	longest := 0
	run := 0
	for _, r := range s {
		run++
		if r != of {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// table is a table with a cell of text for each cell.
func (n Node) table() string {
	var rows []string
	for i, row := range n.Content {
		line := "|"
		for _, cell := range row.Content {
			words := strings.Join(blocksOf(cell.Content), " ")
			words = strings.ReplaceAll(strings.ReplaceAll(words, "\n", " "), "|", "\\|")
			line += " " + words + " |"
		}
		rows = append(rows, line)
		if i == 0 {
			rows = append(rows, "|"+strings.Repeat(" --- |", len(row.Content)))
		}
	}
	return strings.Join(rows, "\n")
}

// heading is a heading of one line.
func heading(level int, content []Node) string {
	words := strings.ReplaceAll(inlineOf(content), "\n", " ")
	return strings.TrimSpace(strings.Repeat("#", level) + " " + words)
}

// inlineOf converts parts of a paragraph.
func inlineOf(list []Node) string {
	var b strings.Builder
	for _, n := range partsOf(list) {
		if n.Type == typeHardBreak {
			b.WriteByte('\n')
			continue
		}
		b.WriteString(n.marked())
	}
	return b.String()
}

// linesOf converts the parts of a paragraph.
func linesOf(list []Node) string {
	lines := strings.Split(inlineOf(list), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// partsOf converts the parts of a paragraph to texts and line breaks. Whatever others wrote into a
// node, be it its text, the name of a file or the address of a card, is the text of one of them. So
// marked alone prints it, and escapes it. No two texts with the same marks follow each other: a tag
// of HTML may be spread over several nodes.
func partsOf(list []Node) []Node {
	var parts []Node
	for _, n := range list {
		parts = append(parts, n.parts()...)
	}
	return joined(parts)
}

func (n Node) parts() []Node {
	switch n.Type {
	case typeText:
		return texts(readable(n.Text), shownMarks(n.Marks))
	case typeHardBreak:
		return []Node{{Type: typeHardBreak}}
	case "mention":
		name := cmp.Or(n.string("text"), n.string("id"))
		if name != "" && !strings.HasPrefix(name, "@") {
			name = "@" + name
		}
		return texts(name, nil)
	case "emoji":
		return texts(cmp.Or(n.string("text"), n.string("shortName")), nil)
	case "status", "placeholder":
		return texts(n.string("text"), nil)
	case "date":
		return texts(n.date(), nil)
	case "inlineCard", "blockCard", "embedCard":
		return page(cmp.Or(n.string("url"), "(a card)"))
	case "media", "mediaInline":
		if address := n.string("url"); address != "" {
			return page(address)
		}
		return texts("(attachment "+cmp.Or(n.string("alt"), n.string("id"), "without a name")+")", nil)
	case "mediaSingle", "mediaGroup":
		var files []Node
		for _, file := range n.Content { // or a caption
			found := file.parts()
			if len(files) > 0 && len(found) > 0 {
				files = append(files, texts(" ", nil)...)
			}
			files = append(files, found...)
		}
		return files
	}
	return append(texts(n.words(), nil), partsOf(n.Content)...)
}

// page is the address of a page as a text with a link to it.
func page(address string) []Node { return texts(address, linkTo(address, nil)) }

// date is the day of a date, or what stands there instead of its time.
func (n Node) date() string {
	at, err := strconv.ParseInt(n.string("timestamp"), 10, 64)
	if err != nil {
		return n.string("timestamp")
	}
	return time.UnixMilli(at).UTC().Format(time.DateOnly)
}

// shownMarks are the marks that Markdown shows. Code has no other one but a link.
func shownMarks(marks []Mark) []Mark {
	isCode := slices.ContainsFunc(marks, func(m Mark) bool { return m.Type == markCode })
	var shown []Mark
	for _, m := range marks {
		switch m.Type {
		case markLink:
			href, _ := m.Attrs["href"].(string)
			href = oneLine(href)
			if href != "" {
				shown = with(shown, Mark{Type: markLink, Attrs: map[string]any{"href": href}})
			}
		case markCode:
			shown = with(shown, Mark{Type: markCode})
		case markStrong, markEm, markStrike:
			if !isCode {
				shown = with(shown, Mark{Type: m.Type})
			}
		}
	}
	return shown
}

// marked is a text with its marks. Blanks at its ends stand outside of the marks, as Markdown wants it.
func (n Node) marked() string {
	core := strings.TrimSpace(n.Text)
	if core == "" || len(n.Marks) == 0 {
		return escaped(n.Text)
	}
	lead := n.Text[:strings.Index(n.Text, core)]
	rest := n.Text[len(lead)+len(core):]
	var href string
	isCode := false
	signs := ""
	for _, m := range n.Marks {
		switch m.Type {
		case markCode:
			isCode = true
		case markLink:
			href, _ = m.Attrs["href"].(string)
		case markStrong:
			signs += "**"
		case markEm:
			signs += "*"
		case markStrike:
			signs += "~~"
		}
	}
	var words string
	if isCode {
		words = span(core)
	} else {
		words = escaped(core)
	}
	if href != "" {
		words = link(words, core, href, isCode)
	}
	return lead + signs + words + reversed(signs) + rest
}

func reversed(s string) string {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}

// link is a link with a text; an address that is its own text is written once.
func link(words, plain, href string, isCode bool) string {
	address := destination(href)
	isWhole := strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://")
	if isWhole && address == plain && !isCode {
		return "<" + address + ">"
	}
	return "[" + words + "](" + address + ")"
}

// destination is an address in which nothing ends it: blanks, control characters, brackets and
// backslashes are percent-encoded.
func destination(href string) string {
	var b strings.Builder
	for _, r := range href {
		if unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`<>()\`, r) {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// span is code within a line.
func span(code string) string {
	code = strings.ReplaceAll(code, "\n", " ")
	ticks := strings.Repeat("`", longestRun(code, '`')+1)
	if strings.HasPrefix(code, "`") || strings.HasSuffix(code, "`") {
		code = " " + code + " "
	}
	return ticks + code + ticks
}

var (
	// special matches where Markdown may find HTML or code, with the backslashes before it.
	special = text.Pattern("(\\\\*)(`|<[/!?A-Za-z])")
	// ending matches the backslashes before the next part of a line.
	ending = text.Pattern(`(\\+)$`)
)

// escaped is a text in which Markdown finds no HTML and no code. The rest stays as it is, because
// agents read it.
func escaped(s string) string {
	return ending().ReplaceAllString(special().ReplaceAllString(s, `$1$1\$2`), `$1$1`)
}

// plain is the text of a node without its marks.
func (n Node) plain() string {
	var b strings.Builder
	n.writePlain(&b)
	return b.String()
}

func (n Node) writePlain(b *strings.Builder) {
	if n.Type == typeHardBreak {
		b.WriteByte('\n')
		return
	}
	b.WriteString(n.Text)
	for _, child := range n.Content {
		child.writePlain(b)
	}
}

// string is an attribute as a text of one line; empty if there is none.
func (n Node) string(name string) string {
	switch v := n.Attrs[name].(type) {
	case string:
		return oneLine(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// oneLine is a text without line breaks and control characters, and without blanks at its ends.
func oneLine(s string) string { return strings.Join(strings.Fields(readable(s)), " ") }

// number is an attribute as a whole number; 0 if it is none.
func (n Node) number(name string) int {
	switch v := n.Attrs[name].(type) {
	case int:
		return v
	case json.Number:
		whole, err := strconv.ParseInt(v.String(), 10, 32)
		if err == nil && whole >= 0 && whole < 1e9 {
			return int(whole)
		}
	}
	return 0
}
