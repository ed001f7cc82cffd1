package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// fieldID is the number of the field of the columns.
func (b *board) fieldID() int64 { return b.id + 500 }

// onBoard returns the board that the path names.
func (c *call) onBoard() *board {
	b := c.board
	if b == nil || !strings.EqualFold(b.Owner, c.named["org"]) || fmt.Sprint(b.Number) != c.named["project_number"] {
		panic(missing)
	}
	return b
}

func (c *call) listFields() answer {
	b := c.onBoard()
	options := []any{}
	for n, name := range b.Columns {
		options = append(options, object{"id": optionID(n), "name": object{"raw": name, "html": name}})
	}
	return ok([]any{object{"id": b.fieldID(), "name": columnField, "data_type": "single_select", "options": options}})
}

func (c *call) itemObject(it *item) object {
	return object{
		"id": it.id, "content_type": "Issue", "content": c.issueObject(it.issue), "fields": []any{object{
			"id": c.board.fieldID(), "name": columnField, "data_type": "single_select",
			"value": object{"id": optionID(c.board.column(it.column)), "name": it.column},
		}},
	}
}

// itemOf returns the item that the path names.
func (c *call) itemOf() *item {
	it := text.First(c.onBoard().items, func(it *item) bool { return fmt.Sprint(it.id) == c.named["item_id"] })
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
