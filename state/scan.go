package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// errStored: what was read is not what was ever written.
var errStored = errors.New("unreadable value")

// scanner is a row of a query, or its only one.
type scanner interface{ Scan(dest ...any) error }

// stamp is how a time is stored: UTC milliseconds, the zero time as NULL.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// stampOf reads what stamp wrote.
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

// nullText stores an empty text as NULL.
func nullText[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
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
