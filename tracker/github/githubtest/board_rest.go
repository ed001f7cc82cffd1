package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// fieldID is the number of the field of the columns.
func (b *board) fieldID() int64 { return b.id + 500 }

func (b *board) apiURL() string {
	return fmt.Sprint(apiURL, "orgs/", b.Owner, "/projectsV2/", b.Number)
}

// onBoard returns the board that the path names.
func (c *call) onBoard() *board {
	b := c.board
	if b == nil || !strings.EqualFold(b.Owner, c.r.PathValue("org")) || fmt.Sprint(b.Number) != c.r.PathValue("project_number") {
		panic(missing)
	}
	return b
}

func (c *call) listFields() answer {
	b := c.onBoard()
	text := func(s string) object { return object{"raw": s, "html": s} }
	options := []any{}
	for n, name := range b.Columns {
		options = append(options, object{"id": optionID(n), "name": text(name), "description": text(""), "color": "GRAY"})
	}
	return ok([]any{object{
		"id": b.fieldID(), "node_id": nodeID("PVTSSF", b.id), "name": b.Field, "data_type": "single_select", "project_url": b.apiURL(),
		"options": options, "created_at": stamp(c.repos[0].created), "updated_at": stamp(c.repos[0].created),
	}})
}

func (c *call) itemObject(it *item) object {
	o := object{
		"id": it.id, "node_id": nodeID("PVTI", it.id), "content_type": "Issue", "content": c.issueObject(it.issue),
		"project_url": c.board.apiURL(), "item_url": fmt.Sprint(c.board.apiURL(), "/items/", it.id), "archived_at": nil, "fields": []any{},
		"created_at": stamp(it.issue.CreatedAt), "updated_at": stamp(it.issue.UpdatedAt),
	}
	if n := c.board.column(it.column); n >= 0 {
		o["fields"] = []any{object{
			"id": c.board.fieldID(), "name": c.board.Field, "data_type": "single_select", "value": object{"id": optionID(n), "name": it.column},
		}}
	}
	return o
}

// listItems answers the items in one page.
func (c *call) listItems() answer {
	list := []any{}
	for _, it := range c.onBoard().items {
		if it.issue.exists() && !it.archived {
			list = append(list, c.itemObject(it))
		}
	}
	return ok(list)
}

// itemOf returns the item that the path names.
func (c *call) itemOf() *item {
	b := c.onBoard()
	i := slices.IndexFunc(b.items, func(it *item) bool { return fmt.Sprint(it.id) == c.r.PathValue("item_id") })
	if i < 0 {
		panic(missing)
	}
	return b.items[i]
}

func (c *call) getItem() answer { return ok(c.itemObject(c.itemOf())) }

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
