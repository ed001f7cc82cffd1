package gitea

import (
	"net/http"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// If Gitea died in the middle of a push its database lacks a branch that git has, for ever. The branch
// gets its pull request nevertheless.
func TestBranchOnlyInGit(t *testing.T) {
	p := newPlace(t)
	p.git("checkout", "-q", "-B", "here", "refs/pushed/main")
	p.git("commit", "-q", "--allow-empty", "-m", "work")
	hookless := "--receive-pack=git -c core.hooksPath=/dev/null receive-pack"
	p.git("push", "-q", hookless, p.Git(p.repository), "HEAD:refs/heads/work")
	path := "/repos/" + p.repository + "/branches/work"
	test.Err(0, p.As(giteatest.Owner, http.MethodGet, path, nil, nil))
	opened := test.Must(p.connect(p.Token).Open(t.Context(), reconcile.NewPull{
		Branch: "work",
		Base:   "main",
		Title:  "T",
		Commit: p.git("rev-parse", "HEAD"),
	}))
	test.Equal(t, "it is opened", opened.Opened, true)
}

// Who may merge depends on the base, if that is protected.
func TestMayMerge(t *testing.T) {
	p := newPlace(t)
	p.commit("other")
	forge := p.connect(p.Token)
	may := func(base string) bool { return test.Must(forge.MayMerge(t.Context(), base)) }
	test.Equal(t, "into the default branch", may(""), true)
	p.as(t, giteatest.Owner)(http.MethodPost, "/repos/"+p.repository+"/branch_protections", map[string]any{
		"rule_name":                 "main",
		"enable_merge_whitelist":    true,
		"merge_whitelist_usernames": []string{giteatest.Owner},
	}, nil)
	test.Equal(t, "into a protected branch", may(""), false)
	test.Equal(t, "into it by name", may("main"), false)
	test.Equal(t, "into another", may("other"), true)
}
