package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// errStored marks a stored value that this package cannot have written.
var errStored = errors.New("unreadable value")

// scanner is a row of a query, or its only one.
type scanner interface{ Scan(dest ...any) error }

// stamp stores a time as UTC milliseconds, the zero time as NULL.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// stampOf reads a time that stamp wrote.
type stampOf struct{ t *time.Time }

// Scan implements sql.Scanner.
func (s stampOf) Scan(v any) error {
	switch ms := v.(type) {
	case nil:
		*s.t = time.Time{}
	case int64:
		*s.t = time.UnixMilli(ms).UTC()
	default:
		return fmt.Errorf("%w: a time of type %T", errStored, v)
	}
	return nil
}

// millisOf reads a duration that was stored in milliseconds.
type millisOf struct{ d *time.Duration }

// Scan implements sql.Scanner.
func (m millisOf) Scan(v any) error {
	ms, ok := v.(int64)
	if !ok {
		return fmt.Errorf("%w: a duration of type %T", errStored, v)
	}
	*m.d = time.Duration(ms) * time.Millisecond
	return nil
}

// jsonOf reads a value that was stored as JSON.
type jsonOf struct{ v any }

// Scan implements sql.Scanner.
func (j jsonOf) Scan(v any) error {
	var text []byte
	switch s := v.(type) {
	case string:
		text = []byte(s)
	case []byte:
		text = s
	default:
		return fmt.Errorf("%w: JSON of type %T", errStored, v)
	}
	if err := json.Unmarshal(text, j.v); err != nil {
		return fmt.Errorf("%w: %w", errStored, err)
	}
	return nil
}

func toJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(text), nil
}

// linksText stores the links of a run as JSON, none as an empty text.
func linksText(links []reconcile.Link) (string, error) {
	if len(links) == 0 {
		return "", nil
	}
	return toJSON(links)
}

// linksOf reads links that linksText wrote.
type linksOf struct{ links *[]reconcile.Link }

// Scan implements sql.Scanner.
func (l linksOf) Scan(v any) error {
	if v == "" {
		*l.links = nil
		return nil
	}
	return jsonOf{l.links}.Scan(v)
}

// nullText stores an empty text as NULL.
func nullText[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// tokenColumns are the destinations of the columns input, cached, output, reasoning, total, in this order.
func tokenColumns(t *reconcile.Tokens) []any {
	return []any{&t.Input, &t.Cached, &t.Output, &t.Reasoning, &t.Total}
}

// scanOne reads a row of one column.
func scanOne[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// collect reads all rows of a query by scan and never returns nil without an error.
func collect[T any](rows *sql.Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// found turns the answer for one row into a value, whether there was one, and an error for users.
func found[T any](dir, doing string, v T, err error) (T, bool, error) {
	var none T
	if errors.Is(err, sql.ErrNoRows) {
		return none, false, nil
	}
	if err != nil {
		return none, false, fault(dir, doing, err)
	}
	return v, true, nil
}
