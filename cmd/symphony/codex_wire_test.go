package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// wireLine is a line of a recording: what the client sent ("send") or received ("recv"), and when after the start.
type wireLine struct {
	T   float64         `json:"t"`
	Dir string          `json:"dir"`
	Msg json.RawMessage `json:"msg"`
}

// wireMain stands between a session and its agent and writes down what goes either way: codex-wire FOLDER
// COMMAND ARG... It ends as the agent does.
func wireMain() {
	code, err := runWire(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "codex-wire:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runWire(folder string, command []string) (code int, err error) {
	began := time.Now()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 1, err
	}
	file, err := os.OpenFile(filepath.Join(folder, fmt.Sprintf("%d.jsonl", began.UnixNano())), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 1, err
	}
	defer file.Close()
	w := &wire{began: began, to: json.NewEncoder(file)}
	w.to.SetEscapeHTML(false)

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 1, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range terminated {
			_ = cmd.Process.Signal(s) // an agent that is gone needs none
		}
	}()
	go func() {
		_ = w.copy(stdin, os.Stdin, "send") // an agent that is gone reads nothing
		_ = stdin.Close()
	}()
	received := w.copy(os.Stdout, stdout, "recv")
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		signal.Reset()
		if err := syscall.Kill(os.Getpid(), status.Signal()); err != nil {
			return 1, err
		}
	}
	return cmd.ProcessState.ExitCode(), received
}

// wire writes lines down before it hands them on.
type wire struct {
	began time.Time
	mu    sync.Mutex
	to    *json.Encoder
}

func (w *wire) copy(to io.Writer, from io.Reader, dir string) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if noted := w.note(dir, line); noted != nil {
				return noted
			}
			if _, wrote := to.Write(line); wrote != nil {
				return wrote
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *wire) note(dir string, line []byte) error {
	msg := json.RawMessage(line)
	if !json.Valid(line) {
		text, err := json.Marshal(string(line))
		if err != nil {
			return err
		}
		msg = text
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Encode(wireLine{T: time.Since(w.began).Seconds(), Dir: dir, Msg: msg})
}
