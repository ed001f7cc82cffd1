// Package adf converts between Markdown and the Atlassian Document Format, in which Jira keeps
// descriptions and comments.
//
// Markdown becomes the part of the format that Jira accepts everywhere: for instance no heading
// inside a list. Nothing of a text is lost, but its look may be: a table becomes a block of code.
// A mention in Markdown stays text, so that nobody is notified by an agent's words.
package adf

import (
	"bytes"
	"cmp"
	"encoding/json"
)

// Node is a document or a part of one.
type Node struct {
	Type    string         `json:"type"`
	Version int            `json:"version,omitempty"` // of a document
	Attrs   map[string]any `json:"attrs,omitempty"`
	Content []Node         `json:"content,omitempty"`
	Marks   []Mark         `json:"marks,omitempty"`
	Text    string         `json:"text,omitempty"`
}

// Mark is a property of a text, such as strong.
type Mark struct {
	Type  string         `json:"type"`
	Attrs map[string]any `json:"attrs,omitempty"`
}

// The types of nodes and marks that Document writes.
const (
	typeDoc         = "doc"
	typeParagraph   = "paragraph"
	typeHeading     = "heading"
	typeBulletList  = "bulletList"
	typeOrderedList = "orderedList"
	typeListItem    = "listItem"
	typeCodeBlock   = "codeBlock"
	typeBlockquote  = "blockquote"
	typeRule        = "rule"
	typeText        = "text"
	typeHardBreak   = "hardBreak"

	markStrong = "strong"
	markEm     = "em"
	markCode   = "code"
	markLink   = "link"
	markStrike = "strike"
)

// Code is a document that shows a text as it is, as one block of code.
func Code(text string) Node {
	return Node{Type: typeDoc, Version: 1, Content: []Node{codeBlock("", text)}}
}

func codeBlock(language, text string) Node {
	block := Node{Type: typeCodeBlock}
	if language != "" {
		block.Attrs = map[string]any{"language": language}
	}
	if text != "" {
		block.Content = []Node{{Type: typeText, Text: text}}
	}
	return block
}

// decode reads JSON, in which numbers stay as they are written: an id may have more digits than a
// float64 keeps.
func decode(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

// Strings are all texts in a document: of its nodes, of their marks and attributes, and of what no
// reader of the format knows. The text of the whole document is one of them, because a word may
// be spread over several nodes.
func Strings(document json.RawMessage) []string {
	var whole any
	var doc Node
	if decode(document, &whole) != nil {
		return nil
	}
	var list []string
	collect(whole, &list)
	if decode(document, &doc) == nil {
		list = append(list, doc.plain())
	}
	return list
}

// collect adds the texts in a decoded value to a list.
func collect(v any, list *[]string) {
	switch v := v.(type) {
	case string:
		*list = append(*list, v)
	case map[string]any:
		for name, inner := range v {
			*list = append(*list, name)
			collect(inner, list)
		}
	case []any:
		for _, inner := range v {
			collect(inner, list)
		}
	}
}

// WithoutMentions returns a document in which mentions are texts, so that nobody is notified. It
// keeps everything else, also what it does not know.
func WithoutMentions(document json.RawMessage) any {
	var doc any
	if decode(document, &doc) != nil {
		return nil
	}
	return withoutMentions(doc)
}

func withoutMentions(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v["type"] == "mention" {
			attrs, _ := v["attrs"].(map[string]any)
			name, _ := attrs["text"].(string)
			return map[string]any{"type": typeText, "text": cmp.Or(name, "@somebody")}
		}
		for name, inner := range v {
			v[name] = withoutMentions(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = withoutMentions(inner)
		}
	}
	return v
}
