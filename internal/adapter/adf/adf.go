// Package adf converts between Markdown and the Atlassian Document Format, in which Jira keeps
// descriptions and comments.
//
// Markdown becomes the part of the format that Jira accepts everywhere: for instance no heading
// inside a list. Nothing of a text is lost, but its look may be: a table becomes a block of code.
// A mention in Markdown stays text, so that nobody is notified by an agent's words.
package adf

import (
	"bytes"
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
