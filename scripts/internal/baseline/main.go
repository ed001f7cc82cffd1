// Baseline does the minimum of work for the same result as the program. scripts/bench divides the cost of the program by that of baseline.
//
//	baseline requests DATABASE ENDPOINT FILE   sends the request bodies in FILE, one per line, decodes the issues and stores each once
//	baseline heartbeats DATABASE RUN           updates the heartbeat of a run every five seconds, until stdin ends
//	baseline rows DATABASE SQL...              reads all rows of the queries
//	baseline spin DURATION                     uses that much CPU time, as the programs of a slow login profile do
package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

func main() {
	err := errors.New("usage: baseline requests|heartbeats|rows DATABASE ARGUMENTS, or baseline spin DURATION")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "spin":
		err = spin(os.Args[2])
	case len(os.Args) > 3:
		err = run(os.Args[1], os.Args[2], os.Args[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}

func run(command, database string, args []string) (err error) {
	db, err := sql.Open("sqlite", "file:"+database+"?mode=rw&_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=synchronous(normal)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	switch command {
	case "requests":
		return requests(db, args[0], args[1])
	case "heartbeats":
		return heartbeats(db, args[0])
	case "rows":
		for _, query := range args {
			if err := rows(db, query); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("unknown command %q", command)
}

func spin(text string) error {
	limit, err := time.ParseDuration(text)
	for used := time.Duration(0); err == nil && used < limit; {
		var usage syscall.Rusage
		err = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		used = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return err
}

// issue has the fields that the program requests and stores.
type issue struct {
	ID          string    `json:"id"`
	Identifier  string    `json:"identifier"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Priority    float64   `json:"priority"`
	BranchName  string    `json:"branchName"`
	URL         string    `json:"url"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
	State       struct{ Name string }
	Labels      struct{ Nodes []struct{ Name string } }
	Relations   struct{ Nodes []json.RawMessage } `json:"inverseRelations"`
}

func requests(db *sql.DB, endpoint, file string) error {
	var passes int
	if err := db.QueryRow(`SELECT count(*) FROM passes`).Scan(&passes); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	stored := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		issues, err := fetch(endpoint, lines.Bytes())
		if err != nil {
			return err
		}
		if err := store(db, issues, stored); err != nil {
			return err
		}
	}
	return lines.Err()
}

func fetch(endpoint string, body []byte) ([]issue, error) {
	req, err := http.NewRequest(http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", os.Getenv("LINEAR_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, errors.Join(err, fmt.Errorf("HTTP %s: %.200s", resp.Status, data))
	}
	var answer struct {
		Data struct{ Issues struct{ Nodes []issue } }
	}
	err = json.Unmarshal(data, &answer)
	return answer.Data.Issues.Nodes, err
}

// store writes the issues of a page that were not stored before in one transaction.
func store(db *sql.DB, issues []issue, stored map[string]bool) error {
	if len(issues) == 0 {
		return nil
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	for _, i := range issues {
		if stored[i.ID] {
			continue
		}
		stored[i.ID] = true
		text, err := json.Marshal(i)
		if err == nil {
			_, err = tx.Exec(`UPDATE claims SET issue = ?, version = version + 1, updated_at = ? WHERE issue_id = ?`,
				string(text), time.Now().UnixMilli(), i.ID)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func heartbeats(db *sql.DB, run string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end of stdin ends the program
		cancel()
	}()
	tick := time.NewTicker(5 * time.Second)
	for {
		var stop string
		// Like a worker it waits for the write lock, and reads whether it has to stop.
		err := db.QueryRowContext(ctx, `UPDATE runs SET heartbeat_at = ?, beats = beats + 1 WHERE id = ?
			RETURNING coalesce(stop_reason, '')`, time.Now().UnixMilli(), run).Scan(&stop)
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func rows(db *sql.DB, query string) error {
	list, err := db.Query(query)
	if err != nil {
		return err
	}
	defer list.Close()
	columns, err := list.Columns()
	if err != nil {
		return err
	}
	values := make([]any, len(columns))
	for n := range values {
		values[n] = new(any)
	}
	count := 0
	for ; list.Next(); count++ {
		if err := list.Scan(values...); err != nil {
			return err
		}
	}
	fmt.Println(count)
	return list.Err()
}
