package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// Board is a project (Projects v2) whose single-select field Status names the column of an
// issue.
type Board struct {
	Owner   string // an organization
	Number  int
	Title   string
	Columns []string // Todo, In Progress and Done if empty
}

// columnField is the board's field of the columns.
const columnField = "Status"

// item is an issue on the board.
type item struct {
	id       int64
	issue    *Issue
	column   string // empty for none
	archived bool
}

// board is the server's only board, protected by its lock.
type board struct {
	Board
	id    int64
	items []*item
}

// SetBoard creates the board. Issues are added to it by Move.
func (s *Server) SetBoard(b Board) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.Columns) == 0 {
		b.Columns = []string{"Todo", "In Progress", "Done"}
	}
	s.board = &board{Board: b, id: s.id()}
}

// url is the address of the board for people.
func (b *board) url() string {
	return fmt.Sprint(siteURL, "orgs/", b.Owner, "/projects/", b.Number)
}

// column returns the index of a column; -1 if there is none, or no board.
func (b *board) column(name string) int {
	if b == nil {
		return -1
	}
	return slices.IndexFunc(b.Columns, func(c string) bool { return strings.EqualFold(c, name) })
}

// Place puts an issue on the board, or moves it there. Without a column it is on the board in
// none. GitHub does not count this as a change of the issue.
func (s *Server) Place(ref, column string) error {
	return s.onIssue(ref, func(i *Issue) error { s.place(i, column); return nil })
}

func (d *data) place(i *Issue, column string) {
	if n := d.board.column(column); n >= 0 {
		column = d.board.Columns[n]
	}
	if it := d.board.find(i); it != nil {
		it.column = column
		return
	}
	d.board.items = append(d.board.items, &item{id: d.id(), issue: i, column: column})
}

// find returns the item of an issue; nil if there is none, or no board.
func (b *board) find(i *Issue) *item {
	if b == nil {
		return nil
	}
	return text.First(b.items, func(it *item) bool { return it.issue == i })
}

// Archive hides an issue from the board, as people do with finished ones.
func (s *Server) Archive(ref string) error {
	return s.onIssue(ref, func(i *Issue) error { s.board.find(i).archived = true; return nil })
}

// Unplace removes an issue from the board.
func (s *Server) Unplace(ref string) error {
	return s.onIssue(ref, func(i *Issue) error {
		s.board.items = slices.DeleteFunc(s.board.items, func(it *item) bool { return it.issue == i })
		return nil
	})
}

func optionID(n int) string { return fmt.Sprintf("%08x", 0xf75ad846+n) }

// boardNode answers the field projectV2 of the board's owner.
func (x *execution) boardNode(args map[string]any) any {
	b := x.board
	if number(args["number"]) != b.Number {
		panic(notFound("a ProjectV2 with the number %d.", number(args["number"])))
	}
	options := []node{}
	for n, name := range b.Columns {
		options = append(options, node{"id": optionID(n), "name": name})
	}
	shown := text.Filter(b.items, func(it *item) bool { return it.issue.exists() && !it.archived })
	return node{
		"id":    nodeID("PVT", b.id),
		"title": b.Title,
		"url":   b.url(),
		"items": connection(text.Map(shown, x.itemNode)),
		"fields": connection{
			{"__typename": "ProjectV2Field", "id": nodeID("PVTF", b.id), "name": "Title"},
			{
				"__typename": "ProjectV2SingleSelectField",
				"id":         nodeID("PVTSSF", b.id),
				"databaseId": b.fieldID(),
				"name":       columnField,
				"options":    options,
			},
		},
	}
}

// itemsOf answers the items of an issue, on all boards.
func (x *execution) itemsOf(i *Issue) connection {
	if it := x.board.find(i); it != nil {
		return connection{x.itemNode(it)}
	}
	return connection{}
}

func (x *execution) itemNode(it *item) node {
	return node{
		"__typename":     "ProjectV2Item",
		"id":             nodeID("PVTI", it.id),
		"fullDatabaseId": fmt.Sprint(it.id),
		"isArchived":     it.archived,
		"project":        node{"url": x.board.url()},
		"content":        resolver(func(map[string]any) any { return x.issueNode(it.issue) }),
		"fieldValueByName": resolver(func(args map[string]any) any {
			if it.column == "" || !strings.EqualFold(fmt.Sprint(args["name"]), columnField) {
				return nil
			}
			return node{"__typename": "ProjectV2ItemFieldSingleSelectValue", "name": it.column}
		}),
	}
}

// fieldID is the number of the field of the columns.
func (b *board) fieldID() int64 { return b.id + 500 }

// onBoard returns the board that the path names.
func (c *call) onBoard() *board {
	b := c.board
	if b == nil || !strings.EqualFold(b.Owner, c.named["org"]) ||
		fmt.Sprint(b.Number) != c.named["project_number"] {
		panic(missing)
	}
	return b
}

func (c *call) listFields() answer {
	b := c.onBoard()
	options := []any{}
	for n, name := range b.Columns {
		options = append(options, object{
			"id":   optionID(n),
			"name": object{"raw": name, "html": name},
		})
	}
	return ok([]any{object{
		"id":        b.fieldID(),
		"name":      columnField,
		"data_type": "single_select",
		"options":   options,
	}})
}

func (c *call) itemObject(it *item) object {
	return object{
		"id":           it.id,
		"content_type": "Issue",
		"content":      c.issueObject(it.issue),
		"fields": []any{object{
			"id":        c.board.fieldID(),
			"name":      columnField,
			"data_type": "single_select",
			"value":     object{"id": optionID(c.board.column(it.column)), "name": it.column},
		}},
	}
}

// itemOf returns the item that the path names.
func (c *call) itemOf() *item {
	it := text.First(
		c.onBoard().items,
		func(it *item) bool { return fmt.Sprint(it.id) == c.named["item_id"] },
	)
	if it == nil {
		panic(missing)
	}
	return it
}

// editItem moves an issue to another column.
func (c *call) editItem() answer {
	it := c.itemOf()
	var asked struct {
		Fields []struct {
			ID    int64
			Value *string
		}
	}
	c.decode(&asked)
	for _, f := range asked.Fields {
		n := slices.IndexFunc(c.board.Columns, func(name string) bool {
			return f.Value != nil && optionID(c.board.column(name)) == *f.Value
		})
		switch {
		case f.ID != c.board.fieldID() || n < 0 && f.Value != nil:
			return problem(http.StatusUnprocessableEntity, "Validation Failed")
		case f.Value == nil:
			it.column = ""
		default:
			it.column = c.board.Columns[n]
		}
	}
	return ok(c.itemObject(it))
}
