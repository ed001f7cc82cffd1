package proc

// OwnScope is not possible on macOS, which has no cgroups.
func OwnScope(string) (cgroup string, ok bool) { return "", false }

// killScope has nothing to kill.
func killScope(string) (bool, error) { return false, nil }
