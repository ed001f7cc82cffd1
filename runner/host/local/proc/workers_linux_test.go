package proc

import "testing"

// Only a command line that a pass has written is a worker's.
func TestWorkerArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args                 []string
		run, state, workflow string
	}{
		"worker":        {[]string{"symphony", "worker", "--run", "run-1", "--state-dir", "/s", "--workflow", "/x"}, "run-1", "/s", "/x"},
		"other command": {[]string{"symphony", "logs", "--run", "run-1", "--state-dir", "/s"}, "", "", ""},
		"cut off":       {[]string{"symphony", "worker", "--state-dir", "/s", "--run"}, "", "/s", ""},
		"a shell":       {[]string{"sh", "-c", "symphony worker --run run-1 --state-dir /s"}, "", "", ""},
		"nothing":       {nil, "", "", ""},
	} {
		if run, state, workflow := workerArguments(c.args); run != c.run || state != c.state || workflow != c.workflow {
			t.Errorf("%s: %q, %q, %q", name, run, state, workflow)
		}
	}
	if found, err := Workers("/nowhere"); err != nil || len(found) > 0 {
		t.Errorf("workers of a directory that is not there: %v, %v", found, err)
	}
}
