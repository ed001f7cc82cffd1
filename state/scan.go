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
// destinations of a row that is read and, as arguments of a statement, the values of a row that is written. A field is such
// a pointer for what SQLite has no type of its own for.
type field struct {
	scan  func(v any) error
	value func() (driver.Value, error)
}

// Scan implements sql.Scanner.
func (f field) Scan(v any) error { return f.scan(v) }

// Value implements driver.Valuer.
func (f field) Value() (driver.Value, error) { return f.value() }

// errStored marks a stored value that this package cannot have written.
var errStored = errors.New("unreadable value")

// fieldOf stores a field as the S that write returns. NULL is read as the zero value of S.
func fieldOf[S int64 | string](read func(S), write func() any) field {
	return field{
		func(v any) error {
			stored, ok := v.(S)
			if !ok && v != nil {
				return fmt.Errorf("%w: of type %T", errStored, v)
			}
			read(stored)
			return nil
		},
		func() (driver.Value, error) { return write(), nil },
	}
}

// stampOf stores a time as UTC milliseconds, the zero time as NULL.
func stampOf(t *time.Time) field {
	return field{
		func(v any) error {
			var ms sql.Null[int64]
			if err := ms.Scan(v); err != nil {
				return fmt.Errorf("%w: a time of type %T", errStored, v)
			}
			if *t = (time.Time{}); ms.Valid {
				*t = time.UnixMilli(ms.V).UTC()
			}
			return nil
		},
		func() (driver.Value, error) { return stamp(*t), nil },
	}
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// millisOf stores a duration in milliseconds.
func millisOf(d *time.Duration) field {
	return fieldOf(func(ms int64) { *d = time.Duration(ms) * time.Millisecond }, func() any { return d.Milliseconds() })
}

// bitsOf stores an unsigned number as the same 64 bits.
func bitsOf(n *uint64) field {
	return fieldOf(func(bits int64) { *n = uint64(bits) }, func() any { return int64(*n) })
}

// textOf stores bytes as text, none as NULL.
func textOf(b *[]byte) field {
	return fieldOf(func(text string) { *b = []byte(text) }, func() any {
		if len(*b) == 0 {
			return nil
		}
		return string(*b)
	})
}

// orNull stores the zero value as NULL.
func orNull[T comparable](v *T) field {
	return field{
		func(stored any) error {
			var value sql.Null[T]
			err := value.Scan(stored)
			*v = value.V
			return err
		},
		func() (driver.Value, error) {
			if *v == *new(T) {
				return nil, nil
			}
			return driver.DefaultParameterConverter.ConvertValue(*v)
		},
	}
}

// nilOf stores nil as the empty text.
func nilOf(s **string) field {
	return fieldOf(func(text string) {
		if *s = nil; text != "" {
			*s = &text
		}
	}, func() any {
		if *s == nil {
			return ""
		}
		return **s
	})
}

// jsonOf stores any value as JSON. An empty text is a value that was never set.
func jsonOf(v any) field {
	return field{
		func(stored any) error {
			text, _ := stored.(string)
			if text == "" {
				return nil
			}
			if err := json.Unmarshal([]byte(text), v); err != nil {
				return fmt.Errorf("%w: %w", errStored, err)
			}
			return nil
		},
		func() (driver.Value, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
	}
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
	all, err := rows(t, fields, query, args...)
	if err == nil && len(all) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return v, err
	}
	return all[0], nil
}

// readAll is rows outside of a transaction.
func readAll[T any](ctx context.Context, c *conn, doing string, fields func(*T) []any, query string, args ...any) ([]T, error) {
	all, err := rows(c.reader(ctx), fields, query, args...)
	return all, fault(c.dir, doing, err)
}

// readOne is row outside of a transaction; false where there is none.
func readOne[T any](ctx context.Context, c *conn, doing string, fields func(*T) []any, query string, args ...any) (T, bool, error) {
	v, err := row(c.reader(ctx), fields, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, fault(c.dir, doing, err)
}
