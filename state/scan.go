package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// A type that is stored has a function that returns pointers to its fields in the order of its columns. They are the
// destinations of a row that is read and, as arguments of a statement, the values of a row that is written. The types
// below are such pointers for what SQLite has no type of its own for.

// errStored marks a stored value that this package cannot have written.
var errStored = errors.New("unreadable value")

// stampOf stores a time as UTC milliseconds, the zero time as NULL.
type stampOf struct{ t *time.Time }

// Scan implements sql.Scanner.
func (s stampOf) Scan(v any) error {
	var ms sql.Null[int64]
	if err := ms.Scan(v); err != nil {
		return fmt.Errorf("%w: a time of type %T", errStored, v)
	}
	*s.t = time.Time{}
	if ms.Valid {
		*s.t = time.UnixMilli(ms.V).UTC()
	}
	return nil
}

// Value implements driver.Valuer.
func (s stampOf) Value() (driver.Value, error) { return stamp(*s.t), nil }

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// millisOf stores a duration in milliseconds.
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

// Value implements driver.Valuer.
func (m millisOf) Value() (driver.Value, error) { return m.d.Milliseconds(), nil }

// bitsOf stores an unsigned number as the same 64 bits.
type bitsOf struct{ n *uint64 }

// Scan implements sql.Scanner.
func (b bitsOf) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("%w: a number of type %T", errStored, v)
	}
	*b.n = uint64(n)
	return nil
}

// Value implements driver.Valuer.
func (b bitsOf) Value() (driver.Value, error) { return int64(*b.n), nil }

// orNull stores the zero value as NULL.
type orNull[T comparable] struct{ v *T }

// Scan implements sql.Scanner.
func (o orNull[T]) Scan(v any) error {
	var value sql.Null[T]
	err := value.Scan(v)
	*o.v = value.V
	return err
}

// Value implements driver.Valuer.
func (o orNull[T]) Value() (driver.Value, error) {
	if *o.v == *new(T) {
		return nil, nil
	}
	return driver.DefaultParameterConverter.ConvertValue(*o.v)
}

// jsonOf stores any value as JSON.
type jsonOf struct{ v any }

// Scan implements sql.Scanner.
func (j jsonOf) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("%w: JSON of type %T", errStored, v)
	}
	if err := json.Unmarshal([]byte(text), j.v); err != nil {
		return fmt.Errorf("%w: %w", errStored, err)
	}
	return nil
}

// Value implements driver.Valuer.
func (j jsonOf) Value() (driver.Value, error) {
	text, err := json.Marshal(j.v)
	return string(text), err
}

// linksOf stores links as JSON, none as an empty text.
type linksOf struct{ links *[]reconcile.Link }

// Scan implements sql.Scanner.
func (l linksOf) Scan(v any) error {
	if v == "" {
		*l.links = nil
		return nil
	}
	return jsonOf{l.links}.Scan(v)
}

// Value implements driver.Valuer.
func (l linksOf) Value() (driver.Value, error) {
	if len(*l.links) == 0 {
		return "", nil
	}
	return jsonOf{l.links}.Value()
}

// textOf stores bytes as text, none as NULL.
type textOf struct{ b *[]byte }

// Scan implements sql.Scanner.
func (t textOf) Scan(v any) error {
	*t.b = nil
	if text, ok := v.(string); ok {
		*t.b = []byte(text)
	}
	return nil
}

// Value implements driver.Valuer.
func (t textOf) Value() (driver.Value, error) {
	if len(*t.b) == 0 {
		return nil, nil
	}
	return string(*t.b), nil
}

const tokenColumns = `input, cached, output, reasoning, total`

func tokenFields(t *reconcile.Tokens) []any {
	return []any{&t.Input, &t.Cached, &t.Output, &t.Reasoning, &t.Total}
}

// itself are the fields of a row of one column.
func itself[T any](v *T) []any { return []any{v} }

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, v := range list {
		set[v] = true
	}
	return set
}

// marks are the placeholders for the values of some columns.
func marks(columns string) string { return "?" + strings.Repeat(", ?", strings.Count(columns, ",")) }

// rows are the rows of a query, read one after the other. It never returns nil without an error.
func rows[T any](t tx, fields func(*T) []any, query string, args ...any) ([]T, error) {
	found, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	all := []T{}
	for found.Next() {
		var v T
		if err := found.Scan(fields(&v)...); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, found.Err()
}

// row is the first row of a query, sql.ErrNoRows where there is none.
func row[T any](t tx, fields func(*T) []any, query string, args ...any) (v T, err error) {
	err = t.QueryRowContext(t.ctx, query, args...).Scan(fields(&v)...)
	return v, err
}

// readAll is rows outside of a transaction.
func readAll[T any](ctx context.Context, c *conn, doing string, fields func(*T) []any, query string, args ...any) ([]T, error) {
	all, err := rows(c.reader(ctx), fields, query, args...)
	return all, fault(c.dir, doing, err)
}

// readOne is row outside of a transaction; false where there is none.
func readOne[T any](ctx context.Context, c *conn, doing string, fields func(*T) []any, query string, args ...any) (T, bool, error) {
	v, err := row(c.reader(ctx), fields, query, args...)
	if err != nil {
		v = *new(T) // a failed Scan may have filled a part of it
	}
	if errors.Is(err, sql.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, fault(c.dir, doing, err)
}
