package gitlabtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// command is git in the repository of the first project.
func (s *Server) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), "git", append([]string{"--git-dir", s.Remote}, args...)...)
	cmd.Env = append(
		os.Environ(),
		"GIT_AUTHOR_NAME=GitLab", "GIT_AUTHOR_EMAIL=gitlab@example.com",
		"GIT_COMMITTER_NAME=GitLab", "GIT_COMMITTER_EMAIL=gitlab@example.com",
	)
	return cmd
}

// git runs git, whose error tells that something does not exist.
func (s *Server) git(args ...string) error { return s.command(args...).Run() }

// output returns what git prints; nothing if it fails.
func (s *Server) output(args ...string) string {
	out, _ := s.command(args...).Output()
	return strings.TrimSpace(string(out))
}

// commitOf returns the newest commit of a branch; empty if there is none.
func (s *Server) commitOf(branch string) string {
	if s.Remote == "" {
		return ""
	}
	return s.output("rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
}
