package doctor

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// Two addresses are of one repository if they differ only in how they end, or in ssh and
// https.
func TestSameRepository(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"git@gitlab.com:team/app.git", "git@gitlab.com:team/app", true},
		{"https://git.example.com/app/", "https://git.example.com/app.git", true},
		{"git@github.com:team/app.git", "https://github.com/team/app", true},
		{"git@gitlab.com:team/app.git", "https://gitlab.com/team/app", true},
		{"git@github.com:team/app.git", "git@github.com:team/other.git", false},
		{"", "", false},
	} {
		test.Equal(t, c.a+" and "+c.b, sameRepository(c.a, c.b), c.want)
	}
}
