// Stopwatch runs programs one after the other and says what each took. It is a program of its own and does little,
// because Linux gives a new process the peak memory of its parent as a start: started by a large one, a small
// program could not be measured.
//
// A line of stdin is a JSON Job, a line of stdout the Result. It ends with stdin.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Job is a program to run.
type Job struct {
	Argv []string
	Env  []string
	Dir  string
}

// Result is what it took. CPU is the user and system time of the process and of those that it waited for.
type Result struct {
	WallNS, CPUNS int64
	PeakKiB       int64
	// Faults are page faults, Disk those of them that had to read from a disk.
	Faults, Disk int64
	Exit         int
	Stdout       string
	Stderr       string
	// Err says why it could not be run.
	Err string
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var job Job
		r := Result{}
		if err := json.Unmarshal(lines.Bytes(), &job); err != nil || len(job.Argv) == 0 {
			r.Err = fmt.Sprintf("no job: %s", lines.Text())
		} else {
			r = run(job)
		}
		if err := out.Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, "stopwatch:", err)
			os.Exit(1)
		}
	}
}

func run(job Job) (r Result) {
	// Files: with a pipe the end of the output would be waited for, and be part of the measurement.
	var files [2]*os.File
	for i := range files {
		f, err := os.CreateTemp("", "stopwatch-")
		if err != nil {
			return Result{Err: err.Error()}
		}
		defer f.Close()
		defer os.Remove(f.Name())
		files[i] = f
	}
	cmd := exec.Command(job.Argv[0], job.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = job.Env, job.Dir, files[0], files[1]
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return Result{Err: err.Error()}
	}
	err := cmd.Wait()
	r.WallNS = int64(time.Since(began))
	if state := cmd.ProcessState; state != nil {
		r.CPUNS, r.Exit = int64(state.UserTime()+state.SystemTime()), state.ExitCode()
		used := state.SysUsage().(*syscall.Rusage)
		r.PeakKiB, r.Faults, r.Disk = used.Maxrss, used.Minflt+used.Majflt, used.Majflt
	} else {
		r.Err = err.Error()
	}
	for i, to := range []*string{&r.Stdout, &r.Stderr} {
		data, err := os.ReadFile(files[i].Name())
		if err != nil {
			return Result{Err: err.Error()}
		}
		*to = string(data)
	}
	return r
}
