// Bare opens the database of a pass with the same pragmas, asks it one thing, and makes one HTTP request: what no pass in
// Go can do without, whatever it is for.
//
//	LINEAR_API_KEY=… bare DATABASE ENDPOINT BODY-FILE
package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: bare DATABASE ENDPOINT BODY-FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func run(database, endpoint, bodyFile string) (err error) {
	passes, err := countPasses(database)
	if err != nil {
		return err
	}
	body, err := os.ReadFile(bodyFile)
	if err != nil {
		return err
	}
	size, err := ask(endpoint, body)
	if err != nil {
		return err
	}
	fmt.Printf("%d passes, %d bytes\n", passes, size)
	return nil
}

func countPasses(path string) (n int, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(full)")
	if err != nil {
		return 0, err
	}
	defer func() {
		if closeErr := db.Close(); err == nil {
			err = closeErr
		}
	}()
	db.SetMaxOpenConns(1)
	var mode string
	if err := db.QueryRow(`PRAGMA journal_mode = wal`).Scan(&mode); err != nil {
		return 0, err
	}
	err = db.QueryRow(`SELECT count(*) FROM passes`).Scan(&n)
	return n, err
}

func ask(endpoint string, body []byte) (size int64, err error) {
	req, err := http.NewRequest(http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", os.Getenv("LINEAR_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	size, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %s", resp.Status)
	}
	return size, err
}
