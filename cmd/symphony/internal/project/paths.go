package project

// temporaryAbove is the temporary directory that a path lies in, empty for none.
func TemporaryAbove(path, tmpdir string) string {
	for _, temporary := range []string{"/tmp", "/var/tmp", "/dev/shm", tmpdir} {
		if temporary != "" && Within(path, Resolve(temporary)) {
			return temporary
		}
	}
	return ""
}
