package host

import (
	"slices"
	"strings"
)

// The environment variables that mark the processes of a run.
const (
	RunMark    = "SYMPHONY_RUN_ID" // forced into agents, hooks and agents' commands
	ThreadMark = "CODEX_THREAD_ID" // set by codex for each command of a thread
)

// GitRepositoryVars are the variables that select git's repository, or parts of it: the output
// of git rev-parse --local-env-vars, in any version, without settings, and the variables that
// git sets for hooks of a push.
var GitRepositoryVars = []string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE",
	"GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE",
	"GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH",
	"GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
}

// CertificateVars name files with the certificates that programs trust. Behind the proxy of a
// company, which looks into HTTPS, agents reach their model only with them.
var CertificateVars = []string{
	"AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "CURL_CA_BUNDLE", "DENO_CERT", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE",
	"NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
}

// Scrub returns env ("NAME=value" entries) without the variables of a run and without the
// names in drop. Other runs must not see them: a worker that inherited ThreadMark, for
// example, would count as a process of that thread's run.
func Scrub(env []string, drop ...string) []string {
	drop = append(
		[]string{RunMark, ThreadMark, "SYMPHONY_ATTEMPT", "SYMPHONY_WORKSPACE", "SYMPHONY_OUTCOME"},
		drop...)
	// never nil: os/exec replaces nil by this process's environment
	kept := append([]string{}, env...)
	return slices.DeleteFunc(kept, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "SYMPHONY_ISSUE_") || slices.Contains(drop, name)
	})
}

// Variable returns the value of a variable in env ("NAME=value" entries), empty if it is not
// set.
func Variable(env []string, name string) string {
	for _, entry := range env {
		value, found := strings.CutPrefix(entry, name+"=")
		if found {
			return value
		}
	}
	return ""
}
