package reconcile

import (
	"slices"
	"strconv"
	"strings"
)

// PullWords are what people call the pull requests of a forge: "merge request !12".
type PullWords struct {
	Name  string // such as "merge request"
	Short string // such as "MR"
	sign  string // before the number, such as "!"
	// paths are what stands before the number in an address, such as merge_requests.
	paths []string
}

// The words of the forges. No other file of the core knows what addresses of pull requests
// look like.
var (
	PullRequests = PullWords{
		Name:  "pull request",
		Short: "PR",
		sign:  "#",
		paths: []string{"pull", "pulls", "pull-requests"}, // each of another forge
	}
	MergeRequests = PullWords{
		Name:  "merge request",
		Short: "MR",
		sign:  "!",
		paths: []string{"merge_requests"},
	}
)

// PullPaths returns what stands before the number in addresses of pull requests of all forges.
func PullPaths() []string { return slices.Concat(PullRequests.paths, MergeRequests.paths) }

// Title is the name with a capital letter.
func (w PullWords) Title() string { return strings.ToUpper(w.Name[:1]) + w.Name[1:] }

// PullWordsOf returns the words for what is at these addresses: PullRequests unless all are
// merge requests.
func PullWordsOf(addresses ...string) PullWords {
	isOther := func(address string) bool {
		return !slices.ContainsFunc(MergeRequests.paths, func(path string) bool {
			return strings.Contains(address, "/"+path+"/")
		})
	}
	if len(addresses) == 0 || slices.ContainsFunc(addresses, isOther) {
		return PullRequests
	}
	return MergeRequests
}

// PullName returns the short name of the pull request at an address, which may be the address
// of a tab of it: #7 for https://github.com/team/repo/pull/7/files. It is empty without a number.
func PullName(address string) string {
	for _, part := range slices.Backward(strings.Split(address, "/")) {
		if _, err := strconv.ParseUint(part, 10, 63); err == nil {
			return PullWordsOf(address).sign + part
		}
	}
	return ""
}
